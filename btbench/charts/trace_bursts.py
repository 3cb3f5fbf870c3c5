"""Charts of an analysed trace that show bursts: the published pair, a heat map of fan-out, a timeline.

Draw inside `palette.themed`. The titles are the findings.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from btbench.analysis.audit import TraceAnalysis
from btbench.analysis.headline import DEEP_BLOCKS, DEEP_WINDOW_S, PRESENT
from btbench.charts.layout import WIDTH_IN, new_figure, plain_axes, shorten
from btbench.charts.palette import BLUE, GREEN, LIGHT, ORANGE, PURPLE, RED, SKY, Theme, on_page

SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, "#8C6D31", "#7F7F7F")  # traces, in the order they were named
MARKERS = "osD^vPX"
PLAIN = FuncFormatter(lambda value, _: f"{value:,.10g}")


def plain_log(axis: Any, subs: tuple[int, ...] = (1,)) -> None:
    """Whole numbers on a logarithmic axis, without exponents."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(PLAIN)


def draw_pair(analyses: Sequence[TraceAnalysis], theme: Theme = LIGHT) -> Figure:
    """Left: the largest deep fan-out of each trace. Right: fan-out against required depth, widest window."""
    measured = [a for a in analyses if a.deep_sync]
    present = [a for a in measured if a.deep_sync and a.deep_sync.present]
    if present:
        title = f"Deep bursts that arrive together: in {_names(present)}"
    elif measured:
        title = f"No deep bursts that arrive together in {_names(measured)}"
    else:
        title = f"Bursts cannot be measured in {_names(analyses)}"
    subtitle = f"Requests that begin with the same prompt blocks. From {PRESENT} on a burst is said to be present."
    figure = new_figure(WIDTH_IN, 2.0 + max(2.2, 0.42 * len(analyses)), title, subtitle)
    left, right = figure.subplots(1, 2)
    _draw_headline(left, analyses, theme)
    _draw_depths(right, analyses, theme)
    return figure


def _names(analyses: Sequence[TraceAnalysis]) -> str:
    return ", ".join(shorten(a.name) for a in analyses)


def _draw_headline(axes: Any, analyses: Sequence[TraceAnalysis], theme: Theme) -> None:
    plain_axes(axes, "x")
    sizes = [a.deep_sync.max_fanout if a.deep_sync else 0 for a in analyses]
    alarm = on_page(RED, theme)
    colours = [alarm if size >= PRESENT else on_page(BLUE, theme) for size in sizes]
    axes.barh(range(len(analyses)), sizes, color=colours, height=0.6)
    for row, (analysis, size) in enumerate(zip(analyses, sizes, strict=True)):
        text = f"{size:,}" if analysis.deep_sync else "cannot be measured"
        axes.text(max(size, 0.8) * 1.08, row, text, va="center", color=theme.ink if analysis.deep_sync else theme.soft)
    axes.axvline(PRESENT, color=alarm, linewidth=1.2, linestyle="--")
    axes.text(PRESENT * 1.06, -0.62, f"{PRESENT}-way", color=alarm, va="center", fontsize=9)
    axes.set_yticks(range(len(analyses)), [shorten(a.name, 26) for a in analyses])
    axes.set_ylim(len(analyses) - 0.4, -0.9)
    axes.set_xscale("log")
    axes.set_xlim(0.8, max(100, *sizes) * 2.5)
    plain_log(axes.xaxis)
    axes.set_title("Largest synchronized fan-out")
    axes.set_xlabel(f"requests sharing {DEEP_BLOCKS} blocks or more, within {DEEP_WINDOW_S:g} s")


def _draw_depths(axes: Any, analyses: Sequence[TraceAnalysis], theme: Theme) -> None:
    plain_axes(axes, "y")
    window_s = max((cell.window_s for a in analyses for cell in a.fanout or ()), default=60.0)
    for k, analysis in enumerate(analyses):
        cells = [cell for cell in analysis.fanout or () if cell.window_s == window_s]
        if cells:
            line = {"color": on_page(SERIES[k % len(SERIES)], theme), "marker": MARKERS[k % len(MARKERS)]}
            sizes = [max(cell.max_fanout, 0.8) for cell in cells]
            axes.plot([cell.depth_blocks for cell in cells], sizes, label=shorten(analysis.name, 26), **line)
    axes.axhline(PRESENT, color=on_page(RED, theme), linewidth=1.2, linestyle="--")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted({cell.depth_blocks for a in analyses for cell in a.fanout or ()}))
    axes.xaxis.set_major_formatter(PLAIN)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0.7, max([60, *(c.max_fanout * 2 for a in analyses for c in a.fanout or ())]))
    plain_log(axes.yaxis)
    axes.set_title(f"Fan-out by required depth, within {window_s:g} s")
    axes.set_xlabel("blocks shared, at least")
    axes.set_ylabel("requests")
    if axes.lines[1:]:
        axes.legend(loc="best")
    else:
        axes.text(0.5, 0.5, "cannot be measured", ha="center", transform=axes.transAxes, color=theme.soft)


def draw_heat_map(analysis: TraceAnalysis, theme: Theme = LIGHT) -> Figure:
    """The largest fan-out for each depth and window, with its class. The trace must have blocks and times."""
    assert analysis.fanout
    depths = sorted({(cell.depth_blocks, cell.depth_tokens) for cell in analysis.fanout})
    windows = sorted({cell.window_s for cell in analysis.fanout})
    cells = {(c.depth_blocks, c.window_s): c for c in analysis.fanout}
    rows = [[cells[blocks, window] for window in windows] for blocks, _ in depths]
    root = analysis.root_blocks
    most = max((cell.max_fanout for cell in analysis.fanout if cell.depth_blocks > root), default=1)
    title = f"{shorten(analysis.name)}: {_deepest(analysis)}"
    subtitle = "Largest fan-out. session: prompts grow as in one conversation; ticks: half or more share a timestamp"
    subtitle += "; grey: every prompt begins so." if depths[0][0] <= root else "."
    figure = new_figure(WIDTH_IN, 1.7 + 0.48 * len(depths), title, subtitle)
    axes = figure.subplots()
    sizes = np.array([[max(cell.max_fanout, 1) for cell in row] for row in rows])
    norm = LogNorm(1, max(100, most))
    shown = np.ma.masked_where([[cell.depth_blocks <= root for cell in row] for row in rows], sizes)
    axes.set_facecolor(theme.line)
    axes.imshow(shown, cmap=theme.heat, norm=norm, aspect="auto")
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            red, green, blue, _ = colormaps[theme.heat](norm(max(cell.max_fanout, 1)))
            ink = "#1A1A1A" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#FFFFFF"
            ink = theme.soft if cell.depth_blocks <= root else ink
            marks = ["session"] * (cell.max_fanout_class == "session") + ["ticks"] * cell.rests_on_ticks
            text = f"{cell.max_fanout:,}" + (f"  {', '.join(marks)}" if marks and cell.depth_blocks > root else "")
            axes.text(j, i, text, ha="center", va="center", color=ink)
    axes.set_xticks(range(len(windows)), [f"{window:g} s" for window in windows])
    axes.set_yticks(
        range(len(depths)), [f"{blocks:,} block{'s' * (blocks != 1)}, {tokens:,} tokens" for blocks, tokens in depths]
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("within")
    axes.set_ylabel("sharing at least")
    return figure


def _deepest(analysis: TraceAnalysis) -> str:
    """The finding, which only deep bursts make."""
    deep = analysis.deep_sync
    assert deep
    if deep.present:
        return f"up to {deep.max_fanout:,} requests share {deep.depth_blocks:,} blocks within {deep.window_s:g} s"
    most = f"at most {deep.max_fanout:,}" if deep.max_fanout > 1 else "no two"
    return f"{most} requests share {deep.min_depth_blocks} blocks within {deep.window_s:g} s"


def draw_timeline(analysis: TraceAnalysis, theme: Theme = LIGHT) -> Figure:
    """Every listed burst: when, how many requests, how deep. The trace must have blocks and times."""
    assert analysis.bursts is not None
    bursts, timeline = analysis.bursts, analysis.bursts.timeline
    deep = DEEP_BLOCKS * (analysis.block_tokens or 1)
    sizes = [size for size, shared in zip(timeline.requests, timeline.shared_tokens, strict=True) if shared >= deep]
    count = sum(size >= PRESENT for size in sizes)
    bursts_of = f"{count:,} burst{'s'[: count != 1]}" if count else "no bursts"
    title = f"{shorten(analysis.name)}: {bursts_of} of {PRESENT} requests or more that share {DEEP_BLOCKS} blocks"
    subtitle = (
        f"Every burst of {bursts.at_least} requests or more with one prefix of any length within {bursts.window_s:g} s"
    )
    least = 0
    if 0 < analysis.root_blocks < DEEP_BLOCKS:
        least = analysis.root_blocks * (analysis.block_tokens or 1) + 1
        subtitle += ", but those that share only what every prompt begins with"
    figure = new_figure(WIDTH_IN, 4.2, title, f"{subtitle}.")
    axes = figure.subplots()
    plain_axes(axes, "y")
    kept = np.array(timeline.shared_tokens, np.int64) >= least
    start_s, requests = np.array(timeline.start_s)[kept], np.array(timeline.requests, np.int64)[kept]
    shared = np.maximum(np.array(timeline.shared_tokens, np.int64)[kept], 1)
    norm = LogNorm(min([*shared, 512]), max([*shared, 8192]))
    shades = np.linspace(0.15, 1, 256) if theme is LIGHT else np.linspace(0.85, 0, 256)  # deep ones stand out
    cmap = ListedColormap(colormaps["viridis_r"](shades))
    dots = axes.scatter(start_s, requests, c=shared, s=20, cmap=cmap, norm=norm, linewidths=0)
    axes.axhline(PRESENT, color=on_page(RED, theme), linewidth=1.2, linestyle="--")
    axes.set_yscale("log")
    axes.set_ylim(min([bursts.at_least, *requests]) * 0.8, max([50, *requests]) * 1.5)
    plain_log(axes.yaxis, (1, 2, 5))
    axes.set_xlim(0, max([analysis.span_s or 0, 1, *timeline.start_s]) * 1.01)
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel("start, s" if analysis.windows == 1 else "start, s, windows of the trace laid end to end")
    axes.set_ylabel("requests")
    if not len(requests):
        axes.text(0.5, 0.5, "none", ha="center", transform=axes.transAxes, color=theme.soft)
    bar = figure.colorbar(dots, ax=axes, pad=0.01, format=PLAIN)
    bar.ax.minorticks_off()
    bar.set_label("tokens shared")
    bar.outline.set_visible(False)
    return figure
