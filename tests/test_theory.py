"""What queueing theory and cache theory say of simple cases, and whether a long replay says the same."""

from collections import OrderedDict

import numpy as np
import numpy.typing as npt
import pytest

from btbench.cluster.gpus import Gpu
from btbench.cluster.models import Model
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import TIERS, Run, replay
from btbench.policies.registry import Policy
from btbench.runs import join_runs
from btbench.trace import Trace, Window

BLOCK_TOKENS = 16
# 1e-5 s to prefill a token, next to nothing to decode one; room for 1e9 tokens
MODEL = Model("toy", params=1e9, active_params=1e9, dtype_bytes=1.0, layers=1, kv_heads=1, head_dim=1)
GPU = Gpu("toy", 2e14, 1e18, 1e9 + 2e9, 1e12, 1e12, 1e12)
ONE_AT_A_TIME = ServingOptions(mfu=1.0, mbu=1.0, max_batch=1)
PREFILL_S = 1e-5
REQUESTS = 1_000_000


def setup_of(replicas: int, gpu: Gpu = GPU) -> Setup:
    return Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i in range(replicas)))


def trace_of_lengths(arrival_s: npt.NDArray[np.float64], input_tokens: npt.NDArray[np.int64]) -> Trace:
    """Requests without blocks, each with an answer of one token."""
    n = len(arrival_s)
    return Trace(
        name="poisson",
        block_tokens=BLOCK_TOKENS,
        arrival_s=arrival_s,
        input_tokens=input_tokens,
        output_tokens=np.ones(n, np.int64),
        run_offsets=np.zeros(n + 1, np.int64),
        runs=np.zeros(0, np.int32),
        run_blocks=np.zeros(0, np.int32),
        tail_blocks=np.zeros(n, np.int32),
        windows=(Window("0", "", 0, n),),
    )


def serve(trace: Trace, replicas: int = 1, policy: str = "random") -> Run:
    return replay(trace, setup_of(replicas), Policy(policy, policy), ONE_AT_A_TIME, 42)


def poisson(rate: float, seed: int, n: int = REQUESTS) -> npt.NDArray[np.float64]:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, n))


def constant(mean_s: float, n: int = REQUESTS) -> npt.NDArray[np.int64]:
    return np.full(n, round(mean_s / PREFILL_S))


def exponential(mean_s: float, seed: int, n: int = REQUESTS) -> npt.NDArray[np.int64]:
    return np.maximum(1, np.random.default_rng(seed).exponential(mean_s / PREFILL_S, n)).astype(np.int64)


def lindley_wait_s(arrival_s: npt.NDArray[np.float64], service_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Wait of each request at one server, first come, first served: w' = max(0, w + service − gap) (Lindley, 1952)."""
    drift = np.concatenate([[0.0], np.cumsum(service_s[:-1] - np.diff(arrival_s))])
    return drift - np.minimum.accumulate(drift)


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
def test_md1_wait(utilisation):
    """Poisson arrivals, equal service times S: mean wait = ρ S / (2 (1 − ρ)) (Pollaczek and Khinchine)."""
    arrival_s, tokens = poisson(utilisation, seed=1), constant(1.0)
    wait_s = serve(trace_of_lengths(arrival_s, tokens)).served.start_s - arrival_s
    assert np.abs(wait_s - lindley_wait_s(arrival_s, tokens * PREFILL_S)).max() < 1e-4
    assert wait_s.mean() == pytest.approx(utilisation / (2 * (1 - utilisation)), rel=0.03)
    assert (wait_s == 0).mean() == pytest.approx(1 - utilisation, abs=0.01)  # an arrival finds it idle


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
def test_mm1_wait(utilisation):
    """Exponential service times of mean 1 / μ: mean wait = ρ / (μ − λ); P(wait > t) = ρ exp(−(μ − λ) t)."""
    arrival_s, tokens = poisson(utilisation, seed=2), exponential(1.0, seed=3)
    wait_s = serve(trace_of_lengths(arrival_s, tokens)).served.start_s - arrival_s
    assert np.abs(wait_s - lindley_wait_s(arrival_s, tokens * PREFILL_S)).max() < 1e-4
    assert wait_s.mean() == pytest.approx(utilisation / (1 - utilisation), rel=0.04)
    for t in (0.5, 2.0, 5.0):
        assert (wait_s > t).mean() == pytest.approx(utilisation * np.exp(-(1 - utilisation) * t), abs=0.01)


def test_littles_law_and_the_arrivals_view():
    """Mean number in system = arrival rate × mean time in system; Poisson arrivals see that mean (PASTA)."""
    arrival_s = poisson(0.7, seed=4)
    run = serve(trace_of_lengths(arrival_s, exponential(1.0, seed=5)))
    finish_s = run.served.finish_s  # in order, since one is served at a time
    assert np.all(np.diff(finish_s) > 0)
    found = np.arange(REQUESTS) - np.searchsorted(finish_s, arrival_s, side="right")
    rate = REQUESTS / arrival_s[-1]
    assert found.mean() == pytest.approx(rate * (finish_s - arrival_s).mean(), rel=0.02)
    assert run.busy_s[0] / finish_s[-1] == pytest.approx(0.7, rel=0.01)  # utilisation law


def test_a_random_split_is_as_many_queues_of_their_own():
    """A Poisson stream split at random is Poisson streams: four replicas wait as one at a quarter of the rate."""
    arrival_s = poisson(4 * 0.6, seed=6)
    trace = trace_of_lengths(arrival_s, constant(1.0))
    random, least_load = (serve(trace, 4, policy) for policy in ("random", "least_load"))
    waits = [(run.served.start_s - arrival_s).mean() for run in (random, least_load)]
    assert waits[0] == pytest.approx(0.6 / (2 * 0.4), rel=0.03)
    assert np.bincount(random.served.replica) / REQUESTS == pytest.approx(np.full(4, 0.25), abs=0.005)
    # the shortest queue waits longer than one common queue (M/D/4, about half of M/M/4's 0.2 s), far less than a split
    assert 0.08 < waits[1] < 0.25 * waits[0]


def stack_distances(items: list[int]) -> list[int | None]:
    """How many different items were asked for since the last time each was; None the first time (Mattson, 1970)."""
    stack: OrderedDict[int, None] = OrderedDict()
    distances: list[int | None] = []
    for item in items:
        if item in stack:
            distances.append(next(d for d, other in enumerate(reversed(stack)) if other == item))
        else:
            distances.append(None)
        stack[item] = None
        stack.move_to_end(item)
    return distances


@pytest.mark.parametrize("budget_blocks", [5, 40, 150])
def test_hbm_hits_follow_from_stack_distances(budget_blocks):
    """LRU keeps what has a stack distance below its size (Mattson et al., 1970): request by request.

    And for independent requests the hit rate is Che's approximation (2002): item i hits with 1 − exp(−p_i T), T such
    that these add up to the size.
    """
    n, kinds = 20_000, 300
    popularity = 1 / np.arange(1, kinds + 1) ** 0.8
    popularity /= popularity.sum()
    items = np.random.default_rng(7).choice(kinds, n, p=popularity)
    trace = trace_of_lengths(np.arange(n, dtype=float), np.full(n, BLOCK_TOKENS - 1))  # one block with its answer
    _, symbols = np.unique(items, return_inverse=True)
    offsets = np.arange(n + 1, dtype=np.int64)
    packed = join_runs(symbols.astype(np.int32), offsets, np.ones(kinds, np.int32), np.zeros(n, np.int32))
    trace = trace.with_changes(
        run_offsets=packed.offsets, runs=packed.runs, run_blocks=packed.run_blocks, tail_blocks=packed.tail_blocks
    )
    hbm_bytes = MODEL.weight_bytes + MODEL.kv_bytes_per_token * BLOCK_TOKENS * (budget_blocks + 0.5)
    gpu = Gpu("small", GPU.flops, GPU.hbm_bytes_per_s, hbm_bytes, 1e12, 1e12, 1e12)
    run = replay(trace, setup_of(1, gpu), Policy("random", "random"), ONE_AT_A_TIME, 42)
    tiers = [TIERS[code] for code in run.served.tier]
    assert tiers == [
        "miss" if distance is None else "hbm" if distance < budget_blocks else "ram"
        for distance in stack_distances(items.tolist())
    ]
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - np.exp(-popularity * middle)).sum() < budget_blocks else (low, middle)
    che = (popularity * (1 - np.exp(-popularity * low))).sum()
    warm = tiers[n // 4 :]
    assert warm.count("hbm") / len(warm) == pytest.approx(che, abs=0.015)
