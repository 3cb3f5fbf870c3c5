"""A sweep over one key: a line for each policy, a panel for each setup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, log10
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from btbench.charts.field import MANY_TIMES, Field
from btbench.charts.layout import WIDTH_IN, fixed_figure, plain_axes, shorten, text_width_in
from btbench.charts.legend import draw_legend, legend_height_in
from btbench.charts.marks import Mark, policy_marks
from btbench.charts.scales import around, log_axis
from btbench.results.sweep import said

COLUMNS = 3
PANEL_IN, ALONE_IN, GAP_IN = 2.0, 3.0, 0.8


def line_charts(field: Field) -> Figure:
    """A panel for each setup, a line for each policy; values of the key stand as far apart as they are, if numbers."""
    values, (axis,) = field.values, field.sweep.axes
    setups = list(dict.fromkeys(setup for setup, _ in values))
    columns = min(COLUMNS, len(setups))
    rows, panel_in = ceil(len(setups) / columns), PANEL_IN if len(setups) > 1 else ALONE_IN
    marks = policy_marks([policy for _, policy in field.sweep.series(field.part)], field.theme)
    shown = {policy: marks[policy] for _, policy in values}
    legend_in = legend_height_in(shown)
    body_in = legend_in + rows * panel_in + (rows - 1) * GAP_IN
    figure = fixed_figure(body_in, _title(field), field.subtitle, left_in=0.85)
    top, bottom = figure.subplotpars.top, figure.subplotpars.bottom
    figure.subplots_adjust(top=top - (top - bottom) * legend_in / body_in, hspace=GAP_IN / panel_in, wspace=0.36)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    places = axis_places(axis.values)
    for panel, setup in zip(panels, setups, strict=False):
        here = {policy: values[setup, policy] for other, policy in values if other == setup}
        _draw_lines(field, panel, places, here, marks)
        _name_values(panel, places, axis.values)
        panel.set_title(shorten(setup))
        panel.set_xlabel(f"{axis.key}, log scale" if _are_wide(axis.values) else axis.key)
    for panel in panels[len(setups) :]:
        panel.set_visible(False)
    draw_legend(panels[0], shown, panel_in)
    return figure


def axis_places(values: Sequence[Any]) -> list[float]:
    """Where values stand on an axis: numbers by size, or by magnitude where they are far apart; else side by side.

    On an axis by magnitude a 0 stands as far left of the smallest as this is from the next, half a decade at least.
    """
    if not _are_numbers(values):
        return [float(k) for k in range(len(values))]
    if not _are_wide(values):
        return [float(value) for value in values]
    first, second, *_ = sorted(log10(value) for value in values if value > 0)
    zero = first - max(0.5, second - first)
    return [log10(value) if value > 0 else zero for value in values]


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _are_wide(values: Sequence[Any]) -> bool:
    """Whether values of a key are to stand by their magnitude."""
    if not _are_numbers(values) or min(values) < 0:
        return False
    positive = [value for value in values if value > 0]
    return len(positive) > 1 and max(positive) / min(positive) >= MANY_TIMES


def _name_values(panel: Axes, places: Sequence[float], values: Sequence[Any]) -> None:
    """Limits, and a tick at each value whose name has room behind the one before."""
    reach = (max(places) - min(places)) or 1.0
    beyond = 0.04 if _are_numbers(values) else 0.12  # names are longer
    panel.set_xlim(min(places) - beyond * reach, max(places) + beyond * reach)
    width_in = panel.get_position().width * WIDTH_IN / (1 + 2 * beyond)
    shown, end_in = [], -1.0
    for place, value in sorted(zip(places, values, strict=True), key=lambda pair: pair[0]):
        name, at_in = shorten(said(value), 14), (place - min(places)) / reach * width_in
        half_in = text_width_in([name], 9) / 2
        if at_in - half_in > end_in:
            shown.append((place, name))
            end_in = at_in + half_in + 0.06
    panel.set_xticks([place for place, _ in shown], [name for _, name in shown])


def _draw_lines(
    field: Field,
    panel: Axes,
    places: Sequence[float],
    lines: Mapping[str, Sequence[float | None]],
    marks: Mapping[str, Mark],
) -> None:
    plain_axes(panel, "y")
    order = sorted(range(len(places)), key=places.__getitem__)
    for policy, values in lines.items():
        mark = marks[policy]
        heights = [float("nan") if values[k] is None else float(values[k] or 0) for k in order]
        panel.plot(
            [places[k] for k in order], heights, color=mark.colour, linestyle=mark.line_style, marker=mark.marker,
            markersize=6.5, markeredgecolor=field.theme.page, markeredgewidth=0.6, clip_on=False,
        )  # fmt: skip
    known = [float(value) for values in lines.values() for value in values if value is not None]
    if field.is_wide(known):
        log_axis(panel, "y", *around(known, 1.2, 1.2), field.tick, ticks=5)
        return
    low, high = min(0.0, *known), max(0.0, *known)
    panel.set_ylim(low - 0.05 * (high - low) * (low < 0), high + (0.05 * (high - low) or 1.0))
    panel.locator_params(axis="y", nbins=6)
    panel.yaxis.set_major_formatter(lambda value, _: field.tick(value))
    if low < 0:
        panel.axhline(0, color=field.theme.soft, linewidth=1)


def _title(field: Field) -> str:
    """Of one setup, what becomes of its best policy from one end to the other; else how often which one is best."""
    values, (axis,) = field.values, field.sweep.axes
    choose, superlative = (min, "lowest") if field.metric.better == "lower" else (max, "highest")
    cases: dict[tuple[str, int], dict[str, float]] = {}  # by setup and place on the axis
    for (setup, policy), found in values.items():
        for k, value in enumerate(found):
            if value is not None:
                cases.setdefault((setup, k), {})[policy] = value
    winners = {case: choose(rivals, key=rivals.__getitem__) for case, rivals in cases.items()}
    (best, count), *_ = Counter(winners.values()).most_common(1)
    words, setups = field.metric.words, list(dict.fromkeys(setup for setup, _ in values))
    at = [Counter(best for (_, k), best in winners.items() if k == place).most_common(1) for place in (0, 1)]
    if len(setups) > 1 and len(axis.values) == 2 and all(at):
        told = [f"{best} at {said(value)} on {n}" for value, [(best, n)] in zip(axis.values, at, strict=True)]
        return f"{superlative.capitalize()} {words} by {axis.key}: {', '.join(told)} of {len(setups)} setups"
    if len(setups) > 1:
        return f"{best} has the {superlative} {words} in {count} of {len(cases)} cases"
    first, last = (field.text(values[setups[0], best][k]) for k in (0, -1))
    return f"{best}: {words} {first} at {field.sweep.label(axis.values[:1])}, {last} at {said(axis.values[-1])}"
