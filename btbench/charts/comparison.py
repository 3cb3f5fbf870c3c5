"""Two results side by side: the old and the new value of each setup and policy, and the change with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from btbench.charts.layout import shorten, text_width_in
from btbench.charts.lines import Key, Lines, fit, line_chart
from btbench.charts.palette import themed
from btbench.charts.saving import save_figure, stem_of
from btbench.charts.scales import around, log_axis, tick_duration, tick_size
from btbench.charts.view import View
from btbench.results import numbers
from btbench.results.bootstrap import LEVEL_WORDS
from btbench.results.compare import Change, Comparison
from btbench.results.comparison_text import label, shown_parts
from btbench.results.metrics import Metric

_MOST_PCT = 100.0  # what changes by more is drawn so far, its words say how much
_TICKS = {"s": tick_duration, "bytes": tick_size}  # units that span orders of magnitude


@dataclass(frozen=True)
class _Pair(View):
    """The newer result, drawn beside the older one."""

    names: str = ""

    @property
    def subtitle(self) -> str:
        """Which results."""
        return self.names


def draw_comparisons(comparisons: Sequence[Comparison], folder: Path) -> list[Path]:
    """Draw each metric and part into `folder` and return the paths; of several results, each is numbered from 2 on."""
    paths = []
    with themed() as theme:
        for number, comparison in enumerate(comparisons, 2):
            names = f"Old: {label(comparison.a)}. New: {label(comparison.b)}"
            for part in shown_parts(comparison):
                view = _Pair(comparison.b, theme, part, names=names)
                for metric in dict.fromkeys(change.metric for change in comparison.changes):
                    changes = [c for c in comparison.changes if (c.metric, c.part) == (metric, part)]
                    stem = f"{metric.name}-{number}" if len(comparisons) > 1 else metric.name
                    figure = comparison_chart(view, metric, changes)
                    paths += save_figure(figure, folder, stem_of(stem, part), ("png",), theme)
    return paths


def comparison_chart(view: View, metric: Metric, changes: Sequence[Change]) -> Figure:
    """Left the values, hollow for the old one; right the change in % with its 95% interval, and in words."""
    of = {(change.setup, change.policy): change for change in changes}
    drawn = any(change.interval for change in changes)
    note = f"Bars: {LEVEL_WORDS} of the change; hollow where it holds 0." if drawn else ""
    lines = line_chart(view, of, [metric.words, "change"], _title(metric, changes), note)
    _draw_values(view, lines.panels[0], lines, metric, of)
    _draw_changes(view, lines.panels[1], lines, of)
    return lines.figure


def _title(metric: Metric, changes: Sequence[Change]) -> str:
    """The largest change, and how many there are in either direction."""
    moved = [change for change in changes if change.difference and not change.is_noise]
    if not moved:
        alike = all(change.difference == 0 for change in changes)
        return f"{'Old and new have the same' if alike else 'No difference beyond noise in'} {metric.words}"
    largest = max(moved, key=_size)
    on = f" on {shorten(largest.setup)}" if len({change.setup for change in changes}) > 1 else ""
    lower = sum((change.difference or 0) < 0 for change in moved)
    title = f"{largest.policy}{on}: {largest.words}"
    if len(changes) == 1:
        return title
    return f"{title}; lower in {lower}, higher in {len(moved) - lower} of {len(changes)} cases"


def _size(change: Change) -> float:
    """How large a change is, the same up and down."""
    return abs(log(change.ratio)) if change.ratio and change.ratio > 0 else abs(change.difference or 0)


def _draw_values(view: View, panel: Axes, lines: Lines, metric: Metric, of: dict[Key, Change]) -> None:
    values = [float(value) for change in of.values() for value in (change.a, change.b) if value is not None]
    texts = {key: numbers.in_unit(change.b, metric.unit) for key, change in of.items()}
    room_in = text_width_in(texts.values(), lines.size) + 0.2
    if metric.unit in _TICKS and min(values, default=0) > 0:
        panel.set_xscale("log")
        low, high = around(values, above=1.0)
        fit(panel, low, high, after_in=room_in)
        log_axis(panel, "x", *panel.get_xlim(), _TICKS[metric.unit], ticks=5)
    else:
        low, high = min([0.0, *values]), max([0.0, *values])
        fit(panel, low, high if high > low else low + 1, 0.1, room_in)
        panel.xaxis.set_major_formatter(lambda value, _: numbers.in_unit(value, metric.unit))
        panel.locator_params(axis="x", nbins=5)
    for key, change in of.items():
        y, mark = lines.places[key], view.marks[key[1]]
        ends = [value for value in (change.a, change.b) if value is not None]
        panel.plot(ends, [y] * len(ends), color=mark.colour, linewidth=1.6)
        for value, fill in ((change.a, view.theme.page), (change.b, mark.colour)):
            if value is not None:
                panel.plot(
                    [value], [y], marker=mark.marker, color=mark.colour, markerfacecolor=fill, markersize=7.5,
                    clip_on=False,
                )  # fmt: skip
        if ends:
            panel.annotate(
                texts[key], (max(ends), y), (7, 0), textcoords="offset points", va="center_baseline", size=lines.size
            )
    panel.set_xlabel("hollow: old; filled, with its value: new")


def _draw_changes(view: View, panel: Axes, lines: Lines, of: dict[Key, Change]) -> None:
    spans = {key: _in_percent(change) for key, change in of.items()}
    known = [_clip(value) for span in spans.values() if span for value in span]
    low, high = min([-1.0, *known]), max([1.0, *known])
    words = {key: _arrow(spans[key]) + change.short_words for key, change in of.items()}
    fit(panel, low, high, 0.1, text_width_in(words.values(), lines.size) + 0.2)
    panel.axvline(0, color=view.theme.soft, linewidth=1)
    for key, change in of.items():
        y, mark, span = lines.places[key], view.marks[key[1]], spans[key]
        at = 0.0
        if span:
            first, at, last = (_clip(value) for value in span)
            if change.interval:
                panel.plot([first, last], [y, y], "|-", color=mark.colour, markersize=11, linewidth=1.2)
            fill = view.theme.page if change.is_noise else mark.colour
            panel.plot(
                [at], [y], marker=mark.marker, color=mark.colour, markerfacecolor=fill, markersize=5, clip_on=False
            )
            at = last
        panel.annotate(
            words[key], (max(at, 0.0), y), (9, 0), textcoords="offset points", va="center_baseline", size=lines.size
        )
    panel.locator_params(axis="x", nbins=5)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
    panel.set_xlabel("% of the old value")


def _in_percent(change: Change) -> tuple[float, float, float] | None:
    """The low end of the interval, the change and the high end, in % of the old value; None where that says nothing."""
    if not change.a or change.difference is None:
        return None
    ends = change.interval or (change.difference, change.difference)
    low, at, high = (value / abs(change.a) * 100 for value in (ends[0], change.difference, ends[1]))
    return low, at, high


def _arrow(span: tuple[float, float, float] | None) -> str:
    """Where a change is larger than drawn."""
    return "▸ " if span and span[1] > _MOST_PCT else ""


def _clip(percent: float) -> float:
    return max(-_MOST_PCT, min(_MOST_PCT, percent))
