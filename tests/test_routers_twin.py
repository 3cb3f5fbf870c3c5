"""The routers people run, in the engine and in the twin: every request, bit for bit."""

from dataclasses import replace

import naive_routers
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from replaying import rows_of_run, rows_of_twin, through_engine, through_twin
from strategies import Problem, few_replicas, many_replicas

from btbench.policies.parameters import (
    DynamoParameters,
    LlmDParameters,
    MooncakeParameters,
    PrebleParameters,
    PrefixHashParameters,
)

ROUTERS = [name for name in naive_routers.ROUTERS if name != "btb"]

weights = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])

router_parameters = st.fixed_dictionaries(
    {
        "prefix_hash": st.builds(
            PrefixHashParameters,
            prefix_tokens=st.sampled_from([1, 8, 9, 40, 256]),
            ring_points=st.sampled_from([1, 3, 150]),
            load_factor=st.sampled_from([0.0, 0.5, 1.0, 1.25, 3.0]),
        ),
        "dynamo": st.builds(
            DynamoParameters,
            overlap_credit=weights,
            host_credit=weights,
            disk_credit=weights,
            prefill_load_scale=weights,
            temperature=st.sampled_from([0.0, 0.0, 0.1, 1.0, 20.0]),
        ),
        "llm_d": st.builds(
            LlmDParameters,
            queue_weight=weights,
            kv_weight=weights,
            prefix_weight=weights,
            table_blocks=st.sampled_from([0, 1, 5, 12, 40, 31_250]),
        ),
        "mooncake": st.builds(
            MooncakeParameters,
            balancing_threshold=st.sampled_from([0.5, 1.0, 1.5, 2.0, 5.0]),
            ttft_slo_s=st.sampled_from([None, None, 0.01, 0.3, 1.0, 5.0]),
        ),
        "preble": st.builds(
            PrebleParameters,
            history_s=st.sampled_from([0.1, 0.5, 2.0, 180.0]),
            rebalance_ratio=st.sampled_from([1.0, 1.5, 4.0]),
            rebalance_min_requests_per_replica=st.sampled_from([1, 1, 2, 5]),
            split_ttft_ratio=st.sampled_from([0.0, 0.5, 2.0]),
        ),
    }
)


def with_router_parameters(problems):
    """The same problems with any parameters of the routers."""

    def build(problem: Problem, groups: dict) -> Problem:
        return replace(problem, parameters=problem.parameters._replace(**groups))

    return st.builds(build, problems, router_parameters)


def assert_agree(problem: Problem, policy: str) -> None:
    with naive_routers.with_routers():
        expected = rows_of_twin(through_twin(problem, policy))
    found = rows_of_run(through_engine(problem, policy))
    for place, row in enumerate(expected["served"]):
        if row[0] == -1:  # turned away
            assert repr(found["served"][place]) == "(-1, nan, nan, nan, nan, 0, 'miss')"
            found["served"][place] = row
    for part in expected:
        assert found[part] == expected[part], (policy, part)


@pytest.mark.parametrize("policy", ROUTERS)
@given(problem=with_router_parameters(strategies.problems(few_replicas)))
def test_any_replay(policy, problem):
    assert_agree(problem, policy)


@pytest.mark.parametrize("policy", ROUTERS)
@settings(max_examples=10)
@given(problem=with_router_parameters(strategies.problems(many_replicas, max_requests=25)))
def test_more_replicas_than_a_word_has_bits(policy, problem):
    assert_agree(problem, policy)


@pytest.mark.parametrize("policy", ROUTERS)
@settings(max_examples=40)
@given(problem=with_router_parameters(strategies.problems(prompts_of=strategies.flat_prompts)))
def test_ids_that_stand_for_single_blocks(policy, problem):
    assert_agree(problem, policy)


@pytest.mark.parametrize("policy", ROUTERS)
@settings(max_examples=40)
@given(problem=with_router_parameters(strategies.problems(prompts_of=strategies.bursty_prompts)))
def test_under_btb(policy, problem):
    """A router that does not hear of all requests keeps its accounts all the same."""
    btb = problem.parameters.btb._replace(fallback=policy)
    assert_agree(replace(problem, parameters=problem.parameters._replace(btb=btb)), "btb")


@st.composite
def hot_problems(draw):
    """Requests at even intervals, so that either half of a history has some that are served."""
    problem = draw(strategies.problems(st.integers(2, 3), hot_prompts))
    gap_s = draw(st.sampled_from([0.1, 0.25, 0.5, 1.0]))
    rows = tuple(replace(request, arrival_s=gap_s * row) for row, request in enumerate(problem.requests))
    return replace(problem, requests=rows)


def hot_prompts(count: int):
    """One long prefix, almost always, with a few blocks behind it."""
    prompt = st.tuples(st.sampled_from(["p", "p", "p", "p", "p", "q"]), st.integers(1, 4))

    def prompts(drawn):
        return [
            (*(f"{name}x{i}" for i in range(10)), *(f"u{row}x{i}" for i in range(own)))
            for row, (name, own) in enumerate(drawn)
        ]

    return st.lists(prompt, min_size=count, max_size=count).map(prompts)


@given(
    hot_problems(),
    st.builds(
        PrebleParameters,
        history_s=st.sampled_from([0.5, 2.0, 3.0, 6.0]),
        rebalance_ratio=st.sampled_from([1.0, 1.5]),
        rebalance_min_requests_per_replica=st.just(1),
        split_ttft_ratio=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    ),
)
def test_a_hot_prefix_out_of_balance(problem, rule):
    """Most of what preble does to keep the load even takes one prefix that is hotter than all else."""
    assert_agree(replace(problem, parameters=problem.parameters._replace(preble=rule)), "preble")
