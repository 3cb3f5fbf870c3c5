"""The legend of lines: a row of policies with their marks, in as many columns as fit."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from btbench.charts.layout import WIDTH_IN, shorten, text_width_in
from btbench.charts.marks import Mark

MOST_COLUMNS, SIZE = 6, 9.5
ROW_IN = 0.2
_ABOVE_IN = 0.27  # where it begins above the panel, whose title is between
_HANDLE, _SPACING = 3.0, 2.0  # widths of the line and between columns, in letters
_MARGIN_IN = 1.2  # of the page, at both sides


def legend_height_in(marks: Mapping[str, Mark]) -> float:
    """What the legend takes above a panel and its title."""
    return 0.1 + ROW_IN * ceil(len(marks) / _columns(marks))


def draw_legend(panel: Axes, marks: Mapping[str, Mark], panel_in: float) -> None:
    """Put the legend above the first panel, which is so high."""
    handles = [
        Line2D([], [], color=mark.colour, linestyle=mark.line_style, marker=mark.marker, label=shorten(policy, 24))
        for policy, mark in marks.items()
    ]
    panel.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(-0.02, 1 + _ABOVE_IN / panel_in), ncols=_columns(marks),
        borderaxespad=0, handlelength=_HANDLE, columnspacing=_SPACING,
    )  # fmt: skip


def _columns(marks: Mapping[str, Mark]) -> int:
    names_in = text_width_in([shorten(policy, 24) for policy in marks], SIZE)
    column_in = names_in + (_HANDLE + 0.8 + _SPACING) * SIZE / 72  # 0.8: between a line and its name
    return max(1, min(MOST_COLUMNS, len(marks), int((WIDTH_IN - _MARGIN_IN) / column_in)))
