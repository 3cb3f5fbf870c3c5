"""`copies_wait`: KV leaves a replica no earlier than it is there. Engine, twin, laws, and two cases by hand."""

from dataclasses import replace

import naive_routers
import naive_signals
import numpy as np
import pytest
import strategies
import toys
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import Row, assert_lawful
from replaying import rows_of_run, rows_of_twin, through_engine, through_twin
from strategies import BLOCK_TOKENS, Problem, many_replicas, waiting

from btbench.engine import Run
from btbench.policies.parameters import BtbParameters, MooncakeParameters
from btbench.policies.registry import KINDS

THAT_MOVE_KV = ["btb", "mooncake", "pull"]
THAT_ONLY_ROUTE = [kind.name for kind in KINDS if not kind.moves_kv]

trees = st.sampled_from([strategies.tree_prompts, strategies.bursty_prompts, strategies.conversation_prompts])
forests = trees.flatmap(lambda prompts: strategies.problems(prompts_of=prompts))


def assert_agree(problem: Problem, policy: str) -> None:
    with naive_routers.with_routers():
        expected = rows_of_twin(through_twin(problem, policy))
    found = rows_of_run(through_engine(problem, policy))
    for part in expected:
        assert found[part] == expected[part], (policy, part)


def on_top_of(policy: str, problem: Problem) -> Problem:
    """`btb` falls back on another policy."""
    btb = problem.parameters.btb._replace(fallback=policy)
    return replace(problem, parameters=problem.parameters._replace(btb=btb))


# Engine and twin


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@given(problem=waiting(strategies.cold_bursts()))
def test_bursts_on_a_cold_cluster(policy, problem):
    assert_agree(problem, policy)


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@settings(max_examples=50)
@given(problem=waiting(strategies.problems()))
def test_any_replay(policy, problem):
    assert_agree(problem, policy)


@settings(max_examples=50)
@given(waiting(strategies.thrashing_bursts()))
def test_copies_into_full_caches(problem):
    assert_agree(problem, "btb")


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@settings(max_examples=40)
@given(problem=waiting(strategies.problems(prompts_of=strategies.flat_prompts)))
def test_ids_that_stand_for_single_blocks(policy, problem):
    assert_agree(problem, policy)


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@settings(max_examples=10)
@given(problem=waiting(strategies.problems(many_replicas, max_requests=25)))
def test_more_replicas_than_a_word_has_bits(policy, problem):
    assert_agree(problem, policy)


@settings(max_examples=50)
@given(waiting(strategies.cold_bursts()), st.sampled_from([0.5, 1.0, 1.5, 5.0]))
def test_any_threshold_of_mooncake(problem, threshold):
    rule = MooncakeParameters(balancing_threshold=threshold)
    assert_agree(replace(problem, parameters=problem.parameters._replace(mooncake=rule)), "mooncake")


@pytest.mark.parametrize("policy", ["mooncake", "pull"])
@settings(max_examples=50)
@given(problem=waiting(strategies.cold_bursts()))
def test_copies_and_transfers_together(policy, problem):
    assert_agree(on_top_of(policy, problem), "btb")


@settings(max_examples=50)
@given(waiting(strategies.cold_bursts()), st.sampled_from([1e-9, 0.1, 0.5]))
def test_a_router_whose_knowledge_is_old(problem, delay_s):
    problem = replace(problem, options=replace(problem.options, signal_delay_s=delay_s))
    expected = rows_of_twin(naive_signals.replay(problem, "btb"))
    assert rows_of_run(through_engine(problem, "btb")) == expected


# Laws


def ready_at(requests, run: Run, replica: int) -> dict:
    """Of each block, when the first prefill or move of a prompt with it to a replica was done: as the files tell it."""
    served, copies = run.served, run.copies
    first_token_s = served.start_s + (served.reuse_s + served.prefill_s)
    found: dict = {}
    for i in np.flatnonzero(served.replica == replica):
        for block in requests[i].blocks:
            found[block] = min(found.get(block, np.inf), first_token_s[i])
    for k in np.flatnonzero(copies.target == replica):
        for block in requests[copies.request[k]].blocks:
            found[block] = min(found.get(block, np.inf), copies.ready_s[k])
    return found


def moves_too_early(requests, run: Run) -> list[int]:
    """Moves that start when their giver does not have so many of the prompt's blocks yet."""
    copies = run.copies
    early = []
    for k, (request, giver, start_s) in enumerate(zip(copies.request, copies.source, copies.start_s, strict=True)):
        ready_s = ready_at(requests, run, giver)
        there = [block for block in requests[request].blocks if ready_s.get(block, np.inf) <= start_s]
        if len(there) < copies.blocks[k]:
            early.append(k)
    return early


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@given(problem=waiting(st.one_of(strategies.cold_bursts(), forests)))
def test_nothing_leaves_before_it_is_there(policy, problem):
    """To the last bit, and no sooner than it is asked for."""
    run = through_engine(problem, policy)
    assert moves_too_early(problem.requests, run) == []
    arrival_s = np.array([request.arrival_s for request in problem.requests])
    assert (run.copies.start_s >= arrival_s[run.copies.request]).all()


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@given(problem=waiting(st.one_of(strategies.cold_bursts(), strategies.problems())))
def test_a_replay_is_lawful(policy, problem):
    """A replica may have nothing to do while a request waits, but then KV has been asked for and is yet to come."""
    run = through_engine(problem, policy)
    rows = [Row(*row) for row in zip(problem.requests, *zip(*rows_of_run(run)["served"], strict=True), strict=True)]
    asked_s = [problem.requests[i].arrival_s for i in run.copies.request]
    assert_lawful(problem, rows, list(zip(run.copies.target, asked_s, run.copies.ready_s, strict=True)))


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@given(problem=waiting(st.one_of(strategies.cold_bursts(), forests)))
def test_no_policy_beats_the_mean_floor(policy, problem):
    rows = tuple(replace(r, input_tokens=max(1, BLOCK_TOKENS * len(r.blocks))) for r in problem.requests)
    tokens = max(r.input_tokens + r.output_tokens for r in rows)
    setup = replace(problem.setup, replicas=tuple(with_room(replica, tokens) for replica in problem.setup.replicas))
    run = through_engine(replace(problem, requests=rows, setup=setup), policy)
    waited_s = run.served.start_s - np.array([request.arrival_s for request in rows])
    ttft_s = waited_s + run.served.reuse_s + run.served.prefill_s
    assert ttft_s.sum() >= run.floor_ttft_s.sum() * (1 - 1e-12)


def with_room(replica, tokens: int):
    hbm_bytes = strategies.MODEL.weight_bytes + strategies.MODEL.kv_bytes_per_token * (tokens + 8)
    return replace(replica, gpu=replace(replica.gpu, hbm_bytes=hbm_bytes))


def on_and_off(problem: Problem, policy: str) -> list[str]:
    """What becomes of a problem, as text, since requests that are turned away have no times."""
    both = [replace(problem, options=replace(problem.options, copies_wait=wait)) for wait in (True, False)]
    return [repr(rows_of_run(through_engine(one, policy))) for one in both]


@settings(max_examples=50)
@given(strategies.problems(), st.sampled_from(THAT_ONLY_ROUTE))
def test_it_means_nothing_where_nothing_is_moved(problem, policy):
    on, off = on_and_off(problem, policy)
    assert on == off


@pytest.mark.parametrize("policy", THAT_MOVE_KV)
@settings(max_examples=50)
@given(problem=strategies.problems())
def test_it_means_nothing_where_all_is_done_before_the_next_arrival(policy, problem):
    rows = tuple(replace(request, arrival_s=1e5 * i) for i, request in enumerate(problem.requests))
    btb = problem.parameters.btb._replace(threshold=1)
    on, off = on_and_off(replace(problem, requests=rows, parameters=problem.parameters._replace(btb=btb)), policy)
    assert on == off


# By hand: a prompt of 100 blocks, 1.6 s to prefill, 0.1 s to move


PROMPT = toys.blocks("p", 100)


@pytest.mark.parametrize(("wait", "leaves_s"), [(False, 0.1), (True, 1.6)])
def test_a_copy_of_what_is_being_prefilled(wait, leaves_s):
    """Asked for at 0.1. The target is occupied to 0.2 in any case, but has the prefix 0.1 s after it leaves."""
    rule = BtbParameters(threshold=2, prefix_blocks=100, window_s=9.0, copies=2, fallback="least_load")
    rows = [
        toys.ask(0.0, PROMPT),
        toys.ask(0.1, PROMPT),
        toys.ask(0.15, toys.blocks("x", 1)),  # to one of the two idle replicas …
        toys.ask(0.15, toys.blocks("y", 1)),  # … and to the other
        toys.ask(1.0, PROMPT),
        toys.ask(1.75, PROMPT),
    ]
    run = toys.replay("btb", rows, toys.setup_of(3), rule, copies_wait=wait)
    giver, second, *others, before, after = run.served.replica.tolist()
    (target,) = run.copies.target.tolist()
    assert (giver, second) == (run.copies.source[0], giver)
    assert run.copies.start_s.tolist() == pytest.approx([leaves_s])
    assert run.copies.ready_s.tolist() == pytest.approx([leaves_s + 0.1])
    assert run.served.start_s[2 + others.index(target)] == pytest.approx(0.2), "occupied at once"
    assert before == (giver if wait else target), "a copy that is still to come is no reason to go there"
    assert after == target and run.served.start_s[5] == 1.75 and run.served.prefill_s[5] == 0.0
    assert run.copies.used.tolist() == [True]
    assert moves_too_early(rows, run) == ([] if wait else [0])


@pytest.mark.parametrize(("wait", "leaves_s"), [(False, 0.1), (True, 1.6)])
def test_a_transfer_of_what_is_being_prefilled(wait, leaves_s):
    """The second request waits for it, and so does what comes behind it; a third fetches from the second's replica."""
    prompt = (*PROMPT, *toys.blocks("q", 50))  # 0.8 s more to prefill
    rows = [
        toys.ask(0.0, PROMPT),
        toys.ask(0.1, prompt),
        toys.ask(0.3, prompt),
        toys.ask(0.31, toys.blocks("x", 1)),  # to any of three that have one request each …
        toys.ask(0.31, toys.blocks("y", 1)),
        toys.ask(0.31, toys.blocks("z", 1)),
    ]
    run = toys.replay("pull", rows, toys.setup_of(3), copies_wait=wait)
    giver, second, third, *others = run.served.replica.tolist()
    assert sorted([giver, second, third]) == sorted(others) == [0, 1, 2]
    assert toys.moves(run) == [(1, giver, second, 100), (2, second, third, 150)]
    came_s, there_s = leaves_s + 0.1, leaves_s + 0.9  # it has them, and the 50 blocks behind them
    leaves_again_s = there_s if wait else 0.3
    assert run.copies.start_s.tolist() == pytest.approx([leaves_s, leaves_again_s])
    assert run.copies.ready_s.tolist() == pytest.approx([came_s, leaves_again_s + 0.15])
    assert run.served.start_s[1:3].tolist() == pytest.approx([came_s, leaves_again_s + 0.15])
    behind = 3 + others.index(third)
    assert run.served.start_s[behind] >= leaves_again_s + 0.15, "what waits there waits too"
    decoding_s = [run.served.finish_s[i] - run.served.start_s[i] for i in (2, behind)]
    assert moves_too_early(rows, run) == ([] if wait else [0])
    assert run.busy_s[third] <= 0.15 + sum(decoding_s) + 1e-9, "waiting for KV is no work"
