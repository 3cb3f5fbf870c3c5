"""The doors of the package: charts, a film and a Chrome trace of a stored result, from its files alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from btbench.charts.distribution import distribution_chart
from btbench.charts.gap import gap_chart
from btbench.charts.palette import themed
from btbench.charts.reduction import reduction_chart
from btbench.charts.saving import check_formats, file_name, save_figure
from btbench.charts.stacks import hits_chart, split_chart
from btbench.charts.timeline import timeline_chart
from btbench.charts.ttft import ttft_chart
from btbench.charts.view import View
from btbench.charts.window import WHOLE, Choice
from btbench.charts.work import copies_chart, prefill_chart
from btbench.errors import BtbenchError, UsageError, nearest
from btbench.progress import Progress, silent
from btbench.results.files import REQUESTS, SCENARIO, load_result
from btbench.results.report import write_report
from btbench.results.summary import ALL
from btbench.scenario import Scenario, load_scenario

FOLDER = "charts"  # of a result, where its charts are
PARTS = 4  # of a trace that are drawn apart, at most

CHARTS: tuple[tuple[str, Callable[[View], Figure | None]], ...] = (  # and the timeline, which is of one window
    ("reduction", reduction_chart),
    ("ttft", ttft_chart),
    ("gap_to_floor", gap_chart),
    ("ttft_split", split_chart),
    ("ttft_distribution", distribution_chart),
    ("hit_tokens", hits_chart),
    ("prefill", prefill_chart),
    ("copies", copies_chart),
)


def draw_result(
    folder: Path,
    formats: Sequence[str] = ("png",),
    theme: str = "light",
    part: str = ALL,
    choice: Choice = WHOLE,
    out: Path | None = None,
    progress: Progress = silent,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Draw all charts of the result in `folder` into `folder/charts` and renew its report, or draw them into `out`.

    They are of the whole trace, and the reductions of its parts too; or of one part. `choice` is what the timeline
    shows. Returns their paths; a chart that the result has no data for is left out, and
    `tell` hears of those of before that stay. Raises OutputError where there is
    no result, UsageError for an unknown name, theme or format.
    """
    formats = check_formats(formats)
    paths, old = [], []
    with open_view(folder, theme, part) as view:
        target = out or view.folder / FOLDER
        charts = [(stem_of(name, part), chart, view) for name, chart in CHARTS]
        charts.append((stem_of("timeline", part), lambda view: timeline_chart(view, choice), view))
        if part == ALL:  # bursts and ordinary traffic apart
            apart = view.result.distinct_parts[1 : 1 + PARTS]
            charts += [(stem_of("reduction", p), reduction_chart, replace(view, part=p)) for p in apart]
        for k, (stem, chart, shown) in enumerate(charts):
            progress("drawing", k, len(charts))
            figure = chart(shown)
            if figure is not None:
                paths += save_figure(figure, target, stem, formats, view.theme)
                continue
            names = [file_name(stem, format, view.theme) for format in formats]
            old += [name for name in names if (target / name).exists()]
    if old:
        why = "the result has no data for them" + ("" if (view.folder / REQUESTS).exists() else f" without {REQUESTS}")
        tell(f"not drawn again, as {why}: {', '.join(old)}; those in {target} are of before")
    if out is None:
        write_report(view.folder)  # which shows the charts beside it
    return paths


def film_result(
    folder: Path,
    theme: str = "light",
    part: str = ALL,
    choice: Choice = WHOLE,
    out: Path | None = None,
    progress: Progress = silent,
) -> Path:
    """Write `timeline.gif`, the film of one window, beside the charts. OutputError, too, where requests are missing."""
    from btbench.charts.animation import write_film

    with open_view(folder, theme, part) as view:
        path = (out or view.folder / FOLDER) / file_name(stem_of("timeline", part), "gif", view.theme)
        write_film(view, choice, path, progress)
    return path


def trace_result(folder: Path, file: Path, part: str = ALL, choice: Choice = WHOLE) -> Path:
    """Write one window as a Chrome trace to `file`. Errors as above."""
    from btbench.charts.perfetto import write_perfetto

    with open_view(folder, "light", part) as view:
        write_perfetto(view, choice, file)
    return file


@contextmanager
def open_view(folder: Path, theme: str = "light", part: str = ALL) -> Iterator[View]:
    """A stored result, to be drawn in this theme inside the context."""
    result = load_result(folder)
    if part not in result.parts:
        raise UsageError(f"no such part of the trace: {part!r}", nearest(part, result.parts))
    with themed(theme) as page:
        yield View(result, page, part, _scenario(result.folder or folder))


def stem_of(name: str, part: str) -> str:
    """What the file of a chart is called, before its ending."""
    return name if part == ALL else name + "-" + re.sub(r"[^\w.-]+", "_", part)


def _scenario(folder: Path) -> Scenario | None:
    """The scenario of a result, where its file is there and this version reads it."""
    try:
        return load_scenario(folder / SCENARIO)
    except BtbenchError:
        return None
