"""Hypothesis strategies for small replays that matter: ties, tiny budgets, odd prompts, many and unequal replicas."""

from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf, nextafter

import naive
import numpy as np
from hypothesis import strategies as st

from btbench.cluster.gpus import Gpu
from btbench.cluster.models import Model
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.policies.parameters import BtbParameters, CacheAwareParameters, Parameters
from btbench.runs import join_runs
from btbench.trace import Trace, Window

# A token takes 512 bytes of KV, prefilling it 2 ms on a GPU of 2e12 FLOP/s at mfu 0.5.
MODEL = Model("toy", params=1e9, active_params=1e9, dtype_bytes=2.0, layers=4, kv_heads=2, head_dim=16)
BLOCK_TOKENS = 8


@dataclass(frozen=True)
class Problem:
    """Everything one replay takes, but for the policy's name."""

    requests: tuple[naive.Request, ...]  # in arrival order
    setup: Setup
    options: ServingOptions
    parameters: Parameters
    seed: int
    block_tokens: int = BLOCK_TOKENS


def trace_of(requests, block_tokens: int = BLOCK_TOKENS, joined: bool = True) -> Trace:
    """Pack requests in arrival order as one window; without `joined` every block is a run of its own."""
    ids: dict = {}
    symbols = np.array([ids.setdefault(b, len(ids)) for r in requests for b in r.blocks], np.int32)
    offsets = np.cumsum([0, *(len(r.blocks) for r in requests)], dtype=np.int64)
    cut_after = None if joined else np.ones(len(ids), np.bool_)
    packed = join_runs(symbols, offsets, np.ones(len(ids), np.int32), np.zeros(len(requests), np.int32), cut_after)
    return Trace(
        name="test",
        block_tokens=block_tokens,
        arrival_s=np.array([r.arrival_s for r in requests], np.float64),
        input_tokens=np.array([r.input_tokens for r in requests], np.int64),
        output_tokens=np.array([r.output_tokens for r in requests], np.int64),
        run_offsets=packed.offsets,
        runs=packed.runs,
        run_blocks=packed.run_blocks,
        tail_blocks=packed.tail_blocks,
        windows=(Window("0", "", 0, len(requests)),),
    )


def arrivals(count: int):
    """Arrival times: on a coarse grid, with multiples of the burst windows apart, all at once, or anywhere."""
    grid = st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.25, 0.5, 2.0]), min_size=count, max_size=count)
    tenths = st.lists(st.sampled_from([0.0, 0.1, 0.1, 0.2, 0.3]), min_size=count, max_size=count)  # sums get rounded
    free = st.lists(st.floats(0, 0.5, allow_subnormal=False), min_size=count, max_size=count)
    return st.one_of(grid, tenths, free, st.just([0.0] * count)).map(lambda gaps: list(accumulate(gaps)))


def tree_prompts(count: int):
    """Paths in a small forest: a shared stem of a group, a branch, a few blocks of one's own."""
    path = st.tuples(
        st.integers(0, 2), st.integers(0, 9), st.integers(0, 2), st.sampled_from([0, 1, 4]), st.integers(0, 2)
    )

    def prompts(paths):
        return [
            (
                *(f"g{group}s{i}" for i in range(stem)),
                *(f"g{group}s{stem}b{branch}x{i}" for i in range(length)),
                *(f"u{row}x{i}" for i in range(own)),
            )
            for row, (group, stem, branch, length, own) in enumerate(paths)
        ]

    return st.lists(path, min_size=count, max_size=count).map(prompts)


def conversation_prompts(count: int):
    """Each prompt goes on from an earlier one, cut somewhere, by some new blocks."""

    def prompts(turns):
        made: list[tuple] = []
        for row, (back, keep, new) in enumerate(turns):
            earlier = made[max(0, row - back)] if made and row - back < len(made) else ()
            made.append((*earlier[: len(earlier) - keep or None], *(f"t{row}x{i}" for i in range(new)))[:24])
        return made

    turn = st.tuples(st.integers(1, 4), st.sampled_from([0, 0, 0, 1, 3]), st.integers(0, 4))
    return st.lists(turn, min_size=count, max_size=count).map(prompts)


def flat_prompts(count: int):
    """Ids without any order: behind different predecessors, and more than once in a prompt."""
    prompt = st.lists(st.integers(0, 7), max_size=10).map(tuple)
    return st.lists(prompt, min_size=count, max_size=count)


def bursty_prompts(count: int):
    """One of two long prefixes, then a block of one's own."""
    prompt = st.tuples(st.sampled_from([0, 0, 0, 1]), st.integers(4, 10))

    def prompts(drawn):
        return [(*(f"p{which}x{i}" for i in range(n)), f"u{row}") for row, (which, n) in enumerate(drawn)]

    return st.lists(prompt, min_size=count, max_size=count).map(prompts)


def any_prompts(count: int):
    """All of these, and prompts without blocks."""
    return st.one_of(
        tree_prompts(count),
        bursty_prompts(count),
        conversation_prompts(count),
        flat_prompts(count),
        st.just([()] * count),
    )


@st.composite
def requests(draw, prompts_of=any_prompts, max_requests: int = 40):
    """Requests in arrival order; prompts may hold fewer or more blocks than their tokens need, or none."""
    count = draw(st.integers(1, max_requests))
    times = draw(arrivals(count))
    prompts = draw(prompts_of(count))
    # tokens more (less) than the blocks hold
    surplus = draw(st.lists(st.sampled_from([0, 0, -3, -9, 5, 20]), min_size=count, max_size=count))
    outputs = draw(st.lists(st.sampled_from([1, 1, 2, 7, 30, 90]), min_size=count, max_size=count))
    return tuple(
        naive.Request(t, max(1, BLOCK_TOKENS * len(blocks) + extra), output, blocks)
        for t, blocks, extra, output in zip(times, prompts, surplus, outputs, strict=True)
    )


@st.composite
def gpus(draw, least_tokens: int):
    """A GPU whose HBM holds the toy model and a few to many more KV tokens than the largest request needs."""
    room = least_tokens + draw(st.sampled_from([0, 1, 8, 40, 200, 5000]))
    return Gpu(
        name="toy",
        flops=draw(st.sampled_from([2e11, 2e12, 3e13])),
        hbm_bytes_per_s=draw(st.sampled_from([2e10, 3e11])),
        hbm_bytes=MODEL.weight_bytes + MODEL.kv_bytes_per_token * (room + 0.5),
        pcie_bytes_per_s=draw(st.sampled_from([1e5, 1e7])),
        rdma_bytes_per_s=draw(st.sampled_from([4096.0, 65_536.0, 1e5, 1e8])),  # a block of 4 KiB takes 1 s to no time
        disk_bytes_per_s=draw(st.sampled_from([2e5, 1e7])),
    )


@st.composite
def setups(draw, least_tokens: int, replica_counts):
    """Equal or unequal replicas that each serve any request."""
    count = draw(replica_counts)
    kinds = draw(st.lists(gpus(least_tokens), min_size=1, max_size=min(3, count)))
    shares = draw(st.lists(st.integers(1, 3), min_size=len(kinds), max_size=len(kinds)))
    replicas = []
    for i in range(count):
        gpu, share = kinds[i % len(kinds)], shares[i % len(kinds)]
        # all GPUs of a replica together hold what one was drawn to hold
        replicas.append(Replica(f"node{i}", replace(gpu, hbm_bytes=gpu.hbm_bytes / share), share))
    return Setup("toys", MODEL, tuple(replicas))


options = st.builds(
    ServingOptions,
    mfu=st.sampled_from([0.5, 0.37]),
    mbu=st.sampled_from([0.8, 0.61]),
    max_batch=st.sampled_from([1, 2, 3, 256]),
    disk_cache=st.booleans(),
)

parameters = st.builds(
    lambda cache_aware, btb: Parameters(cache_aware=cache_aware, btb=btb),  # all else stays at its default
    cache_aware=st.builds(
        CacheAwareParameters,
        balance_abs_threshold=st.sampled_from([0.0, 1.0, 2.5, 4.0, 64.0]),
        balance_rel_threshold=st.sampled_from([0.0, 1.0, 1.5, 3.0]),
    ),
    btb=st.builds(
        BtbParameters,
        threshold=st.sampled_from([1, 2, 2, 3]),
        prefix_blocks=st.sampled_from([1, 2, 4, 4, 6, 7]),
        window_s=st.sampled_from([0.0, 0.1, 0.3, 0.5, 2.0, 100.0]),
        copies=st.sampled_from([1, 2, 3, 5, 200]),
        fallback=st.sampled_from(["cache_aware", "cache_aware", "cache_aware", "least_load", "round_robin", "random"]),
    ),
)

few_replicas = st.integers(1, 5)
many_replicas = st.sampled_from([63, 64, 65, 128, 130])


@st.composite
def problems(draw, replica_counts=few_replicas, prompts_of=any_prompts, max_requests: int = 40):
    """Whole replays."""
    rows = draw(requests(prompts_of, max_requests))
    least_tokens = max(BLOCK_TOKENS, *(r.input_tokens + r.output_tokens for r in rows))
    return Problem(
        rows,
        draw(setups(least_tokens, replica_counts)),
        draw(options),
        draw(parameters),
        draw(st.integers(0, 3)),
    )


@st.composite
def thrashing_bursts(draw):
    """Copies of several prefixes land at the same time on caches that hold few of them."""
    count = draw(st.integers(8, 32))
    which = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    own = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    prompts = [
        (*(f"p{w}x{k}" for k in range(4)), *(f"u{i}",) * n) for i, (w, n) in enumerate(zip(which, own, strict=True))
    ]
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.5]), min_size=count, max_size=count))
    rows = [
        naive.Request(t, BLOCK_TOKENS * len(blocks), 1, blocks)
        for t, blocks in zip(accumulate(gaps), prompts, strict=True)
    ]
    room = BLOCK_TOKENS * draw(st.sampled_from([6, 7, 9, 10, 11])) + 4
    hbm_bytes = MODEL.weight_bytes + MODEL.kv_bytes_per_token * room
    gpu = Gpu("toy", 3e13, 3e11, hbm_bytes, 1e7, draw(st.sampled_from([16_384.0, 65_536.0, 262_144.0])), 1e7)
    setup = Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i in range(3)))
    rule = BtbParameters(threshold=2, prefix_blocks=4, window_s=5.0, copies=3)
    return Problem(tuple(rows), setup, ServingOptions(), Parameters(btb=rule), draw(st.integers(0, 3)))


@st.composite
def cold_bursts(draw):
    """Prompts that share much and arrive while the first of them is still being prefilled; moving KV is faster."""
    # a stem, part of which everybody has; blocks behind it that a few share; perhaps one's own
    part = st.tuples(st.sampled_from([4, 8, 8, 12]), st.integers(0, 2), st.integers(0, 2))
    parts = draw(st.lists(part, min_size=3, max_size=16))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.02, 0.1, 0.1, 0.7]), min_size=len(parts), max_size=len(parts)))
    prompts = [
        (*(f"s{k}" for k in range(stem)), *(f"s{stem}b{k}" for k in range(branch)), *(f"u{row}",) * own)
        for row, (stem, branch, own) in enumerate(parts)
    ]
    outputs = draw(st.lists(st.sampled_from([1, 1, 7, 30]), min_size=len(parts), max_size=len(parts)))
    rows = [
        naive.Request(t, BLOCK_TOKENS * len(blocks), output, blocks)
        for t, blocks, output in zip(accumulate(gaps), prompts, outputs, strict=True)
    ]
    hbm_bytes = MODEL.weight_bytes + MODEL.kv_bytes_per_token * (draw(st.sampled_from([160, 200, 2000])) + 0.5)
    rdma = st.sampled_from([32_768.0, 65_536.0, 1e6])  # a block takes 125, 62 or 4 ms; to prefill it 160 or 16 ms
    gpus = [Gpu("toy", draw(st.sampled_from([2e11, 2e12])), 3e11, hbm_bytes, 1e6, draw(rdma), 1e6) for _ in range(3)]
    setup = Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i, gpu in enumerate(gpus)))
    rule = BtbParameters(threshold=draw(st.integers(1, 2)), prefix_blocks=4, window_s=5.0, copies=3)
    serving = ServingOptions(max_batch=draw(st.sampled_from([1, 256])), disk_cache=draw(st.booleans()))
    return Problem(tuple(rows), setup, serving, Parameters(btb=rule), draw(st.integers(0, 3)))


def waiting(problems):
    """The same problems, but KV leaves a replica no earlier than it is there."""
    return problems.map(lambda problem: replace(problem, options=replace(problem.options, copies_wait=True)))


@st.composite
def problems_in_step(draw):
    """Replays under `btb` in which requests arrive exactly when something happens, or a rounding error beside it.

    Something: a request starts or ends, or would end with a shorter answer; a copy is ready.
    """
    problem = draw(problems(prompts_of=draw(st.sampled_from([bursty_prompts, any_prompts])), max_requests=14))
    made: list[naive.Request] = []
    for request in problem.requests:
        earliest_s = made[-1].arrival_s if made else 0.0
        moments = _moments(problem, made, draw(st.sampled_from([1, 1, 2, 3])))
        later = sorted(t for t in moments if t >= earliest_s)[:8]
        arrival_s = draw(st.sampled_from([earliest_s, earliest_s + 0.1, *later]))
        made.append(replace(request, arrival_s=arrival_s))
    return replace(problem, requests=tuple(made))


def _moments(problem: Problem, made: list[naive.Request], shorter: int) -> set[float]:
    """Times at which something happens, and the floats beside them."""
    rows = [replace(r, output_tokens=max(1, r.output_tokens // shorter)) for r in made]
    replayed = naive.replay(
        rows, problem.block_tokens, problem.setup, problem.options, "btb", problem.parameters, problem.seed
    )
    exact = [s.start_s for s in replayed.served] + [s.finish_s for s in replayed.served]
    exact += [c.ready_s for c in replayed.copies] + [
        c.ready_s + problem.parameters.btb.window_s for c in replayed.copies
    ]
    return {t for moment in exact for t in (moment, nextafter(moment, 0.0), nextafter(moment, inf))}
