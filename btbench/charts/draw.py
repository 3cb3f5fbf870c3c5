"""The charts of a stored result, drawn from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from btbench.charts.reduction import reduction_chart
from btbench.charts.style import check_formats, save_figure, themed
from btbench.charts.ttft import ttft_chart
from btbench.charts.view import View
from btbench.errors import UsageError, nearest
from btbench.progress import Progress, silent
from btbench.results.files import load_result
from btbench.results.summary import ALL

CHARTS: tuple[tuple[str, Callable[[View], Figure | None]], ...] = (
    ("reduction", reduction_chart),
    ("ttft", ttft_chart),
)


def draw_result(
    folder: Path,
    formats: Sequence[str] = ("png",),
    theme: str = "light",
    part: str = ALL,
    out: Path | None = None,
    progress: Progress = silent,
) -> list[Path]:
    """Draw all charts of the result in `folder` into `folder/charts`, or `out`. Returns their paths.

    A chart that the result has no data for is left out. Raises OutputError where there is no result, UsageError for
    an unknown part, theme or format.
    """
    formats = check_formats(formats)
    result = load_result(folder)
    if part not in result.parts:
        raise UsageError(f"no such part: {part!r}", nearest(part, result.parts))
    assert result.folder is not None
    paths = []
    with themed(theme) as page:
        view = View(result, page, part)
        for k, (name, chart) in enumerate(CHARTS):
            progress("drawing", k, len(CHARTS))
            figure = chart(view)
            if figure is not None:
                stem = name if part == ALL else f"{name}-{part}"
                paths += save_figure(figure, out or result.folder / "charts", stem, formats, page)
    return paths
