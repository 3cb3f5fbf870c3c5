"""The colours of charts, on a light and a dark page.

Draw and save inside `themed`, with figures of matplotlib's object interface (no global state is left behind):

    with themed("dark") as theme:
        figure = new_figure(9.6, 4.0, "btb cuts mean TTFT by 58 %", "quickstart · 4,120 requests")
        axes = figure.subplots()
        ...
        paths = save_figure(figure, folder, "ttft", ("png", "svg"), theme)
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.colors import to_hex, to_rgb

from btbench.errors import UsageError, nearest

# Okabe, Ito: Color Universal Design (2008)
ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip


@dataclass(frozen=True)
class Theme:
    """The page charts are drawn for."""

    name: str
    page: str
    ink: str  # text and marks
    soft: str  # what is to be read second: axes, notes
    line: str  # grid
    heat: str  # matplotlib's name of a colour map from the page's end to ink's
    copy: str  # of arrows that are to be seen on any heat


LIGHT = Theme("light", "#FFFFFF", "#1A1A1A", "#595959", "#DEDEDE", "YlOrRd", BLUE)
DARK = Theme("dark", "#0D1117", "#E6EDF3", "#9DA7B1", "#30363D", "inferno", SKY)
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}

# Colours of the light page that are too dark for a dark one, or too like another there
ON_DARK = {BLUE: "#1A86D0"}


def on_page(colour: str, theme: Theme) -> str:
    """A colour of the palette as it is to be drawn on this page."""
    return ON_DARK.get(colour, colour) if theme.name == "dark" else colour


def tint(colour: str, theme: Theme, strength: float) -> str:
    """A colour mixed with the page: 1 is the colour, 0 the page."""
    ink, page = to_rgb(colour), to_rgb(theme.page)
    r, g, b = (strength * of_ink + (1 - strength) * of_page for of_ink, of_page in zip(ink, page, strict=True))
    return to_hex((r, g, b))


def find_theme(name: str) -> Theme:
    """The theme of this name. Raises UsageError."""
    if name not in THEMES:
        raise UsageError(f"no such theme: {name!r}", nearest(name, list(THEMES)))
    return THEMES[name]


@contextmanager
def themed(name: str = "light") -> Iterator[Theme]:
    """Draw and save inside: matplotlib's own defaults and this theme, whatever the user's matplotlibrc says."""
    theme = find_theme(name)
    settings: dict[Any, Any] = dict(matplotlib.rcParamsDefault) | _settings(theme)
    del settings["backend"]
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells of its font cache otherwise
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing")  # names in scripts the font lacks
        try:
            yield theme
        finally:
            logger.setLevel(level)


def _settings(theme: Theme) -> dict[str, Any]:
    return {
        "figure.facecolor": theme.page,
        "savefig.facecolor": theme.page,
        "axes.facecolor": theme.page,
        "axes.edgecolor": theme.soft,
        "axes.labelcolor": theme.soft,
        "axes.titlecolor": theme.ink,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.titley": 1.0,  # fixed: finding it out takes a tenth of the time to draw
        "axes.titleweight": "bold",
        "axes.labelsize": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": False,
        "grid.color": theme.line,
        "grid.linewidth": 0.8,
        "font.family": ["DejaVu Sans"],  # comes with matplotlib
        "font.size": 9.5,
        "hatch.color": theme.page,
        "hatch.linewidth": 0.7,
        "legend.frameon": False,
        "legend.fontsize": 9.5,
        "lines.linewidth": 1.8,
        "text.color": theme.ink,
        "text.parse_math": False,  # a name may hold a $
        "xtick.color": theme.soft,
        "ytick.color": theme.soft,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "svg.hashsalt": "btbench",
        "pdf.fonttype": 42,
    }
