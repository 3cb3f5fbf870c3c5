"""How much less mean and p95 TTFT each policy has than the baseline, per setup, and what was published."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil, floor
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from btbench.charts.findings import reduction_title
from btbench.charts.layout import shorten, text_width_in
from btbench.charts.lines import Key, Lines, fit, line_chart
from btbench.charts.view import View
from btbench.results import numbers
from btbench.results.bootstrap import LEVEL_WORDS
from btbench.results.summary import reduction_pct
from btbench.results.words import intervals_over

_STATISTICS = ("mean", "p95")
_WORST_PCT = -100.0  # bars end here, their numbers do not
NO_REACHES: Mapping[Key, tuple[float, float]] = MappingProxyType({})


def reduction_chart(view: View) -> Figure | None:
    """Horizontal bars with their values; None where there is nothing to hold against the baseline."""
    keys = [key for key, row in view.rows.items() if row["mean_reduction_pct"] is not None]
    if not keys:
        return None
    published = {name: _published(view, name) for name in _STATISTICS}
    known = any(published.values())
    source = view.result.provenance.published_source
    note = f"Ticks: published{f' ({source})' if source else ''}." if known else ""
    if any(float(view.rows[key][f"{name}_reduction_pct"] or 0) < 0 for key in keys for name in _STATISTICS):
        note = f"Negative: more. {note}".strip()
    reaches = {key: reach for key in keys if (reach := view.rows[key].reduction_reach)}
    if reaches:
        note = f"{note} Whiskers: {LEVEL_WORDS} over {intervals_over(view.result, view.part)}.".strip()
    titles = [f"Reduction of {name} TTFT" for name in _STATISTICS]
    lines = line_chart(view, keys, titles, reduction_title(view), note)
    values = {
        name: {key: float(view.rows[key][f"{name}_reduction_pct"] or 0.0) for key in keys} for name in _STATISTICS
    }
    drawn = [value for of in (*values.values(), *published.values()) for value in of.values()]
    ends = ends_of([*drawn, *(end for reach in reaches.values() for end in reach)])
    room = room_for([value for of in values.values() for value in of.values()], lines.size)
    for panel, name in zip(lines.panels, _STATISTICS, strict=True):  # on one scale
        draw_percents(view, panel, lines, values[name], ends, room, reaches if name == "mean" else {})
        _draw_ticks(view, panel, lines, published[name])
        panel.set_xlabel(f"% less than {shorten(view.baseline, 24)}")
    return lines.figure


def ends_of(values: Collection[float]) -> tuple[float, float]:
    """Ends of an axis that holds these percents: multiples of 25 around 0, or of 5 where all are small; from -100."""
    low, high = min([0.0, *values]), max([0.0, *values])
    step = 25 if max(high, -low) > 10 else 5
    return max(floor(low / step) * step, _WORST_PCT), max(ceil(high / step) * step, step if low == 0 else 0)


def room_for(values: Collection[float], size: float) -> tuple[float, float]:
    """Inches that the values of bars take in writing, before an axis and behind it."""
    before, after = ([_written(value) for value in values if (value < 0) == below] for below in (True, False))
    return text_width_in(before, size) + 0.12, text_width_in(after, size) + 0.12


def _written(percent: float) -> str:
    return ("◂ " if percent < _WORST_PCT else "") + numbers.percent(percent).replace("-", "\N{MINUS SIGN}")


def draw_percents(
    view: View,
    panel: Axes,
    lines: Lines,
    values: Mapping[Key, float],
    ends: tuple[float, float],
    room_in: tuple[float, float],
    reaches: Mapping[Key, tuple[float, float]] = NO_REACHES,
) -> None:
    """Bars between the ends, each with its value behind its whisker; bars below -100 % end there, numbers do not."""
    left, right = ends
    fit(panel, left, right, *room_in)
    step = next(step for step in (5, 25, 50) if (right - left) / step <= 5)
    panel.set_xticks([tick for tick in range(-100, 101, step) if left <= tick <= right])
    for key, value in values.items():
        mark, y = view.marks[key[1]], lines.places[key]
        shown, *reach = (max(end, _WORST_PCT) for end in (value, *reaches.get(key, ())))
        panel.barh(y, shown, 0.74, color=mark.colour, hatch=mark.hatch, linewidth=0)
        if reach:
            for width, colour in ((2.6, view.theme.page), (1.2, view.theme.ink)):  # over a published tick
                panel.plot(reach, [y, y], color=colour, linewidth=width, solid_capstyle="butt", zorder=3)
        panel.annotate(
            _written(value), (max(shown, *reach, 0.0) if value >= 0 else min(shown, *reach, 0.0), y),
            (4 if value >= 0 else -4, 0), textcoords="offset points",
            ha="left" if value >= 0 else "right", va="center_baseline", size=lines.size,
        )  # fmt: skip
    panel.axvline(0, color=view.theme.soft, linewidth=1)


def _draw_ticks(view: View, panel: Axes, lines: Lines, published: dict[Key, float]) -> None:
    for key, value in published.items():
        if key in lines.places and value >= _WORST_PCT:
            y = lines.places[key]
            for width, colour in ((4.2, view.theme.ink), (2.0, view.theme.page)):
                panel.plot([value, value], [y - 0.5, y + 0.5], color=colour, linewidth=width, solid_capstyle="butt")


def _published(view: View, statistic: str) -> dict[Key, float]:
    """Reductions that follow from the published values of this part, or of one that holds the same requests."""
    same = {row.part for row in view.result.rows if _requests(view, row.part) == _requests(view, view.part)}
    of = {
        (row.setup, row.policy): getattr(row, f"{statistic}_ttft_s")
        for row in view.result.provenance.published
        if row.part in same
    }
    reductions = {key: reduction_pct(of.get((key[0], view.baseline)), value) for key, value in of.items()}
    return {key: value for key, value in reductions.items() if value is not None and key[1] != view.baseline}


def _requests(view: View, part: str) -> object:
    return next((row["requests"] for row in view.result.rows if row.part == part), None)
