"""Charts of one line a setup and policy: where the lines stand, their names, and panels side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log10
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from btbench.charts.layout import fixed_figure, plain_axes, shorten, text_width_in
from btbench.charts.view import View

Key = tuple[str, str]  # setup, policy

ROOMY = 40  # lines from which on they stand closer
SCREEN_IN = 7.2  # panels higher than a screen have their ticks at the top too
TICKS_IN = 0.2  # what these take


class Lines(NamedTuple):
    """A figure with panels that share their lines."""

    figure: Figure
    panels: list[Axes]
    places: dict[Key, float]  # the y of each line, downwards
    size: float  # of the texts, in points
    above_in: float  # what ticks take above the panels


def line_chart(view: View, keys: Iterable[Key], panels: Sequence[str], title: str, note: str = "") -> Lines:
    """Empty panels with these titles, and the names of setups and policies at the left."""
    places, setups = _places(list(keys))
    close = len(places) > ROOMY
    size, line_in = (8.0, 0.165) if close else (9.5, 0.22)
    extent = max(places.values()) + 1.6
    names = [shorten(policy, 24) for _, policy in places], [shorten(setup) for setup in setups]
    policies_in, setups_in = (text_width_in(texts, size) for texts in names)
    subtitle = f"{view.subtitle}. {note}" if note else view.subtitle
    above_in = TICKS_IN if extent * line_in > SCREEN_IN else 0.0
    left_in = policies_in + setups_in + 0.4
    figure = fixed_figure(extent * line_in, title, subtitle, left_in, above_in=0.3 + above_in)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    first = axes[0]
    first.set_ylim(extent - 0.8, -0.8)
    first.yaxis.remove_overlapping_locs = False
    first.set_yticks(list(places.values()), names[0], minor=True)
    first.set_yticks(list(setups.values()), names[1], color=view.theme.ink, size=size)
    for panel, name in zip(axes, panels, strict=True):
        plain_axes(panel, "x")
        panel.set_title(name, pad=6 + 72 * above_in)
        panel.tick_params(axis="x", labeltop=above_in > 0)
        panel.tick_params(axis="y", which="both", length=0)
        panel.tick_params(axis="y", which="minor", labelsize=size, pad=4)
        panel.tick_params(axis="y", which="major", pad=4 + 72 * policies_in + 12)
        _stripe(panel, places, view)
    return Lines(figure, list(axes), places, size, above_in)


def _places(keys: list[Key]) -> tuple[dict[Key, float], dict[str, float]]:
    """Lines of a setup stand together, those of the next half a line further down; a setup's name at its middle."""
    places: dict[Key, float] = {}
    y = -1.0
    before = keys[0][0]
    for key in keys:
        y += 1.0 if key[0] == before else 1.6
        places[key], before = y, key[0]
    of = {setup: [y for key, y in places.items() if key[0] == setup] for setup, _ in keys}
    return places, {setup: (ys[0] + ys[-1]) / 2 for setup, ys in of.items()}


def _stripe(panel: Axes, places: dict[Key, float], view: View) -> None:
    """Every other setup on a light ground, so that the eye stays on its lines."""
    setups = list(dict.fromkeys(setup for setup, _ in places))
    for setup in setups[1::2]:
        ys = [y for key, y in places.items() if key[0] == setup]
        panel.axhspan(ys[0] - 0.8, ys[-1] + 0.8, color=view.theme.line, alpha=0.35, linewidth=0, zorder=0)


def fit(panel: Axes, low: float, high: float, before_in: float = 0.0, after_in: float = 0.0) -> None:
    """Set the limits of the x axis: from `low` to `high`, and room for texts of so many inches at both ends."""
    figure = panel.figure
    width_in = panel.get_position().width * figure.get_figwidth()  # type: ignore[union-attr]
    log = panel.get_xscale() == "log"
    first, last = (log10(low), log10(high)) if log else (low, high)
    per_in = (last - first) / max(width_in - before_in - after_in, 0.3 * width_in)
    first, last = first - before_in * per_in, last + after_in * per_in
    panel.set_xlim(*((10**first, 10**last) if log else (first, last)))
