"""What the GPUs were spared and what moved: GPU-seconds of prefill spent and avoided, bytes copied and never used."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from btbench.charts.findings import best_policy, percents, tenths
from btbench.charts.lines import Key, line_chart
from btbench.charts.scales import tick_count, tick_size
from btbench.charts.stacks import Step, draw_bars
from btbench.charts.ttft import draw_marks
from btbench.charts.view import View
from btbench.cluster.costs import KvCosts
from btbench.results import numbers


def prefill_chart(view: View) -> Figure | None:
    """GPU-seconds spent on prefill, and those that hits avoided; None without requests or scenario."""
    work = _prefill_work(view)
    if work is None:
        return None
    spent = {key: values[0] for key, values in work.items()}
    avoided = {key: values[1] for key, values in work.items()}
    note = "Avoided: prefill of the tokens found in a cache, less the time spent on loading them."
    panels = ["GPU time spent on prefill", "GPU time of prefill avoided"]
    lines = line_chart(view, work, panels, _prefill_title(view, spent, avoided), note)
    for panel, values in zip(lines.panels, (spent, avoided), strict=True):
        draw_marks(view, panel, lines, values, {k: numbers.digits(v) for k, v in values.items()}, tick_count)
        panel.set_xlabel("GPU-seconds, log scale")
    return lines.figure


def _prefill_work(view: View) -> dict[Key, tuple[float, float]] | None:
    """GPU-seconds spent and avoided of each setup and policy."""
    requests, scenario = view.requests(), view.scenario
    if requests is None or scenario is None:
        return None
    rates = pl.LazyFrame(
        [
            (setup.name, k, replica.gpus, KvCosts(setup.model, replica, scenario.options.mfu).prefill_s(1))
            for setup in scenario.setups
            for k, replica in enumerate(setup.replicas)
        ],
        schema={"setup": pl.String, "replica": pl.Int64, "gpus": pl.Int64, "token_s": pl.Float64},
        orient="row",
    )
    sums = requests.group_by("setup", "policy", "replica").agg(pl.col("prefill_s", "reuse_s", "hit_tokens").sum())
    totals = (
        sums.join(rates, on=["setup", "replica"])
        .sort("setup", "policy", "replica")
        .group_by("setup", "policy", maintain_order=True)
        .agg(
            spent=(pl.col("prefill_s") * pl.col("gpus")).sum(),
            avoided=((pl.col("hit_tokens") * pl.col("token_s") - pl.col("reuse_s")) * pl.col("gpus")).sum(),
        )
        .collect(engine="streaming")
    )
    of = {(setup, policy): (spent, avoided) for setup, policy, spent, avoided in totals.iter_rows()}
    return {key: of[key] for key in view.rows if key in of} or None


def _prefill_title(view: View, spent: dict[Key, float], avoided: dict[Key, float]) -> str:
    best = best_policy(view) or view.result.policies[0]
    keys = [key for key in spent if key[1] == best]
    shares = [100 * avoided[key] / (spent[key] + avoided[key]) for key in keys if spent[key] + avoided[key] > 0]
    title = f"{best} avoids {tenths(shares)} of prefill" if shares else f"Prefill under {best}"
    base = {setup: value for (setup, policy), value in spent.items() if policy == view.baseline and value > 0}
    less = [100 * (1 - spent[key] / base[key[0]]) for key in keys if key[0] in base and best != view.baseline]
    if not less:
        return title
    low, high = min(less), max(less)
    if max(abs(low), abs(high)) < 0.05:
        return f"{title} and spends as much on it as {view.baseline}"
    if low >= -0.05:
        return f"{title} and spends {percents(max(low, 0.0), high)} less on it than {view.baseline}"
    if high <= 0.05:
        return f"{title} and spends {percents(max(-high, 0.0), -low)} more on it than {view.baseline}"
    more = f"or up to {percents(-low, -low)} more, than {view.baseline}"
    return f"{title} and spends up to {percents(high, high)} less on it, {more}"


def copies_chart(view: View) -> Figure | None:
    """Bytes copied from replica to replica, used or not; None where nothing was copied."""
    rows = {key: row for key, row in view.rows.items() if row["copies"]}
    if not rows:
        return None
    steps = (Step("found by a later request", 1.0), Step("never used", 0.12, "xxxx"))
    wasted = _unused_bytes(view)
    moved, texts = {}, {}
    for key, row in rows.items():
        copies, unused, size = int(row["copies"] or 0), int(row["unused_copies"] or 0), float(row["copied_bytes"] or 0)
        lost = (
            size * unused / copies if wasted is None else wasted.get(key, 0.0)
        )  # without their file: as if all were alike
        moved[key] = [size - lost, lost]
        texts[key] = f"{numbers.size(size)} in {numbers.count(copies)} copies, {numbers.count(unused)} unused"
    lines = line_chart(view, rows, [""], _copies_title(view))
    largest = max(sum(parts) for parts in moved.values())
    draw_bars(view, lines, steps, moved, texts, largest)
    lines.panels[0].xaxis.set_major_formatter(lambda value, _: tick_size(value))
    lines.panels[0].set_xlabel("bytes copied between replicas over RDMA")
    return lines.figure


def _unused_bytes(view: View) -> dict[Key, float] | None:
    copies = view.copies()
    if copies is None:
        return None
    unused = copies.filter(~pl.col("used")).group_by("setup", "policy").agg(pl.col("bytes").sum()).collect()
    return {(setup, policy): lost for setup, policy, lost in unused.iter_rows()}


def _copies_title(view: View) -> str:
    copies = sum(int(row["copies"] or 0) for row in view.rows.values())
    unused = sum(int(row["unused_copies"] or 0) for row in view.rows.values())
    if not unused:
        return f"All {numbers.count(copies)} copies were found by a later request"
    return (
        f"{numbers.count(unused)} of {numbers.count(copies)} copies were never used ({numbers.share(unused / copies)})"
    )
