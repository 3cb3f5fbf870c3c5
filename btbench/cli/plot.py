"""`btbench plot`: the charts of a stored result."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from btbench.cli.console import note, progress_bar
from btbench.cli.options import DebugOption, QuietOption


class Theme(StrEnum):
    """The page charts are drawn for."""

    light = "light"
    dark = "dark"


ChartsOption = Annotated[
    str, typer.Option("--charts", metavar="FORMATS", help="Formats beside PNG: svg, pdf, or svg,pdf.")
]
ThemeOption = Annotated[Theme, typer.Option("--theme", help="The page to draw for; dark ones are named *-dark.")]


def chart_formats(wanted: str) -> list[str]:
    """PNG, and what `--charts` names."""
    return ["png", *(name.strip().lower() for name in wanted.split(",") if name.strip())]


ResultArgument = Annotated[Path, typer.Argument(metavar="RESULT", help="Folder of a result of `btbench replay`.")]
PartOption = Annotated[str, typer.Option("--part", metavar="NAME", help="Draw this part of the trace.")]
SetupOption = Annotated[
    str | None, typer.Option("--setup", "-s", metavar="NAME", help="Setup of the timeline. [default: the first]")
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window", metavar="ID", help="Window of the timeline. [default: where the baseline's mean TTFT is longest]"
    ),
]
SpanOption = Annotated[
    str, typer.Option("--span", metavar="FROM:TO", help="Seconds of the window to show. [default: all]")
]
AnimateOption = Annotated[
    bool, typer.Option("--animate", help="Also write a GIF: replicas, queues and copies of the window, moving.")
]
PerfettoOption = Annotated[
    Path | None,
    typer.Option("--perfetto", metavar="FILE", help="Also write the window as a Chrome trace for ui.perfetto.dev."),
]
FolderOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the charts. [default: RESULT/charts]")
]
ReplaceOption = Annotated[bool, typer.Option("--force", help="Replace files in DIR, and FILE.")]


def plot(
    result: ResultArgument,
    charts: ChartsOption = "",
    theme: ThemeOption = Theme.light,
    part: PartOption = "all",
    setup: SetupOption = None,
    window: WindowOption = None,
    span: SpanOption = "",
    animate: AnimateOption = False,
    perfetto: PerfettoOption = None,
    out: FolderOption = None,
    force: ReplaceOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Draw the charts of a stored result again, renew its report.html, and print their paths.

    With --out the charts go elsewhere, and the report stays as it is.

    \b
    Examples:
      btbench plot results/default
      btbench plot results/default --charts svg,pdf --theme dark
      btbench plot results/default --animate --perfetto run.json
      btbench plot results/default --window synthetic_00003 --span 50:90
    """
    from btbench.charts.draw import draw_result
    from btbench.charts.window import Choice

    choice = Choice(setup, window, _span(span))
    tell = (lambda text: None) if quiet else note
    with progress_bar(quiet) as progress:
        paths = draw_result(
            result, chart_formats(charts), theme.value, part, choice, out, progress, tell,
            film=animate, perfetto=perfetto, force=force,
        )  # fmt: skip
    for path in paths:
        print(path)


def _span(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    from btbench.errors import UsageError

    try:
        first, last = (float(end) for end in text.split(":"))
    except ValueError:
        first, last = 0.0, 0.0
    if not first < last:
        raise UsageError(
            f"--span {text}: not a span of time", "Two numbers of seconds, the smaller first: --span 50:90"
        )
    return first, last
