"""The engine against the twin: every policy, every request, bit for bit."""

from dataclasses import replace
from math import inf, nextafter

import naive
import pytest
import strategies
from hypothesis import given, settings
from replaying import PAPER_POLICIES, rows_of_run, rows_of_twin, through_engine, through_twin
from strategies import MODEL, Problem, few_replicas, many_replicas

from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.errors import CapacityError
from btbench.policies.parameters import Parameters


def assert_agree(problem: Problem, policies=PAPER_POLICIES) -> None:
    for policy in policies:
        expected = rows_of_twin(through_twin(problem, policy))
        found = rows_of_run(through_engine(problem, policy))
        for part in expected:
            assert found[part] == expected[part], (policy, part)


@given(strategies.problems(few_replicas))
def test_any_replay(problem):
    assert_agree(problem)


@settings(max_examples=40)
@given(strategies.problems(many_replicas))
def test_more_replicas_than_a_word_has_bits(problem):
    assert_agree(problem)


@given(strategies.problems(prompts_of=strategies.bursty_prompts))
def test_bursts(problem):
    assert_agree(problem, ["btb"])


@given(strategies.thrashing_bursts())
def test_copies_into_full_caches(problem):
    assert_agree(problem, ["btb"])


@settings(max_examples=50)
@given(strategies.problems_in_step())
def test_arrivals_at_the_very_moment_something_happens(problem):
    assert_agree(problem)


@given(strategies.problems(prompts_of=strategies.flat_prompts))
def test_ids_that_stand_for_single_blocks(problem):
    """The same block behind different blocks, and several times in a prompt: nothing assumes a tree."""
    assert_agree(problem)


@settings(max_examples=50)
@given(strategies.problems())
def test_joining_blocks_to_runs_changes_nothing(problem):
    for policy in PAPER_POLICIES:
        joined, single = (rows_of_run(through_engine(problem, policy, joined)) for joined in (True, False))
        assert joined == single


def one_replica(tokens: int) -> Setup:
    gpu = Gpu("toy", 3e13, 2e11, MODEL.weight_bytes + MODEL.kv_bytes_per_token * (tokens + 0.5), 1e7, 1e7, 1e7)
    return Setup("one", MODEL, (Replica("node0", gpu, 1),))


@pytest.mark.parametrize("steps", range(1, 41))
def test_an_arrival_at_the_end_of_a_decode_step(steps):
    """How many steps fit before an arrival hangs on the last bit where the arrival is the end of one."""
    long = naive.Request(0.0, 20, 60)
    problem = Problem((long,), one_replica(500), ServingOptions(max_batch=1), Parameters(), 42)
    ending = replace(problem, requests=(replace(long, output_tokens=steps),))
    end_s = through_twin(ending, "random").served[0].finish_s
    for arrival_s in (nextafter(end_s, 0.0), end_s, nextafter(end_s, inf)):
        assert_agree(replace(problem, requests=(long, naive.Request(arrival_s, 20, 5))), ["random"])


def test_a_request_beyond_the_token_budget():
    rows = (naive.Request(0.0, 50, 50), naive.Request(0.1, 60, 41))
    problem = Problem(rows, one_replica(100), ServingOptions(), Parameters(), 42)
    with pytest.raises(naive.CapacityError):
        through_twin(problem, "least_load")
    with pytest.raises(CapacityError, match=r"request 1 .* needs 101 tokens .*\n?.*room for 100"):
        through_engine(problem, "least_load")
    assert_agree(replace(problem, requests=(rows[0], naive.Request(0.1, 60, 40))))


def test_a_model_that_does_not_fit():
    for tokens in (-5, strategies.BLOCK_TOKENS - 1):
        problem = Problem((naive.Request(0.0, 1, 1),), one_replica(tokens), ServingOptions(), Parameters(), 42)
        with pytest.raises(naive.CapacityError):
            through_twin(problem, "least_load")
        with pytest.raises(CapacityError, match="'node0'"):
            through_engine(problem, "least_load")
