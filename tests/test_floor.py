"""The floor: found again by brute force, and what it bounds."""

from dataclasses import replace

import naive
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from replaying import rows_of_run, through_engine
from strategies import BLOCK_TOKENS, MODEL, Problem

from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import Run
from btbench.policies.parameters import BtbParameters, Parameters
from btbench.policies.registry import KINDS, NAMES

THAT_ONLY_ROUTE = [kind.name for kind in KINDS if not kind.moves_kv]


def prefill_s(problem: Problem, request: naive.Request, known: set) -> float:
    """Prefill of what lies behind a prompt's leading known blocks, on the fastest replica."""
    leading = 0
    while leading < len(request.blocks) and request.blocks[leading] in known:
        leading += 1
    tokens = request.input_tokens - min(leading * problem.block_tokens, request.input_tokens)
    replicas = problem.setup.replicas
    costs = [naive.Costs(problem.setup.model, r, problem.options, problem.block_tokens) for r in replicas]
    return min(cost.prefill_s(tokens) for cost in costs)


def floors(problem: Problem) -> list[float]:
    """Every request's TTFT without a queue, with all blocks known that an earlier request has."""
    known: set = set()
    found = []
    for request in problem.requests:
        found.append(prefill_s(problem, request, known))
        known.update(request.blocks)
    return found


def ttft_s(problem: Problem, run: Run) -> np.ndarray:
    arrival_s = np.array([request.arrival_s for request in problem.requests])
    return run.served.start_s - arrival_s + run.served.reuse_s + run.served.prefill_s


def without_disk(problem: Problem) -> Problem:
    return replace(problem, options=replace(problem.options, disk_cache=False))


@given(strategies.problems(), st.sampled_from(NAMES), st.booleans())
def test_the_floor_is_that_of_brute_force_whatever_the_policy(problem, policy, joined):
    assert through_engine(problem, policy, joined).floor_ttft_s.tolist() == floors(problem)


@pytest.mark.parametrize("policy", THAT_ONLY_ROUTE)
@settings(max_examples=25)
@given(problem=strategies.problems())
def test_no_request_beats_its_floor_where_kv_stays_where_it_is(policy, problem):
    """To the last bit, on unequal replicas too."""
    problem = without_disk(problem)
    run = through_engine(problem, policy)
    assert (ttft_s(problem, run) >= run.floor_ttft_s).all()


@pytest.mark.parametrize("policy", NAMES)
@settings(max_examples=25)
@given(problem=strategies.problems())
def test_no_request_finds_more_than_what_came_before_its_prefill(policy, problem):
    """With copies, transfers and a disk: what no request that arrived by its start brought in is prefilled."""
    run = through_engine(problem, policy)
    for i, (found_s, request) in enumerate(zip(ttft_s(problem, run), problem.requests, strict=True)):
        others = [r for k, r in enumerate(problem.requests) if k != i and r.arrival_s <= run.served.start_s[i]]
        assert found_s >= prefill_s(problem, request, {block for other in others for block in other.blocks})


trees = st.sampled_from([strategies.tree_prompts, strategies.bursty_prompts, strategies.conversation_prompts])


@pytest.mark.parametrize("policy", NAMES)
@settings(max_examples=40)
@given(problem=trees.flatmap(lambda prompts: strategies.problems(prompts_of=prompts)))
def test_no_policy_beats_the_mean_floor(policy, problem):
    """Whoever is served first prefills a block. Holds where ids stand for whole prefixes, of whole blocks."""
    rows = tuple(replace(r, input_tokens=max(1, BLOCK_TOKENS * len(r.blocks))) for r in problem.requests)
    tokens = max(r.input_tokens + r.output_tokens for r in rows)
    roomy = [
        replace(r, gpu=replace(r.gpu, hbm_bytes=MODEL.weight_bytes + MODEL.kv_bytes_per_token * (tokens + 8)))
        for r in problem.setup.replicas
    ]
    problem = replace(problem, requests=rows, setup=replace(problem.setup, replicas=tuple(roomy)))
    run = through_engine(problem, policy)
    assert ttft_s(problem, run).sum() >= run.floor_ttft_s.sum() * (1 - 1e-12)


def test_one_request_may_beat_its_floor_by_a_copy():
    """By hand: a prompt waits 2.6 s on replica 1 for its turn, a later one with the same prefix is prefilled on 0.

    A third orders a copy, which lands on 1 before the first is admitted: it waits, but need not prefill for 6.4 s.
    The second pays for it, whose floor is zero: the mean floor stands.
    """
    prefix = tuple(range(40))
    rows = (
        naive.Request(0.00, 8, 20),  # to 1, where it decodes for 2.5 s
        naive.Request(0.01, 8, 1),
        naive.Request(0.02, 320, 1, prefix),  # to 1
        naive.Request(0.50, 320, 1, prefix),  # to 0
        naive.Request(0.60, 320, 1, prefix),  # to 0, which holds the prefix; copied to 1
        naive.Request(1.00, 8, 1),
    )
    gpu = Gpu("toy", 2e11, 2e10, MODEL.weight_bytes + MODEL.kv_bytes_per_token * 5000, 1e7, 1e8, 1e7)
    setup = Setup("toys", MODEL, tuple(Replica(f"node{r}", gpu, 1) for r in range(2)))
    rule = BtbParameters(threshold=2, prefix_blocks=40, window_s=9.0, copies=2, fallback="round_robin")
    problem = Problem(rows, setup, ServingOptions(max_batch=1), Parameters(btb=rule), 42)
    run = through_engine(problem, "btb")
    assert run.served.replica.tolist()[:5] == [1, 0, 1, 0, 0]
    assert [(row[0], row[2]) for row in rows_of_run(run)["copies"]] == [(4, 1)]
    found_s = ttft_s(problem, run)
    assert run.floor_ttft_s[2] == pytest.approx(6.4)
    assert found_s[2] == pytest.approx(2.66, rel=0.02)
    assert found_s.mean() > run.floor_ttft_s.mean()
