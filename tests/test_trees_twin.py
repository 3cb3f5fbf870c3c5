"""Routers with a radix tree, and two random choices: the engine against the twin, every request, bit for bit."""

from dataclasses import replace

import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_trees import ROUTERS, with_trees
from replaying import rows_of_run, rows_of_twin, through_engine, through_twin
from strategies import BLOCK_TOKENS, Problem, few_replicas, many_replicas

from btbench.policies.parameters import BtbParameters, SglangParameters, SmgParameters

VERSIONS = ("0.2.2", "0.2.4", "0.3.2")

thresholds = {
    "cache_threshold": st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.0]),
    "balance_abs_threshold": st.sampled_from([0.0, 1.0, 2.5, 64.0]),
    "balance_rel_threshold": st.sampled_from([0.0, 1.0, 1.5, 3.0]),
}
few_blocks = [BLOCK_TOKENS * blocks for blocks in (1.0, 2.0, 5.0, 9.0, 20.0, 60.0)]
tree_limits = st.sampled_from([0.0, 3.0, *few_blocks, 16.8e6])
router_parameters = st.fixed_dictionaries(
    {
        "sglang": st.builds(
            SglangParameters,
            version=st.sampled_from(VERSIONS),
            **thresholds,
            eviction_interval_s=st.sampled_from([0.1, 0.5, 0.75, 3.0, 60.0]),
            max_tree_tokens=tree_limits,
            sub_block_match=st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0]),
        ),
        "smg": st.builds(SmgParameters, **thresholds, max_tree_tokens=tree_limits),
    }
)


def any_parameters(problems):
    """The same problems with any parameters of these routers."""

    def build(problem: Problem, groups: dict) -> Problem:
        return replace(problem, parameters=problem.parameters._replace(**groups))

    return st.builds(build, problems, router_parameters)


def assert_agree(problem: Problem, policy: str) -> None:
    with with_trees():
        expected = rows_of_twin(through_twin(problem, policy))
    found = rows_of_run(through_engine(problem, policy))
    for part in expected:
        assert found[part] == expected[part], (policy, part)


each_policy = pytest.mark.parametrize("policy", ROUTERS)
with_a_tree = pytest.mark.parametrize("policy", ["sglang", "smg"])


@each_policy
@given(problem=any_parameters(strategies.problems(few_replicas)))
def test_any_replay(policy, problem):
    assert_agree(problem, policy)


@each_policy
@settings(max_examples=25)
@given(problem=any_parameters(strategies.problems(many_replicas)))
def test_more_replicas_than_a_word_has_bits(policy, problem):
    assert_agree(problem, policy)


@with_a_tree
@given(problem=any_parameters(strategies.problems(prompts_of=strategies.flat_prompts)))
def test_ids_that_stand_for_single_blocks(policy, problem):
    assert_agree(problem, policy)


def equal_prompts(count: int):
    """Few different prompts, each several times, some the beginning of others."""
    prompt = st.builds(lambda group, blocks: tuple(f"g{group}x{k}" for k in range(blocks)), *[st.integers(0, 4)] * 2)
    return st.lists(st.lists(prompt, min_size=1, max_size=3), min_size=1, max_size=1).flatmap(
        lambda kinds: st.lists(st.sampled_from(kinds[0]), min_size=count, max_size=count)
    )


prompts_that_split = st.sampled_from([strategies.tree_prompts, strategies.conversation_prompts, equal_prompts])
small_trees = prompts_that_split.flatmap(lambda prompts: strategies.problems(few_replicas, prompts))


@with_a_tree
@settings(max_examples=200)
@given(
    problem=any_parameters(small_trees),
    threshold=st.sampled_from([0.0, 1.0, 2.5]),
    times=st.sampled_from([1.0, 1.0, 7.0, 100.0]),
)
def test_trees_that_split_and_lose_leaves(policy, problem, threshold, times):
    """Matches count from the first block on, prompts spill, limits are tight, arrivals may be many intervals apart."""
    rule, small = problem.parameters, {"cache_threshold": 0.0, "balance_abs_threshold": threshold}
    limit = min(rule.sglang.max_tree_tokens, 60.0 * BLOCK_TOKENS)
    rule = rule._replace(
        sglang=rule.sglang._replace(**small, max_tree_tokens=limit, eviction_interval_s=0.75),
        smg=rule.smg._replace(**small, max_tree_tokens=limit),
    )
    rows = tuple(replace(request, arrival_s=times * request.arrival_s) for request in problem.requests)
    assert_agree(replace(problem, requests=rows, parameters=rule), policy)


@pytest.mark.parametrize("fallback", ROUTERS)
@settings(max_examples=50)
@given(problem=any_parameters(strategies.problems(prompts_of=strategies.bursty_prompts)))
def test_btb_before_each_of_them(fallback, problem):
    rule: BtbParameters = problem.parameters.btb._replace(fallback=fallback)
    assert_agree(replace(problem, parameters=problem.parameters._replace(btb=rule)), "btb")


@with_a_tree
@settings(max_examples=25)
@given(problem=any_parameters(strategies.problems()))
def test_joining_blocks_to_runs_changes_nothing(policy, problem):
    joined, single = (rows_of_run(through_engine(problem, policy, joined)) for joined in (True, False))
    assert joined == single
