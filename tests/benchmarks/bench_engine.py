"""How fast the engine replays, on one core, compiling and parsing aside.

pytest tests/benchmarks/bench_engine.py --benchmark-columns=min,mean,rounds

Each bound is what btbench promises; what was measured stands in the extra columns (--benchmark-json).
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cases import folder_of

from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import replay
from btbench.policies.parameters import BtbParameters, Parameters
from btbench.policies.registry import Policy
from btbench.runs import join_runs
from btbench.sources import open_trace
from btbench.sources.generator import generate_trace
from btbench.trace import Trace, Window
from btbench.trace_spec import GeneratorSpec, TraceSpec

POLICIES = ("least_load", "cache_aware", "btb")


def h100s(replicas: int) -> Setup:
    """llama-3.3-70b on replicas of four H100s."""
    nodes = tuple(Replica(f"node{i}", GPUS["h100"], 4) for i in range(replicas))
    return Setup("70b_h100x4", MODELS["llama-3.3-70b"], nodes)


def policy_named(name: str, **btb: float) -> Policy:
    """A policy of the paper's, `btb` with other parameters where given."""
    return Policy(name, name, Parameters(btb=BtbParameters(**btb)))


def engine_s(benchmark, trace: Trace, setup: Setup, policy: Policy) -> float:
    """The fastest of 30 replays, as the engine clocks itself."""
    took = []

    def once() -> None:
        took.append(replay(trace, setup, policy, ServingOptions(), 42).engine_s)

    benchmark.pedantic(once, rounds=30, warmup_rounds=1)
    benchmark.extra_info["million_requests_per_s"] = round(len(trace) / min(took) / 1e6, 2)
    return min(took)


@pytest.mark.parametrize("policy", POLICIES)
def test_bursted_window(benchmark, policy):
    """At least 5 million requests/s on a window of the paper's kind: 4,120 requests of 257 blocks."""
    trace = generate_trace(GeneratorSpec())
    assert len(trace) == 4_120
    assert len(trace) / engine_s(benchmark, trace, h100s(4), policy_named(policy)) > 5e6


@pytest.mark.parametrize("policy", POLICIES)
def test_mooncake_conversation(benchmark, policy):
    """At least 3 million requests/s on the real trace: 12,031 requests."""
    folder = folder_of("BTBENCH_TRACES")
    if folder is None:
        pytest.skip("BTBENCH_TRACES does not point to real traces")
    trace = open_trace(TraceSpec(source=str(folder / "mooncake" / "conversation_trace.jsonl.gz")), Path(), seed=42)
    assert len(trace) == 12_031
    named = policy_named(policy, prefix_blocks=2, window_s=3.0)  # so that there is something to copy
    assert len(trace) / engine_s(benchmark, trace, h100s(4), named) > 3e6


@pytest.mark.parametrize("policy", POLICIES)
def test_1024_replicas(benchmark, policy):
    """A request costs at most ten times what it costs on 4 replicas."""
    trace = generate_trace(GeneratorSpec())
    few = min(replay(trace, h100s(4), policy_named(policy), ServingOptions(), 42).engine_s for _ in range(20))
    many = engine_s(benchmark, trace, h100s(1024), policy_named(policy))
    benchmark.extra_info["times_the_cost_at_4"] = round(many / few, 2)
    assert many < 10 * few


def generated_blocks(requests: int, blocks: int) -> tuple[np.ndarray, ...]:
    """Arrival times, and dense block ids: 4 to 12 blocks of one of 5,000 prompts, the rest new."""
    draws = np.random.default_rng(0)
    arrival_s = np.cumsum(draws.exponential(1 / 20, requests))
    prompt = draws.integers(0, 5_000, requests)
    shared = draws.integers(4, 13, requests)
    column = np.arange(blocks, dtype=np.int32)
    known = prompt.astype(np.int32)[:, None] * blocks + column
    new = 5_000 * blocks + np.arange(requests, dtype=np.int32)[:, None] * blocks + column
    return arrival_s, np.where(column < shared[:, None], known, new)


def pack_and_replay(requests: int, policy: str) -> dict[str, float]:
    """Seconds and peak memory of packing and replaying generated requests of 16 blocks, after compiling."""
    blocks = 16

    def both(count: int) -> tuple[float, float]:
        arrival_s, ids = generated_blocks(count, blocks)
        started = time.perf_counter()
        ones = np.ones(ids.max() + 1, np.int32)
        packed = join_runs(ids.ravel(), np.arange(0, ids.size + 1, blocks), ones, np.zeros(count, np.int32))
        del ids, ones
        trace = Trace(
            name="generated",
            block_tokens=256,
            arrival_s=arrival_s,
            input_tokens=np.full(count, blocks * 256),
            output_tokens=np.full(count, 20),
            run_offsets=packed.offsets,
            runs=packed.runs,
            run_blocks=packed.run_blocks,
            tail_blocks=packed.tail_blocks,
            windows=(Window("0", "", 0, count),),
        )
        packed_s = time.perf_counter() - started
        replay(trace, h100s(4), policy_named(policy, prefix_blocks=4), ServingOptions(), 42)
        return packed_s, time.perf_counter() - started

    both(1_000)
    pack_s, all_s = both(requests)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"pack_s": pack_s, "all_s": all_s, "peak_bytes": peak_bytes}


@pytest.mark.parametrize("policy", POLICIES)
def test_two_and_a_half_million_requests(benchmark, policy):
    """2.5 million generated requests of 16 blocks are packed and replayed within 15 s and 4 GiB."""
    command = [sys.executable, __file__, "2500000", policy]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = benchmark.pedantic(
        lambda: subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True), rounds=1
    )
    found = json.loads(done.stdout)
    benchmark.extra_info.update(found)
    assert found["all_s"] < 15
    assert found["peak_bytes"] < 4 * 2**30


if __name__ == "__main__":
    print(json.dumps(pack_and_replay(int(sys.argv[1]), sys.argv[2])))
