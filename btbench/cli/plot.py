"""`btbench plot`: the charts of a stored result."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from btbench.cli.console import progress_bar
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


def plot(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="Folder of a result of `btbench replay`.")],
    charts: ChartsOption = "",
    theme: ThemeOption = Theme.light,
    part: Annotated[str, typer.Option("--part", metavar="NAME", help="Draw this part of the trace.")] = "all",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the charts. [default: RESULT/charts]")
    ] = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Draw the charts of a stored result again, and print their paths.

    \b
    Examples:
      btbench plot results/default
      btbench plot results/default --charts svg,pdf --theme dark
    """
    from btbench.charts.draw import draw_result

    with progress_bar(quiet) as progress:
        paths = draw_result(result, chart_formats(charts), theme.value, part=part, out=out, progress=progress)
    for path in paths:
        print(path)
