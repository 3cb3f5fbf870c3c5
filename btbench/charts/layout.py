"""How charts are laid out: figures under a head (the finding, and a softer line), and texts that fit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine

WIDTH_IN = 9.6  # of every chart, in inches
DPI = 150


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
    figure = Figure(figsize=(width_in, height_in), dpi=DPI)
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
    """A name on one line of at most so many letters; the middle is cut out, as it is the ends that tell names apart."""
    name = " ".join(name.split())
    head = letters // 2
    return name if len(name) <= letters else f"{name[:head]}…{name[len(name) - (letters - 1 - head) :]}"
