"""Prefill against moving KV: times over the length of a prefix, and for 8,000 tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from btbench.charts.layout import fixed_figure, plain_axes, text_width_in
from btbench.charts.palette import BLUE, GREEN, ORANGE, PURPLE, RED, Theme, on_page, themed
from btbench.charts.saving import check_formats, save_figure
from btbench.charts.scales import log_axis, tick_count, tick_duration
from btbench.cluster.costs import TIERS, KvCosts
from btbench.results import numbers

BAR_TOKENS = 8000
NAMES = {"prefill": "prefill", "disk": "NVMe", "rdma": "RDMA", "ram": "host RAM", "hbm": "HBM"}
_COLOURS = {"prefill": RED, "disk": ORANGE, "rdma": BLUE, "ram": GREEN, "hbm": PURPLE}
_MARKERS = {"prefill": "o", "disk": "s", "rdma": "^", "ram": "v", "hbm": "D"}
_HEIGHT_IN, _LABEL_IN = 3.4, 0.19


def draw_costs(costs: KvCosts, lengths: Sequence[int], folder: Path, formats: Sequence[str], theme: str) -> list[Path]:
    """Write `costs` (over `lengths` in tokens, both axes log) and `costs_bars`. Returns the paths."""
    formats = check_formats(formats)
    with themed(theme) as page:
        charts = {"costs": lines_chart(costs, lengths, page), "costs_bars": bars_chart(costs, page)}
        return [path for stem, figure in charts.items() for path in save_figure(figure, folder, stem, formats, page)]


def _seconds(costs: KvCosts, way: str, tokens: float) -> float:
    return costs.prefill_s(tokens) if way == "prefill" else costs.move_s(way, tokens)


def _title(costs: KvCosts) -> str:
    return f"Copying KV over RDMA is {_faster(costs, 'rdma')} than prefilling it"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:,.0f}x"


def _subtitle(costs: KvCosts) -> str:
    kv, enough = numbers.size(costs.model.kv_bytes_per_token), numbers.size(costs.break_even_bytes_per_s)
    return (
        f"{costs.model.name} on {costs.replica.name}, MFU {costs.mfu:g}: {kv} of KV per token. "
        f"A copy pays with its first reuse from {enough}/s on."
    )


def lines_chart(costs: KvCosts, lengths: Sequence[int], theme: Theme) -> Figure:
    """One line for prefill and each tier, named at its end."""
    tokens = np.array(sorted(lengths), float)
    labels = {way: NAMES[way] for way in NAMES}
    labels |= {tier: f"{NAMES[tier]}, {numbers.size(costs.bandwidth_bytes_per_s(tier))}/s" for tier in TIERS}
    right_in = text_width_in(labels.values(), 9.5) + 0.55
    figure = fixed_figure(_HEIGHT_IN, _title(costs), _subtitle(costs), left_in=0.85, right_in=right_in, above_in=0.15)
    axes = figure.subplots()
    plain_axes(axes, "both")
    ends = {way: _seconds(costs, way, tokens[-1]) for way in NAMES}
    starts = [_seconds(costs, way, tokens[0]) for way in NAMES]
    for way in NAMES:
        colour = on_page(_COLOURS[way], theme)
        seconds = [_seconds(costs, way, n) for n in tokens]
        axes.plot(tokens, seconds, color=colour, marker=_MARKERS[way], markersize=6)
    low, high = min(starts) / 2, max(ends.values()) * 2
    log_axis(axes, "y", low, high, tick_duration, ticks=8)
    log_axis(axes, "x", tokens[0] / 1.1, tokens[-1] * 1.1, tick_count)
    axes.set_xticks(_ticks(tokens, axes.get_position().width * figure.get_figwidth()))
    axes.set_xlabel("tokens of the prefix, log scale")
    axes.set_ylabel("time to have its KV in HBM, log scale")
    places = {way: np.log(end / low) / np.log(high / low) for way, end in ends.items()}
    for way, y in _spread(places, _LABEL_IN / _HEIGHT_IN).items():
        axes.plot(1.022, y, color=on_page(_COLOURS[way], theme), marker=_MARKERS[way], markersize=6, clip_on=False,
                  transform=axes.transAxes)  # fmt: skip
        axes.annotate(
            labels[way], (1, y), (20, 0), "axes fraction", "offset points", va="center_baseline", color=theme.ink
        )
    return figure


def _ticks(tokens: npt.NDArray[np.float64], width_in: float) -> list[float]:
    """The lengths, from the smallest, that have room for their names on a log axis so wide."""
    shown, end_in = [], -1.0
    for length in tokens:
        at_in = width_in * np.log(length / tokens[0] * 1.1) / np.log(tokens[-1] / tokens[0] * 1.21)
        half_in = text_width_in([tick_count(length)], 9) / 2
        if at_in - half_in > end_in:
            shown.append(float(length))
            end_in = at_in + half_in + 0.08
    return shown


def _spread(places: dict[str, float], apart: float) -> dict[str, float]:
    """The places, from above, each moved down where it would come nearer than `apart` to the one above."""
    spread: dict[str, float] = {}
    before = np.inf
    for name in sorted(places, key=lambda name: -places[name]):
        before = spread[name] = min(places[name], before - apart)
    return spread


def bars_chart(costs: KvCosts, theme: Theme) -> Figure:
    """Bars for 8,000 tokens, with their times and how many times faster than prefill they are."""
    title = f"{_title(costs)}: {BAR_TOKENS:,} tokens"
    figure = fixed_figure(0.34 * len(NAMES), title, _subtitle(costs), 0.95, above_in=0.15)
    axes = figure.subplots()
    plain_axes(axes, "x")
    seconds = {way: _seconds(costs, way, BAR_TOKENS) for way in NAMES}
    for k, (way, value) in enumerate(seconds.items()):
        hatch = "" if way == "prefill" else "//"
        axes.barh(k, value, 0.66, color=on_page(_COLOURS[way], theme), hatch=hatch, linewidth=0)
        text = numbers.duration(value) if way == "prefill" else f"{numbers.duration(value)}, {_faster(costs, way)}"
        axes.annotate(text, (value, k), (5, 0), textcoords="offset points", va="center_baseline")
    axes.set_yticks(range(len(NAMES)), list(NAMES.values()), color=theme.ink, size=9.5)
    axes.set_ylim(len(NAMES) - 0.45, -0.55)
    axes.set_xlim(0, max(seconds.values()) * 1.3)
    axes.xaxis.set_major_formatter(lambda value, _: tick_duration(value))
    axes.set_xlabel("time to have the KV in HBM")
    return figure


def _faster(costs: KvCosts, tier: str) -> str:
    ratio = costs.prefill_over_move(tier)
    return f"{_times(ratio)} faster" if ratio >= 1 else f"{_times(1 / ratio)} slower"
