"""The summary of a replay: one row a setup, policy and part of the trace, with the metrics of the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from btbench.cluster.setup import Setup
from btbench.engine.run import TIERS, Run
from btbench.errors import UsageError, nearest
from btbench.policies.registry import Policy
from btbench.results.metrics import METRICS
from btbench.results.requests import Requests, pool_requests
from btbench.results.spread import Spread
from btbench.trace import Trace, Window

ALL = "all"  # the part that is the whole trace

Value = int | float | None

_NO_GAP = 1e-9  # of the baseline: what sums differ by in their last bits


@dataclass(frozen=True)
class Row:
    """The metrics of one setup, policy and part. `row["mean_ttft_s"]` is a value; None where there is none."""

    setup: str
    policy: str
    part: str
    values: Mapping[str, Value]

    def __getitem__(self, metric: str) -> Value:
        return self.values[metric]

    @property
    def key(self) -> tuple[str, str, str]:
        """What the row is about."""
        return self.setup, self.policy, self.part

    @property
    def serves_all(self) -> bool:
        """Whether no request was turned away: only then are its times of the same requests as another's."""
        return not self["rejected"]

    @property
    def reduction_reach(self) -> tuple[float, float] | None:
        """The 95% interval of `mean_reduction_pct`, in %, where it is known."""
        low, high = self["mean_reduction_low_pct"], self["mean_reduction_high_pct"]
        return None if low is None or high is None else (low, high)

    def as_dict(self, metrics: Sequence[str] | None = None) -> dict[str, str | Value]:
        """The row flat, in the order of the contract; with `metrics` only these."""
        chosen = self.values if metrics is None else {name: self.values[name] for name in metrics}
        return {"setup": self.setup, "policy": self.policy, "part": self.part, **chosen}


def part_names(trace: Trace) -> list[str]:
    """`all`, then the labels of the windows in order of first appearance."""
    return list(dict.fromkeys([ALL, *(window.label for window in trace.windows if window.label)]))


def check_part(trace: Trace, part: str) -> None:
    """Raise UsageError where the trace has no such part."""
    if part not in part_names(trace):
        raise UsageError(f"--part {part}: {trace.name} has no such part", nearest(part, part_names(trace)))


def percentile(values: npt.NDArray[np.float64], *shares: float) -> list[float]:
    """For each share q the element int(q n) of the n sorted values, the product in float64."""
    indices = [int(share * len(values)) for share in shares]
    ordered = np.partition(values, sorted(set(indices)))
    return [float(ordered[index]) for index in indices]


def summarise(
    trace: Trace, setup: Setup, policy: Policy, runs: Sequence[Run], pooled: Requests | None = None
) -> list[Row]:
    """One row a part of the trace; the reductions stay None until `with_reductions` knows the baseline.

    `runs` holds one run for each window; `pooled` is `pool_requests(trace, trace.windows, runs)`, where a caller
    has it already. Where every request of a part was turned away, its row holds nothing but counts.
    """
    rows = []
    for part in part_names(trace):
        chosen = [k for k, window in enumerate(trace.windows) if part in (ALL, window.label)]
        windows, runs_here = [trace.windows[k] for k in chosen], [runs[k] for k in chosen]
        requests = pooled if pooled and part == ALL else pool_requests(trace, windows, runs_here)
        known: dict[str, Value] = {}
        if len(requests):
            known = _timings(requests) | _cache(requests) | _cluster(trace, windows, runs_here)
        engine_s, replayed = sum(run.engine_s for run in runs_here), len(requests) + requests.rejected
        known |= {"engine_s": engine_s, "requests_per_s": replayed / engine_s if engine_s else None}
        known |= {"requests": replayed, "rejected": requests.rejected}
        values = {metric.name: known.get(metric.name) for metric in METRICS}
        rows.append(Row(setup.name, policy.name, part, values))
    return rows


def _timings(requests: Requests) -> dict[str, Value]:
    values: dict[str, Value] = {"floor_mean_ttft_s": float(requests.floor_ttft_s.mean())}
    ttft_s = requests.ttft_s
    for name, value in zip(("p50", "p90", "p95", "p99"), percentile(ttft_s, 0.5, 0.9, 0.95, 0.99), strict=True):
        values[f"{name}_ttft_s"] = value
    values["mean_ttft_s"] = float(ttft_s.mean())
    values["max_ttft_s"] = float(ttft_s.max())
    for name, durations_s in (
        ("queue", requests.queue_s),
        ("reuse", requests.served.reuse_s),
        ("prefill", requests.served.prefill_s),
        ("e2e", requests.e2e_s),
    ):
        values[f"mean_{name}_s"] = float(durations_s.mean())
        values[f"p95_{name}_s"] = percentile(durations_s, 0.95)[0]
    return values


def _cache(requests: Requests) -> dict[str, Value]:
    input_tokens = int(requests.input_tokens.sum())
    hits = requests.served.hit_tokens
    values: dict[str, Value] = {"hit_rate": int(hits.sum()) / input_tokens}
    for code, tier in enumerate(TIERS[:-1]):
        values[f"{tier}_hit_rate"] = int(hits[requests.served.tier == code].sum()) / input_tokens
    return values


def _cluster(trace: Trace, windows: Sequence[Window], runs: Sequence[Run]) -> dict[str, Value]:
    """How busy the replicas are between a window's first arrival and its last finish, and what was copied."""
    makespan_s = sum(_makespan_s(trace, window, run) for window, run in zip(windows, runs, strict=True))
    use = sum(run.busy_s for run in runs) / makespan_s
    return {
        "replica_use_mean": float(np.mean(use)),
        "replica_use_min": float(np.min(use)),
        "replica_use_max": float(np.max(use)),
        "copies": sum(len(run.copies.used) for run in runs),
        "copied_bytes": float(sum(int(run.copies.blocks.sum()) * run.block_bytes for run in runs)),
        "unused_copies": sum(int((~run.copies.used).sum()) for run in runs),
    }


def _makespan_s(trace: Trace, window: Window, run: Run) -> float:
    """From the first arrival to the last finish; 0 where every request was turned away."""
    first_s = trace.arrival_s[window.start]
    return float(run.served.finish_s[run.served.replica >= 0].max(initial=first_s) - first_s)


def gap_closed_pct(baseline: Value, value: Value, floor: Value) -> float | None:
    """How far `value` is on the way from `baseline` down to `floor`, in %; None where there is no way to go."""
    if baseline is None or value is None or floor is None or baseline - floor <= _NO_GAP * baseline:
        return None
    return (baseline - value) / (baseline - floor) * 100


def reduction_pct(a: Value, b: Value) -> float | None:
    """How much less `b` is than `a`, in % of `a`; None where either is missing or `a` is 0."""
    return None if not a or b is None else (a - b) / a * 100


def with_reductions(rows: Iterable[Row], baseline: str, spread: Spread) -> list[Row]:
    """The rows with what they are against `baseline` on the same setup and part: reductions, intervals, gap closed.

    None for the baseline itself, where it was not replayed, and where either turned requests away: means of different
    requests cannot be told against each other.
    """
    rows = list(rows)
    of = {row.key: row for row in rows}
    done = []
    for row in rows:
        base = of.get((row.setup, baseline, row.part)) if row.policy != baseline else None
        base = base if base and base.serves_all and row.serves_all else None
        reductions = {
            f"{name}_reduction_pct": reduction_pct(base[f"{name}_ttft_s"], row[f"{name}_ttft_s"]) if base else None
            for name in ("mean", "p95")
        }
        closed = gap_closed_pct(base["mean_ttft_s"], row["mean_ttft_s"], row["floor_mean_ttft_s"]) if base else None
        label = None if row.part == ALL else row.part
        reach = spread.reduction_pct(row.setup, row.policy, baseline, label) if base else None
        low, high = reach or (None, None)
        against = reductions | {
            "mean_reduction_low_pct": low,
            "mean_reduction_high_pct": high,
            "gap_closed_pct": closed,
        }
        done.append(Row(*row.key, {**row.values, **against}))
    return done


Replays = Iterable[tuple[Setup, Policy, Sequence[Run]]]  # a grid: one run a window


def summary_rows(trace: Trace, replays: Replays, baseline: str, again: Iterable[Replays] = ()) -> list[Row]:
    """The summary of a whole grid: one row a setup, policy and part, in the order of `replays`.

    `again` holds the same grid replayed with other seeds, which tell on the intervals alone.
    """
    rows, spread = [], Spread(trace)
    for setup, policy, runs in replays:
        pooled = pool_requests(trace, trace.windows, runs)
        rows += summarise(trace, setup, policy, runs, pooled)
        spread.add(setup.name, policy.name, pooled)
    for setup, policy, runs in chain.from_iterable(again):
        spread.add(setup.name, policy.name, pool_requests(trace, trace.windows, runs))
    return with_reductions(rows, baseline, spread)
