"""A small trace and made-up runs of it, for the tests of what comes behind the engine."""

from collections.abc import Iterator

import numpy as np

from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica, Setup
from btbench.engine.run import Copies, Run, Served
from btbench.policies.registry import Policy
from btbench.trace import Trace, Window

BLOCK_TOKENS = 16
BLOCK_BYTES = 2.5e6
COPIED_BLOCKS = [1000, 600]  # of the copies of a window


def make_setup(name: str = "70b_h100x4", model: str = "llama-3.3-70b", replicas: int = 3) -> Setup:
    return Setup(name, MODELS[model], tuple(Replica(f"node{k}", GPUS["h100"], 4) for k in range(replicas)))


def make_policy(name: str) -> Policy:
    return Policy(name, name)


def make_trace(sizes: tuple[int, ...] = (40, 25, 60), labels: tuple[str, ...] = ("art", "synthetic", "art")) -> Trace:
    """Windows of these sizes and labels, arrivals 0.1 s apart, no two requests of the same length."""
    count = sum(sizes)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    windows = tuple(
        Window(f"w{k}", label, int(edges[k]), int(edges[k + 1])) for k, label in enumerate(labels)
    )  # fmt: skip
    return Trace(
        name="sample",
        block_tokens=BLOCK_TOKENS,
        arrival_s=np.concatenate([0.1 * np.arange(size) + 3.0 for size in sizes]),
        input_tokens=np.arange(count, dtype=np.int64) * 7 + 100,
        output_tokens=np.arange(count, dtype=np.int64) % 5 + 1,
        run_offsets=np.zeros(count + 1, np.int64),
        runs=np.zeros(0, np.int32),
        run_blocks=np.zeros(0, np.int32),
        tail_blocks=np.zeros(count, np.int32),
        windows=windows,
        format="mooncake",
        source="sample.jsonl",
        digest="xxh3_128:00112233445566778899aabbccddeeff",
    )


def make_runs(trace: Trace, setup: Setup, slowness: float = 1.0, seed: int = 0) -> list[Run]:
    """One made-up run a window: exponential waits around `slowness` seconds, some hits in every tier, a few copies."""
    rng = np.random.default_rng(seed)
    return [_make_run(trace, window, len(setup.replicas), slowness, rng) for window in trace.windows]


def _make_run(trace: Trace, window: Window, replicas: int, slowness: float, rng: np.random.Generator) -> Run:
    cut = slice(window.start, window.stop)
    n = window.stop - window.start
    tier = rng.integers(0, 4, n).astype(np.int8)
    start_s = trace.arrival_s[cut] + rng.exponential(slowness, n)
    reuse_s, prefill_s = rng.exponential(0.01, n), rng.exponential(0.1, n)
    served = Served(
        replica=rng.integers(0, replicas, n).astype(np.int32),
        start_s=start_s,
        reuse_s=reuse_s,
        prefill_s=prefill_s,
        finish_s=start_s + reuse_s + prefill_s + rng.exponential(0.5, n),
        hit_tokens=np.where(tier == 3, 0, trace.input_tokens[cut] // 2),
        tier=tier,
    )
    copies = Copies(
        request=np.array([1, 5], np.int32),
        source=np.array([0, 0], np.int32),
        target=np.array([1, 2], np.int32),
        start_s=np.array([3.5, 4.0]),
        ready_s=np.array([3.6, 4.25]),
        blocks=np.array(COPIED_BLOCKS, np.int32),
        used=np.array([True, False]),
    )
    return Run(served, copies, BLOCK_BYTES, prefill_s / 2, rng.uniform(1.0, 4.0, replicas), engine_s=0.001 * n)


def make_replays(trace: Trace, slowness: dict[str, float], *setups: Setup) -> Iterator[tuple[Setup, Policy, list[Run]]]:
    """A grid in setup-major order: every policy of `slowness` on every setup."""
    for seed, setup in enumerate(setups or (make_setup(),)):
        for policy, factor in slowness.items():
            yield setup, make_policy(policy), make_runs(trace, setup, factor, seed)
