"""The door of the package: charts, a film and a Chrome trace of a stored result, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from btbench.charts.distribution import distribution_chart
from btbench.charts.gap import gap_chart
from btbench.charts.perfetto import write_perfetto
from btbench.charts.reduction import reduction_chart
from btbench.charts.saving import FORMATS, check_formats, file_name, save_figure, stem_of
from btbench.charts.stacks import hits_chart, split_chart
from btbench.charts.timeline import timeline_chart
from btbench.charts.ttft import ttft_chart
from btbench.charts.view import View, open_view
from btbench.charts.window import WHOLE, Choice, need_window
from btbench.charts.work import copies_chart, prefill_chart
from btbench.errors import OutputError
from btbench.progress import Progress, silent
from btbench.results.files import COPIES, REQUESTS
from btbench.results.folder import CHARTS
from btbench.results.report import REPORT, report_page
from btbench.results.summary import ALL
from btbench.results.whole import whole_file, whole_files

PARTS = 4  # of a trace that are drawn apart, at most

RESULT_CHARTS: tuple[tuple[str, Callable[[View], Figure | None]], ...] = (  # and the timeline, which is of one window
    ("reduction", reduction_chart),
    ("ttft", ttft_chart),
    ("gap_to_floor", gap_chart),
    ("ttft_split", split_chart),
    ("ttft_distribution", distribution_chart),
    ("hit_tokens", hits_chart),
    ("prefill", prefill_chart),
    ("copies", copies_chart),
)

Tell = Callable[[str], None]  # hears what a user should know, though the work goes on


class _Chart(NamedTuple):
    stem: str
    names: list[str]  # of its files, one a format
    draw: Callable[[View], Figure | None]
    view: View


def draw_result(
    folder: Path,
    formats: Sequence[str] = ("png",),
    theme: str = "light",
    part: str = ALL,
    choice: Choice = WHOLE,
    out: Path | None = None,
    progress: Progress = silent,
    tell: Tell = lambda text: None,
    *,
    film: bool = False,
    perfetto: Path | None = None,
    force: bool = False,
) -> list[Path]:
    """Draw the charts of the result in `folder` into its charts and renew its report, or draw them into `out`.

    They are of the whole trace, and the reductions of its parts too; or of one part. `choice` is what the timeline
    shows, and the `film` and the Chrome trace `perfetto`, where they are asked for. All files are written, or none.
    Returns their paths; a chart that the result has no data for is left out. `tell` hears of what is missing, and of
    charts of before that stay or go. Raises OutputError where there is no result, or something else is to be replaced
    without `force`, UsageError for an unknown name, theme or format.
    """
    formats = check_formats(formats)
    with open_view(folder, theme, part) as view:
        own = view.folder / CHARTS
        target = own if out is None or out.resolve() == own.resolve() else out
        charts = _charts(view, choice, formats)
        moving = [file_name(stem_of("timeline", part), "gif", view.theme)] if film else []
        if not force:
            names = [*(name for chart in charts for name in chart.names), *moving]
            _check_free([] if target == own else [target / name for name in names], perfetto)
        if film or perfetto or choice != WHOLE:
            need_window(view, choice)  # before anything is drawn
        _tell_of_missing(view, tell)
        with ExitStack() as whole:
            report = whole.enter_context(whole_file(view.folder / REPORT)) if target == own else None
            beside = perfetto is not None and perfetto.parent.resolve() == target.resolve()
            trace = whole.enter_context(whole_file(perfetto)) if perfetto and not beside else None
            aside = whole.enter_context(whole_files(target))
            drawn = _draw(charts, aside, formats, progress)
            for name in moving:
                _write_film(view, choice, aside / name, progress)
            if perfetto:
                write_perfetto(view, choice, trace or aside / perfetto.name)
            stale = _other_forms(own, drawn) if report else []
            if report:
                kept = [path for path in own.iterdir() if path not in stale and not (aside / path.name).exists()]
                report.write_text(report_page(view.folder, [*aside.iterdir(), *kept]), encoding="utf-8")
        for path in stale:
            path.unlink()
    _tell_of_old(target, [name for chart in charts if chart not in drawn for name in chart.names], stale, view, tell)
    paths = [target / name for name in [*(name for chart in drawn for name in chart.names), *moving]]
    return [*paths, perfetto] if perfetto else paths


def _charts(view: View, choice: Choice, formats: Sequence[str]) -> list[_Chart]:
    """Those of the part in view, and of the whole trace the reductions of its parts: bursts and ordinary traffic."""
    found = [(name, draw, view) for name, draw in RESULT_CHARTS]
    found.append(("timeline", lambda view: timeline_chart(view, choice), view))
    apart = view.result.distinct_parts[1 : 1 + PARTS] if view.part == ALL else []
    found += [("reduction", reduction_chart, replace(view, part=part)) for part in apart]
    return [
        _Chart(stem, [file_name(stem, kind, view.theme) for kind in formats], draw, shown)
        for name, draw, shown in found
        if (stem := stem_of(name, shown.part))
    ]


def _check_free(files: Sequence[Path], perfetto: Path | None) -> None:
    """Raise OutputError where one of the files is there."""
    if there := [file for file in files if file.exists()]:
        more = f" and {len(there) - 3} more" if len(there) > 3 else ""
        named = ", ".join(file.name for file in there[:3])
        raise OutputError(
            f"{there[0].parent} holds {named}{more} already",
            "Replace them with --force, or choose another folder with --out.",
        )
    if perfetto is not None and perfetto.exists():
        raise OutputError(f"{perfetto} exists already", "Replace it with --force, or choose another file.")


def _draw(charts: Sequence[_Chart], folder: Path, formats: Sequence[str], progress: Progress) -> list[_Chart]:
    """Draw the charts into the folder; returns those that the result has data for."""
    drawn = []
    for k, chart in enumerate(charts):
        progress("drawing", k, len(charts))
        figure = chart.draw(chart.view)
        if figure is not None:
            save_figure(figure, folder, chart.stem, formats, chart.view.theme)
            drawn.append(chart)
    return drawn


def _write_film(view: View, choice: Choice, path: Path, progress: Progress) -> None:
    from btbench.charts.animation import write_film  # which takes Pillow

    write_film(view, choice, path, progress)


def _other_forms(folder: Path, drawn: Sequence[_Chart]) -> list[Path]:
    """Files of charts that were drawn, in a form that was not: they show what was chosen before."""
    forms = [(chart, f"{Path(chart.names[0]).stem}.{kind}") for chart in drawn for kind in FORMATS]
    return [folder / name for chart, name in forms if name not in chart.names and (folder / name).is_file()]


def _tell_of_missing(view: View, tell: Tell) -> None:
    if view.requests() is None:
        tell(f"{view.folder} holds no {REQUESTS}, so no distribution, prefill and timeline are drawn")
    elif view.copies() is None and any(row["copies"] for row in view.rows.values()):
        tell(f"{view.folder} holds no {COPIES}, so the timeline shows no copies, and all are taken to be of one size")


def _tell_of_old(target: Path, names: Sequence[str], removed: Sequence[Path], view: View, tell: Tell) -> None:
    if old := [name for name in names if (target / name).exists()]:
        why = "the result has no data for them" + ("" if (view.folder / REQUESTS).exists() else f" without {REQUESTS}")
        tell(f"not drawn again, as {why}: {', '.join(old)}; those in {target} are of before")
    if removed:
        tell(f"removed from {target}, as other forms were drawn: {', '.join(path.name for path in removed)}")
