"""A small made-up result as `btbench replay` stores it: a burst that one policy piles up, and two that spread it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica, Setup
from btbench.engine.run import Copies, Run, Served
from btbench.policies.registry import NAMES, Policy
from btbench.results.provenance import Published
from btbench.results.summary import Row
from btbench.results.sweep import Axis, Point, Sweep
from btbench.results.writer import write_result
from btbench.trace import Trace, Window

REPLICAS = 4
STEADY, BURST, LASTING_S = 80, 120, 100.0  # requests, requests, seconds of a window
BURST_AT_S = 40.0
BLOCK_TOKENS, COPY_BLOCKS = 256, 100


def make_setup(name: str, gpu: str = "h100") -> Setup:
    return Setup(name, MODELS["llama-3.3-70b"], tuple(Replica(f"node{k}", GPUS[gpu], 4) for k in range(REPLICAS)))


def make_trace() -> Trace:
    """Two windows, art and synthetic: a steady stream, and a burst in the second."""
    steady = np.linspace(1.0, LASTING_S, STEADY)
    bursty = np.sort(np.concatenate([steady, BURST_AT_S + np.linspace(0.0, 2.0, BURST)]))
    arrival_s = np.concatenate([steady, bursty])
    count = len(arrival_s)
    return Trace(
        name="sample",
        block_tokens=BLOCK_TOKENS,
        arrival_s=arrival_s,
        input_tokens=np.full(count, 8000, np.int64),
        output_tokens=np.full(count, 20, np.int64),
        run_offsets=np.zeros(count + 1, np.int64),
        runs=np.zeros(0, np.int32),
        run_blocks=np.zeros(0, np.int32),
        tail_blocks=np.zeros(count, np.int32),
        windows=(Window("w0", "art", 0, STEADY), Window("w1", "synthetic", STEADY, count)),
        source="sample.jsonl",
    )


def make_run(arrival_s: np.ndarray, spread: bool, slowness: float, copies: bool) -> Run:
    """Requests served one after another on each replica; a burst goes to the first replica, or over all of them."""
    n = len(arrival_s)
    in_burst = (arrival_s >= BURST_AT_S) & (arrival_s <= BURST_AT_S + 2.0) & (n > STEADY)
    replica = np.where(in_burst & (not spread), 0, np.arange(n) % REPLICAS).astype(np.int32)
    reuse_s = np.where(np.arange(n) % 5 == 0, 0.004, 0.0)
    prefill_s = np.where(in_burst, 0.05, 0.2) * slowness
    start_s, free_s = np.zeros(n), np.zeros(REPLICAS)
    for k in range(n):
        start_s[k] = max(arrival_s[k], free_s[replica[k]])
        free_s[replica[k]] = start_s[k] + reuse_s[k] + prefill_s[k]
    made = 3 if copies and in_burst.any() else 0
    tier = np.where(reuse_s > 0, 1, np.where(in_burst, 0, 3)).astype(np.int8)
    return Run(
        served=Served(
            replica=replica,
            start_s=start_s,
            reuse_s=reuse_s,
            prefill_s=prefill_s,
            finish_s=start_s + reuse_s + prefill_s + 0.4 * slowness,
            hit_tokens=np.where(tier == 3, 0, 6400),
            tier=tier,
        ),
        copies=Copies(
            request=np.full(made, int(np.argmax(in_burst)), np.int32),
            source=np.zeros(made, np.int32),
            target=np.arange(1, made + 1, dtype=np.int32),
            start_s=np.full(made, BURST_AT_S + 0.1),
            ready_s=np.full(made, BURST_AT_S + 0.3),
            blocks=np.full(made, COPY_BLOCKS, np.int32),
            used=np.arange(made) != 2,
        ),
        block_bytes=MODELS["llama-3.3-70b"].kv_bytes_per_token * BLOCK_TOKENS,
        floor_ttft_s=np.full(n, 0.04 * slowness),
        busy_s=np.full(REPLICAS, 10.0),
        engine_s=0.001,
    )


def write_sample(
    folder: Path,
    setups: Sequence[str] = ("small", "large"),
    policies: Sequence[str] = ("least_load", "cache_aware", "btb"),
    baseline: str = "cache_aware",
    published: Sequence[Published] = (),
) -> Path:
    """Write a result of these setups and policies. `cache_aware` and `btb…` behave as named, all others lie between."""
    trace = make_trace()
    tables = "".join(
        f'[[setup]]\nname = "{name}"\nmodel = "llama-3.3-70b"\n'
        f'gpu = "h100"\ngpus_per_replica = 4\nreplicas = {REPLICAS}\n'
        for name in setups
    )
    own = "".join(f'[policy."{name}"]\nbase = "btb"\n' for name in policies if name not in NAMES)
    names = ", ".join(f'"{name}"' for name in policies)
    with write_result(folder, trace, baseline) as writer:
        for s, setup in enumerate(map(make_setup, setups)):
            for p, policy in enumerate(policies):
                slowness = (1 + s) * (1.15 if policy not in ("cache_aware", "btb") else 1.0) * (1 + 0.01 * p)
                runs = [
                    make_run(
                        trace.arrival_s[w.start : w.stop], policy != "cache_aware", slowness, policy.startswith("btb")
                    )
                    for w in trace.windows
                ]
                writer.add(setup, Policy(policy, policy if policy in ("least_load", "cache_aware") else "btb"), runs)
        writer.finish(
            scenario="sample",
            scenario_toml=f'policies = [{names}]\n[trace]\nsource = "sample.jsonl"\n{own}{tables}',
            seed=42,
            command="btbench replay sample.toml",
            published=published,
            published_source="a paper" if published else "",
        )
    return folder


def add_intervals(folder: Path) -> None:
    """Give the reductions of a stored sample intervals, as of more windows than it has."""
    summary = json.loads((folder / "summary.json").read_text())
    for k, row in enumerate(summary["rows"]):
        if row["mean_reduction_pct"] is not None:
            row["mean_reduction_low_pct"] = row["mean_reduction_pct"] - 15 - 5 * (k % 3)
            row["mean_reduction_high_pct"] = row["mean_reduction_pct"] + 10
    (folder / "summary.json").write_text(json.dumps(summary))


def make_sweep(
    axes: Sequence[Axis],
    value: Callable[..., float],
    setups: Sequence[str] = ("s",),
    policies: Sequence[str] = ("cache_aware", "btb"),
) -> Sweep:
    """A sweep whose mean TTFT is `value(setup, policy, *values of the keys)`; reductions are against cache_aware."""
    points = [()]
    for axis in axes:
        points = [(*point, one) for point in points for one in axis.values]
    return Sweep("sample", "cache_aware", tuple(axes), tuple(
        Point(at, tuple(
            Row(setup, policy, "all", {
                "mean_ttft_s": value(setup, policy, *at),
                "mean_reduction_pct": None if policy == "cache_aware" else
                100 * (1 - value(setup, policy, *at) / value(setup, "cache_aware", *at)),
            })
            for setup in setups for policy in policies
        ))
        for at in points
    ))  # fmt: skip
