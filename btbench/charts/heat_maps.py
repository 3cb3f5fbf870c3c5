"""A sweep over two keys: a heat map for each setup and policy, every value printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure

from btbench.charts.field import Field
from btbench.charts.layout import WIDTH_IN, fixed_figure, shorten, text_width_in
from btbench.results.sweep import said

COLUMNS = 3
CELL_IN, GAP_IN = 0.3, 0.85
TEXT = 8.5  # points, of a value in a cell

Grid = npt.NDArray[np.float64]  # (values of the first key, values of the second), nan where there is none


def heat_maps(field: Field) -> Figure:
    """The first key upwards, the second to the right; colours compare the policies of one setup."""
    down, right = field.sweep.axes
    shape = len(down.values), len(right.values)
    grids = {key: np.array(values, dtype=float).reshape(shape) for key, values in field.values.items()}
    setups = list(dict.fromkeys(setup for setup, _ in grids))
    of_setup = {setup: [policy for other, policy in grids if other == setup] for setup in setups}
    columns = min(COLUMNS, max(map(len, of_setup.values())))
    rows = sum(ceil(len(policies) / columns) for policies in of_setup.values())
    panel_in = max(2, shape[0]) * CELL_IN
    names = [shorten(said(value), 14) for value in down.values]
    figure = fixed_figure(
        rows * panel_in + (rows - 1) * GAP_IN, _title(field, grids), _subtitle(field),
        left_in=0.5 + text_width_in(names, 9),
    )  # fmt: skip
    figure.subplots_adjust(hspace=GAP_IN / panel_in, wspace=0.08)
    panels = figure.subplots(rows, columns, squeeze=False)
    row = 0
    for setup in setups:
        norm = _norm(field, [grids[setup, policy] for policy in of_setup[setup]])
        for k, policy in enumerate(of_setup[setup]):
            panel = panels[row + k // columns, k % columns]
            _draw(field, panel, grids[setup, policy], norm, columns)
            panel.set_title(shorten(policy if len(setups) == 1 else f"{policy}, {setup}", 34))
            panel.set_xlabel(right.key)
            if k % columns == 0:
                panel.set_yticks(range(shape[0]), names)
                panel.set_ylabel(down.key)
        used = ceil(len(of_setup[setup]) / columns)
        for panel in panels[row : row + used].ravel()[len(of_setup[setup]) :]:
            panel.set_visible(False)
        row += used
    return figure


def _norm(field: Field, grids: Sequence[Grid]) -> Normalize:
    low, high = float(np.nanmin(grids)), float(np.nanmax(grids))
    return (LogNorm if field.is_wide([low, high]) else Normalize)(low, high if high > low else low + 1)


def _draw(field: Field, panel: Axes, grid: Grid, norm: Normalize, columns: int) -> None:
    colours = matplotlib.colormaps[field.theme.heat]
    panel.imshow(grid, cmap=colours, norm=norm, aspect="auto", origin="lower")
    values = [shorten(said(value), 10) for value in field.sweep.axes[1].values]
    room = max(1, int((WIDTH_IN / columns - 0.9) / 0.45))
    every = ceil(len(values) / room)
    panel.set_xticks(range(0, len(values), every), values[::every])
    panel.set_yticks([])
    panel.tick_params(length=0)
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)
    texts = {at: field.text(None if np.isnan(value) else float(value)) for at, value in np.ndenumerate(grid)}
    if text_width_in(texts.values(), TEXT) + 0.05 <= (WIDTH_IN / columns - 0.5) / len(values):
        for (i, k), text in texts.items():
            ink = _ink_on(colours, norm, float(grid[i, k]), field.theme.ink)
            panel.text(k, i, text, ha="center", va="center_baseline", size=TEXT, color=ink)


def _ink_on(colours: Colormap, norm: Normalize, value: float, ink: str) -> str:
    """Black or white, whichever is read on the colour of a value; the page's ink where there is none."""
    if np.isnan(value):
        return ink
    r, g, b, _ = colours(norm(value))
    return "#000000" if 0.299 * r + 0.587 * g + 0.114 * b > 0.5 else "#FFFFFF"  # luma of ITU-R BT.601


def _subtitle(field: Field) -> str:
    return f"{field.subtitle} Colour: from the lowest to the highest value of a setup."


def _title(field: Field, grids: dict[tuple[str, str], Grid]) -> str:
    """Which policy is best at which values, on the most setups."""
    setups = list(dict.fromkeys(setup for setup, _ in grids))
    words, better = field.metric.words, field.metric.better
    if better == "neither":
        everything: list[float | None] = [float(v) for grid in grids.values() for v in grid.ravel() if not np.isnan(v)]
        return f"{words[0].upper()}{words[1:]}: {field.span(everything)}"
    best = [_best(grids, setup, better == "lower") for setup in setups]
    (policy, at), wins = Counter((policy, at) for policy, at, _ in best).most_common(1)[0]
    point = field.sweep.label(_values(field, at))
    found = [value for other, place, value in best if (other, place) == (policy, at)]
    on = f", on {wins} of {len(setups)} setups" if len(setups) > 1 else ""
    return f"{'Lowest' if better == 'lower' else 'Highest'} {words}: {policy} at {point} ({field.span(found)}{on})"


def _best(grids: dict[tuple[str, str], Grid], setup: str, lowest: bool) -> tuple[str, tuple[int, ...], float]:
    """Policy, place and value of the best cell of a setup; the first of equals."""
    cells = [
        (policy, at, float(value))
        for (other, policy), grid in grids.items()
        for at, value in np.ndenumerate(grid)
        if other == setup and not np.isnan(value)
    ]
    return (min if lowest else max)(cells, key=lambda cell: cell[2])


def _values(field: Field, at: Sequence[int]) -> list[object]:
    return [axis.values[k] for axis, k in zip(field.sweep.axes, at, strict=True)]
