"""Mean and p95 TTFT per setup and policy, on a log scale."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from btbench.charts.findings import lowest_title
from btbench.charts.lines import Key, Lines, line_chart
from btbench.charts.scales import around, log_axis, tick_duration
from btbench.charts.view import View
from btbench.results import numbers

_STATISTICS = ("mean", "p95")


def ttft_chart(view: View) -> Figure:
    """A mark for each policy, with its value."""
    lines = line_chart(
        view, view.rows, [f"{name} TTFT" for name in _STATISTICS], lowest_title(view, "mean_ttft_s", "mean TTFT")
    )
    for panel, name in zip(lines.panels, _STATISTICS, strict=True):
        draw_marks(view, panel, lines, {key: float(row[f"{name}_ttft_s"] or 0.0) for key, row in view.rows.items()})
        panel.set_xlabel("log scale; further left is faster")
    return lines.figure


def draw_marks(view: View, panel: Axes, lines: Lines, values_s: dict[Key, float]) -> None:
    """Marks on a log axis of durations, each with its value beside it; a 0 stands at the left edge."""
    low, high = around(list(values_s.values()), above=1.5)
    high *= (high / low) ** 0.28  # room for the value of the largest
    log_axis(panel, "x", low, high, tick_duration, ticks=5)
    for key, value in values_s.items():
        y, mark = lines.places[key], view.marks[key[1]]
        shown = value or low
        panel.plot([low, shown], [y, y], color=view.theme.soft, linewidth=0.8, linestyle=(0, (1, 3)))
        panel.plot(
            [shown], [y], marker=mark.marker, color=mark.colour, markersize=7.5, linewidth=0, clip_on=False,
            markeredgecolor=view.theme.page, markeredgewidth=0.6,
        )  # fmt: skip
        panel.annotate(
            numbers.duration(value), (shown, y), (7, 0), textcoords="offset points", va="center_baseline",
            size=lines.size,
        )  # fmt: skip
