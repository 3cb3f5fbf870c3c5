"""How charts look: one palette, one colour a policy everywhere, a light and a dark page, and deterministic files.

Usage, with a figure of matplotlib's object interface (no global state is left behind):

    with themed("dark") as theme:
        figure = new_figure(9.6, 4.0, "btb cuts mean TTFT by 58 %", "quickstart · 4,120 requests")
        axes = figure.subplots()
        ...
        paths = save_figure(figure, folder, "ttft", ("png", "svg"), theme)

Colours are Okabe and Ito's, which stay apart in colour-blind vision; policies differ in marker and hatch too, so that
charts can be read in grey print.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine

from btbench.errors import UsageError, nearest
from btbench.results.whole import whole_file

WIDTH_IN = 9.6  # of every chart, in inches
DPI = 150
FORMATS = ("png", "svg", "pdf")

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


class Mark(NamedTuple):
    """How a policy is told from the others: in colour, and without it."""

    colour: str
    marker: str
    hatch: str
    dash: tuple[float, ...] = ()  # of a line: lengths on and off, in widths; none is solid

    @property
    def line_style(self) -> Any:
        """The dash as matplotlib takes it."""
        return (0, self.dash) if self.dash else "-"


_POLICIES = {
    "btb": Mark(BLUE, "o", ""),
    "cache_aware": Mark(ORANGE, "s", "//", (5, 1)),
    "least_load": Mark(SKY, "^", "..", (2, 0.8)),
    "sglang": Mark(GREEN, "P", "\\\\", (8, 1)),
    "smg": Mark(RED, "v", "||", (3, 1)),
    "round_robin": Mark(PURPLE, "D", "xx", (5, 1, 1, 1)),
    "random": Mark("#7F7F7F", "X", "++", (1, 1)),
    # Tol's muted scheme (2021) where Okabe and Ito's colours are used up
    "dynamo": Mark("#882255", "<", "oo", (8, 1, 1, 1)),
    "mooncake": Mark("#332288", ">", "--", (3, 1, 1, 1)),
    "preble": Mark("#44AA99", "p", "\\", (6, 2)),
    "llm_d": Mark("#999933", "h", "/", (4, 2, 1, 2)),
    "power_of_two": Mark("#CC6677", "d", "x", (2, 2)),
    "prefix_hash": Mark("#8C6D31", "8", "-", (10, 2)),
    "pull": Mark("#AA4499", "*", "+", (6, 1, 2, 1)),
}
_ON_DARK = {BLUE: "#1A86D0", "#882255": "#C2538C", "#332288": "#8477D9"}  # too dark for a dark page otherwise


def policy_marks(policies: Iterable[str], theme: Theme = LIGHT) -> dict[str, Mark]:
    """The mark of each policy: a built-in one's never changes, others take those that are free, in order."""
    names = list(dict.fromkeys(policies))
    free = [mark for name, mark in _POLICIES.items() if name not in names] or list(_POLICIES.values())
    others = [name for name in names if name not in _POLICIES]
    marks = _POLICIES | {name: free[k % len(free)] for k, name in enumerate(others)}
    return {name: marks[name]._replace(colour=on_page(marks[name].colour, theme)) for name in names}


def on_page(colour: str, theme: Theme) -> str:
    """A colour of the palette as it is to be drawn on this page."""
    return _ON_DARK.get(colour, colour) if theme.name == "dark" else colour


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
        "figure.dpi": DPI,
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


def new_figure(width_in: float, height_in: float, title: str, subtitle: str = "") -> Figure:
    """An empty figure under its title (the finding) and a softer line; what is added lays itself out below them."""
    figure = _figure(width_in, height_in)
    top = 1 - _write_head(figure, title, subtitle) / height_in
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=(0, 0, 1, top), w_pad=0.08, h_pad=0.06))
    return figure


def fixed_figure(
    body_in: float, title: str, subtitle: str, left_in: float, right_in: float = 0.25, above_in: float = 0.3
) -> Figure:
    """The same for charts that know their margins, which is twice as fast; the axes of all rows are `body_in` high."""
    figure = _figure(WIDTH_IN, 1.0)
    head_in, foot_in = _head_lines(WIDTH_IN, title, subtitle)[2] + above_in, 0.62
    height_in = head_in + body_in + foot_in
    figure.set_size_inches(WIDTH_IN, height_in)
    _write_head(figure, title, subtitle)
    figure.subplots_adjust(
        left_in / WIDTH_IN, foot_in / height_in, 1 - right_in / WIDTH_IN, 1 - head_in / height_in, wspace=0.06
    )
    return figure


def _figure(width_in: float, height_in: float) -> Figure:
    figure = Figure(figsize=(width_in, height_in))
    FigureCanvasAgg(figure)
    return figure


def _head_lines(width_in: float, title: str, subtitle: str) -> tuple[list[str], list[str], float]:
    """Title and subtitle in lines that fit, and the height they take."""
    lines = _wrap(title, width_in - 0.24, 13, "bold")
    under = _wrap(subtitle, width_in - 0.24, 9.5)
    return lines, under, 0.22 + 0.235 * len(lines) + (0.03 + 0.175 * len(under) if under else 0)


def _wrap(text: str, width_in: float, size: float, weight: str = "normal") -> list[str]:
    """Lines of whole words, each no wider than this."""
    lines: list[str] = []
    space_in, used_in = _width_in("a a", size, weight) - _width_in("aa", size, weight), width_in
    for word in text.split():
        word_in = _width_in(word, size, weight)
        used_in += space_in + word_in
        if used_in > width_in:
            lines.append(word)
            used_in = word_in
        else:
            lines[-1] += f" {word}"
    return lines


def _write_head(figure: Figure, title: str, subtitle: str) -> float:
    width_in, height_in = figure.get_size_inches()
    lines, under, head_in = _head_lines(width_in, title, subtitle)
    soft = matplotlib.rcParams["axes.labelcolor"]
    for texts, top_in, look in (
        (lines, 0.1, {"size": 13, "weight": "bold", "linespacing": 1.15}),
        (under, 0.16 + 0.235 * len(lines), {"size": 9.5, "color": soft, "linespacing": 1.2}),
    ):
        figure.text(0.12 / width_in, 1 - top_in / height_in, "\n".join(texts), ha="left", va="top", **look)
    return head_in


def text_width_in(texts: Iterable[str], size: float, weight: str = "normal") -> float:
    """The width of the widest of some texts, in inches."""
    return max((_width_in(text, size, weight) for text in texts), default=0.0)


@cache
def _pencil() -> RendererAgg:
    return RendererAgg(1, 1, 150)


@lru_cache(1 << 12)
def _width_in(text: str, size: float, weight: str) -> float:
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return _pencil().get_text_width_height_descent(text, font, False)[0] / _pencil().dpi


def plain_axes(axes: Any, grid: str = "x") -> None:
    """Only what helps reading: light lines along one axis, no ticks on the other, no frame."""
    axes.grid(True, axis=grid)
    axes.tick_params(length=0)
    for side in ("left", "right", "top") if grid == "x" else ("top", "right"):
        axes.spines[side].set_visible(False)


def shorten(name: str, letters: int = 30) -> str:
    """A name on one line of at most so many letters."""
    name = " ".join(name.split())
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """The formats, each once. Raises UsageError with those allowed."""
    for name in formats:
        if name not in FORMATS:
            raise UsageError(f"no such chart format: {name!r}", nearest(name, list(FORMATS)))
    return tuple(dict.fromkeys(formats))


_METADATA: dict[str, dict[str, Any]] = {  # nothing that changes from one run to the next
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "btbench"},
    "pdf": {"CreationDate": None, "Creator": "btbench", "Producer": None},
}


def save_figure(figure: Figure, folder: Path, stem: str, formats: Sequence[str], theme: Theme) -> list[Path]:
    """Write the figure as `stem.png` and so on (`stem-dark.png` on a dark page). Returns the paths."""
    paths = []
    for kind in formats:
        path = folder / file_name(stem, kind, theme)
        with whole_file(path) as part:
            figure.savefig(part, format=kind, dpi=DPI, metadata=_METADATA[kind])
        paths.append(path)
    return paths


def file_name(stem: str, kind: str, theme: Theme) -> str:
    """`stem.png`, or `stem-dark.png` on a dark page."""
    return f"{stem}.{kind}" if theme is LIGHT else f"{stem}-{theme.name}.{kind}"
