"""How TTFT is distributed: an empirical distribution function a policy, one panel a setup."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log10

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from btbench.charts.findings import lowest_title
from btbench.charts.layout import fixed_figure, plain_axes, shorten
from btbench.charts.scales import around, log_axis, tick_duration
from btbench.charts.view import View

COLUMNS = 3
NAMED = 6  # policies in a line of the legend
PANEL_IN, GAP_IN, LEGEND_IN = 2.1, 0.75, 0.22
POINTS = 160  # of a curve
COARSEST, FINEST = 2.1, 3.3  # nines shown: up to 99.2%, or up to 99.95% where there are so many requests
MARKED = (0.50, 0.95, 0.99)
TICKS = {0.50: "p50", 0.90: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p99.9"}


def distribution_chart(view: View) -> Figure | None:
    """The share of requests with at most so long a TTFT; the tail is drawn out, each nine as high as the one before."""
    requests = view.requests()
    if requests is None:
        return None
    setups = list(dict.fromkeys(setup for setup, _ in view.rows))
    columns = min(COLUMNS, len(setups))
    rows = ceil(len(setups) / columns)
    note = "Upwards, 90%, 99% and 99.9% of the requests are equally far apart; marks at p50, p95, p99."
    policies = list(dict.fromkeys(policy for _, policy in view.rows))
    legend_in = LEGEND_IN * ceil(len(policies) / NAMED)
    body_in = legend_in + rows * PANEL_IN + (rows - 1) * GAP_IN
    figure = fixed_figure(
        body_in, lowest_title(view, "p99_ttft_s", "p99 TTFT"), f"{view.subtitle}. {note}", left_in=0.75, above_in=0.36
    )
    bottom, top = figure.subplotpars.bottom, figure.subplotpars.top
    figure.subplots_adjust(
        top=top - (top - bottom) * legend_in / body_in, hspace=GAP_IN / PANEL_IN, wspace=0.12 if columns > 1 else None
    )
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    nines = np.linspace(0, min(FINEST, max(COARSEST, log10(_count(view)))), POINTS)
    for panel, setup in zip(panels, setups, strict=False):
        _draw_panel(view, panel, setup, requests, nines)
    for panel in panels[len(setups) :]:
        panel.set_visible(False)
    panels[0].legend(
        handles=[_handle(view, policy) for policy in policies],
        loc="lower left", bbox_to_anchor=(-0.02, 1 + 0.27 / PANEL_IN), ncols=NAMED, borderaxespad=0, handlelength=3,
    )  # fmt: skip
    return figure


def _handle(view: View, policy: str) -> Line2D:
    mark = view.marks[policy]
    return Line2D([], [], color=mark.colour, linestyle=mark.line_style, marker=mark.marker, label=shorten(policy, 24))


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
    for policy, curve in curves.items():
        mark, seen = view.marks[policy], np.maximum(curve, low)
        panel.plot(seen[:POINTS], nines, color=mark.colour, linestyle=mark.line_style)
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
