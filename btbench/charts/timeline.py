"""One window as time goes by: requests on each replica as a heat map, a panel a policy, copies as arrows."""

from __future__ import annotations

from math import ceil

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from btbench.charts.findings import best_policy
from btbench.charts.layout import fixed_figure, shorten, text_width_in
from btbench.charts.lines import SCREEN_IN, TICKS_IN
from btbench.charts.over_time import arrival_rate, burst_starts, per_replica
from btbench.charts.scales import tick_count
from btbench.charts.view import View
from btbench.charts.window import WHOLE, Array, Choice, Copied, WindowView, read_window
from btbench.results import numbers

BINS = 600
ARRIVALS_IN, GAP_IN = 0.5, 0.34
NAMED = 12  # at most so many replicas are named at an axis


def timeline_chart(view: View, choice: Choice = WHOLE) -> Figure | None:
    """The pile-up and the idle neighbours of one window; None where the result holds no requests."""
    shown = read_window(view, choice)
    if shown is None:
        return None
    edges, levels = _levels(shown)
    first, last = shown.span_s
    bursts = [start for start in burst_starts(shown.arrival_s) if first <= start <= last]
    figure, axes = _panels(view, shown, _title(view, levels), _note(shown, bursts))
    _draw_arrivals(view, axes[0], shown, bursts)
    norm = PowerNorm(0.5, 0, max(1.0, *(float(level.max()) for level in levels.values())))
    colours = heat_colours(view)
    for panel, (policy, level) in zip(axes[1:], levels.items(), strict=True):
        panel.imshow(
            level, cmap=colours, norm=norm, aspect="auto", interpolation="nearest",
            extent=(edges[0], edges[-1], len(level) - 0.5, -0.5),
        )  # fmt: skip
        for start in bursts:
            panel.axvline(start, color=view.theme.soft, linewidth=0.7, linestyle=(0, (1, 2)))
        _draw_copies(view, panel, shown.policies[policy].copied)
        panel.set_title(_panel_title(shown, policy), size=9.5)
        _name_replicas(panel, shown, panel is axes[-1])
    axes[-1].set_xlim(shown.span_s)
    axes[-1].set_xlabel("time in the window (s)")
    _add_scale(figure, axes, ScalarMappable(norm, colours))
    return figure


def heat_colours(view: View) -> Colormap:
    """From the page's colour at 0 to the strongest heat."""
    base = matplotlib.colormaps[view.theme.heat]
    steps = base(np.linspace(0.0 if view.theme.name == "dark" else 0.06, 1, 255))
    return matplotlib.colors.ListedColormap([matplotlib.colors.to_rgba(view.theme.page), *steps])


def _note(shown: WindowView, bursts: list[float]) -> str:
    """What is seen, as far as it is there."""
    copies = any(len(replayed.copied.source) for replayed in shown.policies.values())
    said = [
        f"{shown.setup}, window {shown.window}. Colour: the most requests queued or running on the replica at once.",
        "Arrows: copies, from holder to target (hollow: never used)." if copies else "",
        "Dotted: arrivals jump." if bursts else "",
    ]
    return " ".join(filter(None, said))


def _panels(view: View, shown: WindowView, title: str, note: str) -> tuple[Figure, list[Axes]]:
    """A low panel for the arrivals, and one for each policy."""
    panel_in = min(max(0.24 * len(shown.replicas), 0.8), 2.4)
    count = len(shown.policies)
    body_in = ARRIVALS_IN + count * (panel_in + GAP_IN)
    left_in = 0.45 + text_width_in([shorten(name, 14) for name in shown.replicas], 9)
    above_in = TICKS_IN if body_in > SCREEN_IN else 0.0
    figure = fixed_figure(body_in, title, f"{view.subtitle}. {note}", left_in, 0.95, above_in=0.16 + above_in)
    heights, gap = [ARRIVALS_IN, *[panel_in] * count], GAP_IN * (count + 1) / (body_in - count * GAP_IN)
    grid = figure.add_gridspec(count + 1, 1, height_ratios=heights, hspace=gap)
    first = figure.add_subplot(grid[0])
    first.tick_params(axis="x", labeltop=above_in > 0, pad=10)  # above the marks of bursts
    return figure, [first, *(figure.add_subplot(grid[k + 1], sharex=first) for k in range(count))]


def _draw_arrivals(view: View, panel: Axes, shown: WindowView, bursts: list[float]) -> None:
    rate, edges = arrival_rate(shown.arrival_s, shown.span_s)
    top = max(float(rate.max()), 1e-9)
    panel.stairs(rate, edges, fill=True, color=view.theme.soft)
    panel.plot(bursts, [top * 1.18] * len(bursts), "v", color=view.theme.ink, markersize=5, clip_on=False)
    panel.set_ylim(0, top * 1.02)
    panel.set_yticks([0, float(f"{top:.1g}")], ["0", tick_count(float(f"{top:.1g}"))])
    panel.set_ylabel("arrivals/s", size=8.5)
    panel.tick_params(labelbottom=False, length=0)


def _draw_copies(view: View, panel: Axes, copied: Copied) -> None:
    """From holder at the start to target at the end; hollow where no later request found it."""
    if not len(copied.source):
        return
    colour = view.theme.copy
    begins = np.column_stack([copied.start_s, copied.source])
    ends = np.column_stack([copied.ready_s, copied.target])
    panel.add_collection(LineCollection(list(np.stack([begins, ends], axis=1)), colors=colour, linewidths=1.1))
    panel.plot(*begins.T, "o", color=colour, markersize=2.6)
    for marker, way in (("v", copied.target > copied.source), ("^", copied.target < copied.source)):
        for used, fill in ((True, colour), (False, view.theme.page)):
            at = ends[way & (copied.used == used)]
            panel.plot(*at.T, marker, color=colour, markerfacecolor=fill, markersize=5.5, markeredgewidth=0.9)


def _panel_title(shown: WindowView, policy: str) -> str:
    replayed = shown.policies[policy]
    mean_s = float((replayed.first_token_s - replayed.arrival_s).mean())
    copies = len(replayed.copied.source)
    said = f"{shorten(policy)}: mean TTFT {numbers.duration(mean_s)} in this window"
    return f"{said}, {numbers.count(copies)} copies" if copies else said


def _name_replicas(panel: Axes, shown: WindowView, last: bool) -> None:
    every = ceil(len(shown.replicas) / NAMED)
    named = range(0, len(shown.replicas), every)
    panel.set_yticks(list(named), [shorten(shown.replicas[k], 14) for k in named])
    panel.tick_params(axis="y", length=0)
    panel.tick_params(axis="x", labelbottom=last, length=2)
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)


def _add_scale(figure: Figure, axes: list[Axes], colours: ScalarMappable) -> None:
    top, bottom = axes[1].get_position(), axes[-1].get_position()
    height = min(top.y1 - bottom.y0, 2.2 / figure.get_figheight())
    scale = figure.add_axes((top.x1 + 0.012, top.y1 - height, 0.012, height))
    figure.colorbar(colours, cax=scale, ticks=MaxNLocator(7, integer=True)).outline.set_visible(False)
    scale.tick_params(labelsize=8, length=2)
    scale.set_ylabel("requests on the replica", size=8.5)


def _levels(shown: WindowView) -> tuple[Array, dict[str, Array]]:
    """The edges of the bins, and the most requests at once on each replica in them, under each policy."""
    edges = np.linspace(*shown.span_s, BINS + 1)
    return edges, {
        policy: per_replica(replayed, len(shown.replicas), edges) for policy, replayed in shown.policies.items()
    }


def worst_title(view: View, shown: WindowView) -> str:
    """The finding of a window."""
    return _title(view, _levels(shown)[1])


def _title(view: View, levels: dict[str, Array]) -> str:
    """How far apart the fullest and the emptiest replica are, at the worst moment of each policy."""
    worst = {}
    for policy, level in levels.items():
        at = int((level.max(0) - level.min(0)).argmax())
        worst[policy] = (level[:, at].max(), level[:, at].min())
    order = dict.fromkeys(name for name in (view.baseline, best_policy(view), *levels) if name in levels)
    first, *others = list(order)[:2]
    most, least = worst[first]
    title = f"Fullest against emptiest replica: {first} {most:,.0f} to {least:,.0f} requests"
    return title + "".join(f", {other} {worst[other][0]:,.0f} to {worst[other][1]:,.0f}" for other in others)
