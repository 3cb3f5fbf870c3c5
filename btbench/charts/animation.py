"""A film of one window: replicas, what waits and runs on them, and copies on their way, policies side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from btbench.charts.gif import Palette, Pixels, write_gif
from btbench.charts.layout import fixed_figure, plain_axes, shorten, text_width_in
from btbench.charts.over_time import arrival_rate, in_flight, mean_so_far, per_replica
from btbench.charts.palette import tint
from btbench.charts.timeline import NAMED, worst_title
from btbench.charts.view import View
from btbench.charts.window import Array, Choice, WindowView, need_window
from btbench.progress import Progress, silent
from btbench.results import numbers

FRAMES, FRAMES_PER_S = 150, 15
FILM_DPI = 100
COLUMNS = 3
COPY_FRAMES = 9  # a copy is seen for so many frames at least
PART = 8  # of the window that is shown where no span is named: an eighth

Update = Callable[[int], None]  # moves what moves to where it is in frame k


def write_film(view: View, choice: Choice, path: Path, progress: Progress = silent) -> None:
    """Write a GIF of ten seconds. Raises OutputError where the result holds no requests."""
    shown = need_window(view, choice)
    shown = shown if choice.span_s else replace(shown, span_s=_worst_part(view, shown))
    moments = np.linspace(*shown.span_s, FRAMES)
    figure, panels, strip = _stage(view, shown)
    moving: list[Artist] = []
    updates = [_play_time(view, strip, shown, moments, moving)]
    top = max(1.0, *(float(in_flight(r, len(shown.replicas), moments)[0].max()) for r in shown.policies.values()))
    for panel, policy in zip(panels, shown.policies, strict=False):
        updates.append(_play_policy(view, panel, shown, policy, moments, top, moving))
    write_gif(_film(figure, moving, updates, progress), path, FRAMES_PER_S)


def _worst_part(view: View, shown: WindowView) -> tuple[float, float]:
    """The part of the window around the moment at which the replicas are furthest apart, under the baseline."""
    first, last = shown.span_s
    edges = np.linspace(first, last, 601)
    policy = view.baseline if view.baseline in shown.policies else next(iter(shown.policies))
    level = per_replica(shown.policies[policy], len(shown.replicas), edges)
    worst, lasting = edges[int((level.max(0) - level.min(0)).argmax())], (last - first) / PART
    start = min(max(first, worst - 0.6 * lasting), last - lasting)
    return float(start), float(start + lasting)


def _stage(view: View, shown: WindowView) -> tuple[Figure, list[Axes], Axes]:
    """A panel for each policy and a strip for the time."""
    columns = min(COLUMNS, len(shown.policies))
    rows = ceil(len(shown.policies) / columns)
    panel_in, gap_in, strip_in = min(max(0.28 * len(shown.replicas), 1.0), 3.0), 0.62, 0.45
    body_in = rows * (panel_in + gap_in) + strip_in
    left_in = 0.3 + text_width_in([shorten(name, 14) for name in shown.replicas], 9)
    subtitle = f"{view.subtitle}. {_note(shown)}"
    figure = fixed_figure(body_in, worst_title(view, shown), subtitle, left_in, above_in=0.55)
    heights = [*[panel_in] * rows, strip_in]
    grid = figure.add_gridspec(
        rows + 1, columns, height_ratios=heights, hspace=gap_in * (rows + 1) / sum(heights), wspace=0.08
    )
    panels = [figure.add_subplot(grid[k // columns, k % columns]) for k in range(len(shown.policies))]
    for k, panel in enumerate(panels):
        every = ceil(len(shown.replicas) / NAMED)
        named = range(0, len(shown.replicas), every) if k % columns == 0 else ()
        panel.set_yticks(list(named), [shorten(shown.replicas[r], 14) for r in named])
        panel.set_xlabel("requests on the replica" if k + columns >= len(panels) else "", size=8.5)
    return figure, panels, figure.add_subplot(grid[rows, :])


def _note(shown: WindowView) -> str:
    """What is seen; copies, which are over in no time, stay longer than they take."""
    span = f"{shown.span_s[0]:,.1f} to {shown.span_s[1]:,.1f} s"
    least = f"{COPY_FRAMES / FRAMES_PER_S:.1f} s"
    copies = f"; pins at the right: copies on their way from holder to target, each shown for {least} of film or longer"
    copied = any(len(replayed.copied.source) for replayed in shown.policies.values())
    return f"{shown.setup}, window {shown.window}, {span}. Solid: running, light: queued{copies if copied else ''}."


def _play_time(view: View, strip: Axes, shown: WindowView, moments: Array, moving: list[Artist]) -> Update:
    rate, edges = arrival_rate(shown.arrival_s, shown.span_s)
    strip.stairs(rate, edges, fill=True, color=view.theme.line)
    strip.set_xlim(shown.span_s)
    strip.set_ylim(0, max(float(rate.max()), 1e-9))
    strip.set_yticks([])
    strip.spines["left"].set_visible(False)
    strip.set_xlabel("time in the window (s); behind: arrivals")
    (cursor,) = strip.plot([moments[0]] * 2, [0, 1], transform=strip.get_xaxis_transform(), color=view.theme.ink)
    moving.append(cursor)
    return lambda k: cursor.set_xdata([moments[k]] * 2)


def _play_policy(
    view: View, panel: Axes, shown: WindowView, policy: str, moments: Array, top: float, moving: list[Artist]
) -> Update:
    replayed, replicas = shown.policies[policy], len(shown.replicas)
    inside, waiting = in_flight(replayed, replicas, moments)
    so_far = mean_so_far(replayed, moments)
    colour = view.marks[policy].colour
    plain_axes(panel, "x")
    panel.set_xlim(0, top * 1.12)
    panel.set_ylim(replicas - 0.4, -0.6)
    panel.set_title(shorten(policy), pad=17)
    running = panel.barh(range(replicas), 0, 0.72, color=colour, linewidth=0)
    queued = panel.barh(range(replicas), 0, 0.72, color=tint(colour, view.theme, 0.4), edgecolor=colour, linewidth=0.6)
    mean = panel.text(0, 1.03, "", transform=panel.transAxes, size=9, color=view.theme.soft)
    shafts = panel.plot([], [], color=view.theme.copy, linewidth=1.4)[0]
    heads = panel.plot([], [], "o", color=view.theme.copy, markersize=5)[0]
    moving.extend([*running, *queued, mean, shafts, heads])
    lanes = top * (1.08 - 0.035 * (np.arange(len(replayed.copied.source)) % 6))
    shown_s = np.maximum(replayed.copied.ready_s - replayed.copied.start_s, COPY_FRAMES * (moments[1] - moments[0]))

    def update(k: int) -> None:
        for row in range(replicas):
            runs = inside[row, k] - waiting[row, k]
            running[row].set_width(runs)
            queued[row].set_x(runs)
            queued[row].set_width(waiting[row, k])
        mean.set_text(f"mean TTFT so far {numbers.duration(so_far[k])}" if so_far[k] == so_far[k] else "")
        copied = replayed.copied
        way = (moments[k] - copied.start_s) / shown_s
        here = (way >= 0) & (way <= 1)
        now = copied.source + way * (copied.target - copied.source)
        gaps = np.full(int(here.sum()), np.nan)
        shafts.set_data(np.repeat(lanes[here], 3), np.column_stack([copied.source[here], now[here], gaps]).ravel())
        heads.set_data(lanes[here], now[here])

    return update


def _film(figure: Figure, moving: list[Artist], updates: list[Update], progress: Progress) -> Iterator[Image.Image]:
    """The frames as pictures of the same few colours: what stands still is drawn once, what moves on top of it."""
    for artist in moving:
        artist.set_animated(True)
    figure.set_dpi(FILM_DPI)
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)

    def picture(k: int) -> Pixels:
        canvas.restore_region(still)
        for update in updates:
            update(k)
        for artist in moving:
            figure.draw_artist(artist)
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()

    palette = Palette([picture(k) for k in range(0, FRAMES, max(1, FRAMES // 6))])
    for k in range(FRAMES):
        progress("filming", k, FRAMES)
        yield palette.frame(picture(k))
