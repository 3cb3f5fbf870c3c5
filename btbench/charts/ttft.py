"""Mean and p95 TTFT per setup and policy, on a log scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from btbench.charts.findings import lowest_title
from btbench.charts.layout import text_width_in
from btbench.charts.lines import Key, Lines, fit, line_chart
from btbench.charts.scales import around, log_axis, tick_duration
from btbench.charts.view import View
from btbench.results import numbers

_STATISTICS = ("mean", "p95")
NOTHING: Mapping[Key, float | None] = {}


def ttft_chart(view: View) -> Figure:
    """A mark for each policy, with its value."""
    floors = {key: row["floor_mean_ttft_s"] for key, row in view.rows.items()}
    known = any(floors.values())
    note = "Upright ticks: the floor, which no policy can beat." if known else ""
    title = lowest_title(view, "mean_ttft_s", "mean TTFT")
    lines = line_chart(view, view.rows, [f"{name} TTFT" for name in _STATISTICS], title, note)
    for panel, name in zip(lines.panels, _STATISTICS, strict=True):
        values = {key: float(row[f"{name}_ttft_s"] or 0.0) for key, row in view.rows.items()}
        texts = {key: numbers.duration(value) for key, value in values.items()}
        draw_marks(view, panel, lines, values, texts, ticks=floors if name == "mean" else {})
        panel.set_xlabel("log scale; further left is faster")
    return lines.figure


def draw_marks(
    view: View,
    panel: Axes,
    lines: Lines,
    values: Mapping[Key, float],
    texts: Mapping[Key, str],
    tick: Callable[[float], str] = tick_duration,
    ticks: Mapping[Key, float | None] = NOTHING,
) -> None:
    """Marks on a log axis, each with its text beside it, and upright ticks; a 0 stands at the left edge."""
    upright = {key: value for key, value in ticks.items() if value}
    low, high = around([*values.values(), *upright.values()], above=1.0)
    panel.set_xscale("log")
    fit(panel, low, high, after_in=text_width_in(texts.values(), lines.size) + 0.2)
    log_axis(panel, "x", *panel.get_xlim(), tick, ticks=5)
    ys = [lines.places[key] for key in values]
    shown = {key: value if value > 0 else low for key, value in values.items()}
    panel.hlines(ys, low, list(shown.values()), colors=view.theme.soft, linewidth=0.8, linestyle=(0, (1, 3)))
    at = [lines.places[key] for key in upright]
    panel.vlines(list(upright.values()), [y - 0.42 for y in at], [y + 0.42 for y in at], view.theme.ink, linewidth=1.6)
    for policy, mark in view.marks.items():
        keys = [key for key in values if key[1] == policy]
        panel.plot(
            [shown[key] for key in keys], [lines.places[key] for key in keys], marker=mark.marker, color=mark.colour,
            markersize=7.5, linewidth=0, clip_on=False, markeredgecolor=view.theme.page, markeredgewidth=0.6,
        )  # fmt: skip
    for key, y in zip(values, ys, strict=True):
        panel.annotate(
            texts[key], (shown[key], y), (7, 0), textcoords="offset points", va="center_baseline", size=lines.size
        )
