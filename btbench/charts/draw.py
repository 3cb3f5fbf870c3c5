"""The charts of a stored result, drawn from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from btbench.charts.distribution import distribution_chart
from btbench.charts.reduction import reduction_chart
from btbench.charts.stacks import hits_chart, split_chart
from btbench.charts.style import check_formats, save_figure, themed
from btbench.charts.timeline import WHOLE, timeline_chart
from btbench.charts.ttft import ttft_chart
from btbench.charts.view import View
from btbench.charts.window import Choice
from btbench.charts.work import copies_chart, prefill_chart
from btbench.errors import BtbenchError, UsageError, nearest
from btbench.progress import Progress, silent
from btbench.results.files import SCENARIO, load_result
from btbench.results.report import write_report
from btbench.results.summary import ALL
from btbench.scenario import Scenario, load_scenario

CHARTS: tuple[tuple[str, Callable[[View], Figure | None]], ...] = (  # and the timeline, which is of a window
    ("reduction", reduction_chart),
    ("ttft", ttft_chart),
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
) -> list[Path]:
    """Draw all charts of the result in `folder` into `folder/charts`, or `out`. Returns their paths.

    A chart that the result has no data for is left out. `choice` is of the timeline. Raises OutputError where there is
    no result, UsageError for an unknown name, theme or format.
    """
    formats = check_formats(formats)
    result = load_result(folder)
    if part not in result.parts:
        raise UsageError(f"no such part: {part!r}", nearest(part, result.parts))
    assert result.folder is not None
    paths = []
    with themed(theme) as page:
        view = View(result, page, part, _scenario(result.folder))
        charts = [*CHARTS, ("timeline", lambda view: timeline_chart(view, choice))]
        for k, (name, chart) in enumerate(charts):
            progress("drawing", k, len(charts))
            figure = chart(view)
            if figure is not None:
                stem = name if part == ALL else f"{name}-{part}"
                paths += save_figure(figure, out or result.folder / "charts", stem, formats, page)
    if out is None:
        write_report(result.folder)  # which shows the charts beside it
    return paths


def _scenario(folder: Path) -> Scenario | None:
    """The scenario of a result, where its file is there and this version reads it."""
    try:
        return load_scenario(folder / SCENARIO)
    except BtbenchError:
        return None
