"""How TTFT is distributed: an empirical distribution function a policy, one panel a setup."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log10

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from btbench.charts.findings import all_alike, best_policy, lowest_title
from btbench.charts.layout import fixed_figure, plain_axes, shorten
from btbench.charts.legend import draw_legend, legend_height_in
from btbench.charts.scales import around, log_axis, tick_duration
from btbench.charts.view import View

COLUMNS = 3
PANEL_IN, ROW_IN, ALONE_IN = 2.1, 3.2, 4.6  # height of a panel: in rows, in one row, alone
GAP_IN = 0.75
MANY = 8  # curves in a panel from which on they are drawn thinner
POINTS = 160  # of a curve
COARSEST, FINEST = 2.1, 3.3  # nines shown: up to 99.2%, or up to 99.95% where there are so many requests
MARKED = (0.50, 0.95, 0.99)
TICKS = {0.50: "50%", 0.90: "90%", 0.95: "95%", 0.99: "99%", 0.999: "99.9%"}


def distribution_chart(view: View) -> Figure | None:
    """The share of requests with at most so long a TTFT; the tail is drawn out, each nine as high as the one before."""
    requests = view.requests()
    if requests is None:
        return None
    setups = list(dict.fromkeys(setup for setup, _ in view.rows))
    columns = min(COLUMNS, len(setups))
    rows = ceil(len(setups) / columns)
    panel_in = ALONE_IN if len(setups) == 1 else ROW_IN if rows == 1 else PANEL_IN
    note = "Upwards, 90%, 99% and 99.9% of the requests are equally far apart; marks at p50, p95, p99."
    marks = {policy: view.marks[policy] for _, policy in view.rows}
    legend_in = legend_height_in(marks)
    body_in = legend_in + rows * panel_in + (rows - 1) * GAP_IN
    figure = fixed_figure(body_in, _title(view), f"{view.subtitle}. {note}", left_in=0.95, above_in=0.36)
    bottom, top = figure.subplotpars.bottom, figure.subplotpars.top
    figure.subplots_adjust(
        top=top - (top - bottom) * legend_in / body_in, hspace=GAP_IN / panel_in, wspace=0.12 if columns > 1 else None
    )
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    nines = np.linspace(0, min(FINEST, max(COARSEST, log10(_count(view)))), POINTS)
    for panel, setup in zip(panels, setups, strict=False):
        _draw_panel(view, panel, setup, requests, nines)
    for panel in panels[::columns]:
        panel.set_ylabel("share of requests")
    for panel in panels[len(setups) :]:
        panel.set_visible(False)
    draw_legend(panels[0], marks, panel_in)
    return figure


def _title(view: View) -> str:
    """Of the highest percentile at which any two policies differ."""
    differing = (p for p in (99, 95, 90, 50) if not all_alike(view, f"p{p}_ttft_s"))
    p = next(differing, 99)
    return lowest_title(view, f"p{p}_ttft_s", f"p{p} TTFT")


def _count(view: View) -> int:
    return min(int(row["requests"] or 1) for row in view.rows.values())


def _draw_panel(view: View, panel: Axes, setup: str, requests: pl.LazyFrame, nines: npt.NDArray[np.float64]) -> None:
    levels = 1 - 10.0**-nines
    curves = {
        policy: ttft_quantiles(requests, setup, policy, [*levels, *MARKED])
        for other, policy in view.rows
        if other == setup
    }
    low, high = around([float(x) for curve in curves.values() for x in curve if x > 0], 1.15, 1.15)
    last = (view.baseline, best_policy(view))  # on top of the others
    for policy, curve in sorted(curves.items(), key=lambda item: last.index(item[0]) if item[0] in last else -1):
        mark, seen = view.marks[policy], np.maximum(curve, low)
        width = 1.2 if len(curves) > MANY and policy not in last else 1.8
        panel.plot(seen[:POINTS], nines, color=mark.colour, linestyle=mark.line_style, linewidth=width)
        panel.plot(
            seen[POINTS:], [-log10(1 - level) for level in MARKED], marker=mark.marker, color=mark.colour, markersize=6,
            linestyle="none",             markeredgecolor=view.theme.page, markeredgewidth=0.6, clip_on=False,
        )  # fmt: skip
    plain_axes(panel, "both")
    log_axis(panel, "x", low, high, tick_duration, ticks=4)
    panel.set_ylim(0, nines[-1])
    panel.set_yticks([-log10(1 - level) for level in TICKS], list(TICKS.values()))
    panel.set_ylim(0, nines[-1])
    panel.set_title(shorten(setup))
    waits = all(float(curve[0]) > 0 for curve in curves.values())
    panel.set_xlabel("TTFT, log scale" if waits else "TTFT, log scale; 0 at the left edge")


def ttft_quantiles(requests: pl.LazyFrame, setup: str, policy: str, levels: Sequence[float]) -> npt.NDArray[np.float64]:
    """For each level q the element int(q n) of the n sorted TTFTs of one setup and policy, in seconds."""
    here = requests.filter((pl.col("setup") == setup) & (pl.col("policy") == policy))
    ordered = here.select(pl.col("ttft_s").sort()).collect().to_series().to_numpy()
    ranks = np.minimum((np.asarray(levels) * len(ordered)).astype(np.int64), len(ordered) - 1)
    return np.asarray(ordered[ranks])
