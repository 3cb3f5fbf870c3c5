"""Charts of an analysed trace that show its load: reuse by cache size, arrival rate, lengths.

Draw inside `palette.themed`. The titles are the findings.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from btbench.analysis.audit import TraceAnalysis
from btbench.analysis.reuse import Lru
from btbench.charts.layout import WIDTH_IN, new_figure, plain_axes, shorten
from btbench.charts.palette import BLUE, GREEN, LIGHT, ORANGE, RED, Theme, on_page
from btbench.charts.trace_bursts import PLAIN, plain_log


def draw_reuse(analysis: TraceAnalysis, theme: Theme = LIGHT) -> Figure:
    """Hit rate of an LRU cache against its size, with the setup's HBM marked. The trace must have blocks."""
    assert analysis.reuse is not None
    reuse, lru = analysis.reuse, analysis.reuse.lru
    title = f"{shorten(analysis.name)}: a cache can reuse {reuse.token_hit_rate:.1%} of the prompt tokens"
    answers = " Answers take room too." if lru.answers_take_room else ""
    subtitle = f"Hit rate of an LRU cache of one replica that serves every request, by its size.{answers}"
    figure = new_figure(WIDTH_IN, 4.4, title, subtitle)
    axes = figure.subplots()
    plain_axes(axes, "y")
    blocks = [point.blocks for point in lru.curve]
    axes.plot(blocks, [p.token_hit_rate for p in lru.curve], color=on_page(BLUE, theme), label="of tokens")
    rates = [p.block_hit_rate for p in lru.curve]
    axes.plot(blocks, rates, color=on_page(ORANGE, theme), linestyle="--", label="of blocks")
    if lru.hbm_blocks:
        axes.axvline(lru.hbm_blocks, color=on_page(RED, theme), linestyle=":")
        here = next(point for point in lru.hbm if point.hbm_multiple and point.blocks == lru.hbm_blocks)
        note = f" HBM beside the weights,\n {lru.setup}: {here.token_hit_rate:.1%}"
        axes.text(lru.hbm_blocks, reuse.token_hit_rate * 0.97, note, color=on_page(RED, theme), va="top")
    axes.set_xscale("log")
    axes.set_ylim(0, min(1.0, max(0.05, reuse.token_hit_rate, reuse.block_hit_rate) * 1.1))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    plain_log(axes.xaxis)
    axes.set_xlabel(f"cache, blocks of {analysis.block_tokens} tokens")
    axes.set_ylabel("hit rate")
    axes.legend(loc="upper left")
    _add_bytes(axes, lru, analysis.block_tokens or 1)
    return figure


def _add_bytes(axes, lru: Lru, block_tokens: int) -> None:  # type: ignore[no-untyped-def]
    if lru.kv_bytes_per_token:
        gb = lru.kv_bytes_per_token * block_tokens / 1e9
        top = axes.secondary_xaxis("top", functions=(lambda x: x * gb, lambda x: x / gb))
        top.set_xlabel(f"GB of KV, {lru.model}")
        top.xaxis.set_major_formatter(PLAIN)
        top.xaxis.set_minor_locator(NullLocator())


def draw_rate(analysis: TraceAnalysis, theme: Theme = LIGHT) -> Figure:
    """Arrival rate over time. The trace must have times."""
    assert analysis.arrivals is not None
    rate, mean = analysis.arrivals.rate, analysis.mean_rate_per_s
    title = f"{shorten(analysis.name)}: {analysis.requests:,} requests" + (f", {mean:,.3g} a second" if mean else "")
    figure = new_figure(WIDTH_IN, 3.4, title, f"Arrival rate in bins of {rate.bin_s:g} s; dashed: mean.")
    axes = figure.subplots()
    plain_axes(axes, "y")
    edges = np.arange(len(rate.requests) + 1) * rate.bin_s
    axes.stairs(np.array(rate.requests) / rate.bin_s, edges, fill=True, color=on_page(BLUE, theme))
    if mean:
        axes.axhline(mean, color=theme.ink, linewidth=1, linestyle="--")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel("s" if analysis.windows == 1 else "s, windows of the trace laid end to end")
    axes.set_ylabel("requests/s")
    return figure


def draw_lengths(analysis: TraceAnalysis, theme: Theme = LIGHT) -> Figure:
    """Distributions of input, output and cacheable tokens, from their percentiles."""
    lengths = analysis.lengths
    assert lengths.input_tokens and lengths.output_tokens
    medians = f"{lengths.input_tokens['p50']:,.0f} tokens in, {lengths.output_tokens['p50']:,.0f} out"
    figure = new_figure(
        WIDTH_IN, 4.0, f"{shorten(analysis.name)}: {medians} at the median", "Share of requests up to a length."
    )
    axes = figure.subplots()
    plain_axes(axes, "y")
    lines = (
        ("input", lengths.input_tokens, {"color": on_page(BLUE, theme), "linewidth": 5.0, "alpha": 0.4}),
        ("cacheable", lengths.cacheable_tokens, {"color": on_page(GREEN, theme), "linestyle": "--"}),
        ("output", lengths.output_tokens, {"color": on_page(ORANGE, theme), "linestyle": "-."}),
    )
    for label, found, look in lines:
        if found is not None:
            points = {float(key[1:]): value for key, value in found.items() if key[0] == "p"}
            values = np.maximum([found["min"], *points.values(), found["max"]], 1)
            axes.plot(values, [0.0, *points, 100.0], label=label, **look)
    axes.set_xscale("log")
    axes.set_ylim(0, 101)
    plain_log(axes.xaxis)
    axes.yaxis.set_major_formatter(PercentFormatter(100.0, decimals=0))
    axes.set_xlabel("tokens")
    axes.legend(loc="lower right")
    return figure
