"""`sglang` by hand: one case for each thing it does, on busy and on idle clusters (see `routing`)."""

import random
import time

import naive
import pytest
from replaying import through_engine
from routing import GPU, at_once, far_apart, route
from strategies import BLOCK_TOKENS, MODEL, Problem

from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.policies.parameters import Parameters, SglangParameters


def sglang(*words, version="0.3.2", timed=None, busy=True, replicas=3, seed=42, **rule) -> list[int]:
    prompts = at_once(*words) if timed is None else timed
    parameters = Parameters(sglang=SglangParameters(version=version, **rule))
    return route("sglang", prompts, parameters, replicas=replicas, busy=busy, seed=seed)


every_version = pytest.mark.parametrize("version", ["0.2.2", "0.2.4", "0.3.2"])

# `sglang`: load


@pytest.mark.parametrize("version", ["0.2.4", "0.3.2"])
def test_nothing_matches_goes_to_the_least_loaded_first_on_ties(version):
    assert sglang("ab", "cd", "ef", "gh", version=version) == [0, 1, 2, 0]
    assert sglang(timed=far_apart("ab", "cd", "ef"), busy=False, version=version) == [0, 0, 0]


@every_version
def test_prompts_without_blocks_match_nothing(version):
    assert sglang("", "", "", "", version=version) == [0, 1, 2, 0]


@every_version
def test_out_of_balance_is_a_difference_and_a_ratio(version):
    """Loads 3 and 0 differ by more than 2: the fourth of four equal prompts spills over."""
    words = ["ab"] * 4
    assert sglang(*words, replicas=2, balance_abs_threshold=2, balance_rel_threshold=1, version=version)[3] == 1
    assert sglang(*words, replicas=2, balance_abs_threshold=3, balance_rel_threshold=1, version=version)[3] == 0


def test_the_ratio_is_of_the_fullest_to_the_emptiest():
    """Loads 3 and 1: out of balance at a ratio above 2.9, not at 3."""
    words = ["ab", "xy", "ab", "ab", "ab"]
    assert sglang(*words, replicas=2, balance_abs_threshold=1, balance_rel_threshold=2.9) == [0, 1, 0, 0, 1]
    assert sglang(*words, replicas=2, balance_abs_threshold=1, balance_rel_threshold=3.0) == [0, 1, 0, 0, 0]


def test_where_all_are_loaded_alike_no_load_is_too_much():
    """Loads 2, 2, 1: the paper's simplified test asks for the fullest load itself, and would be out of balance."""
    rule = {"balance_abs_threshold": 1, "balance_rel_threshold": 1}
    assert sglang("a", "b", "c", "d", "e", "a", **rule) == [0, 1, 2, 0, 1, 0]


# `sglang`: prefix


@every_version
def test_a_match_counts_above_the_threshold_only(version):
    tree = "abcdefghij"
    assert sglang(tree, "abc0123456", version=version) == [0, 1], "3 of 10 blocks are not above 0.3"
    assert sglang(tree, "abcd012345", version=version) == [0, 0]
    assert sglang(tree, tree, cache_threshold=1.0, version=version) == [0, 1], "nothing is above all of it"
    assert sglang(tree, "a" + "0" * 9, cache_threshold=0.0, version=version) == [0, 0]


def two_replicas(*requests: tuple[float, int, str]) -> list[int]:
    """Where requests go that have more tokens than their blocks hold: (arrival_s, input tokens, word)."""
    rows = tuple(naive.Request(t, tokens, 1, tuple(word)) for t, tokens, word in requests)
    setup = Setup("toys", MODEL, tuple(Replica(f"node{r}", GPU, 1) for r in range(2)))
    parameters = Parameters(sglang=SglangParameters(version="0.2.2"))
    return through_engine(Problem(rows, setup, ServingOptions(), parameters, 1), "sglang").served.replica.tolist()


def test_tokens_beyond_the_blocks_count_as_input():
    """2 blocks match, 16 tokens: not above 0.3 of 54, above 0.3 of 53."""
    assert two_replicas((0.0, 16, "ab"), (100.0, 54, "ab")) == [0, 1]
    assert two_replicas((0.0, 16, "ab"), (100.0, 53, "ab")) == [0, 0]


def test_a_spill_leaves_the_remembered_owner_as_it_is():
    """Two spills make 1 and 2 owners too, yet the prefix sticks to 0, which is neither its least loaded owner."""
    found = sglang(*["ab"] * 9, balance_abs_threshold=2, balance_rel_threshold=0)
    assert found == [0, 0, 0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("version", ["0.2.2", "0.2.4"])
def test_before_0_3_2_any_owner_will_do(version):
    """After the spill 0 and 1 own the prefix, at loads of 2 and 1; which one is drawn."""
    picks = set()
    for seed in range(8):
        draws = random.Random(seed)
        found = sglang("ab", "ab", "ab", "ab", version=version, seed=seed, balance_abs_threshold=1, replicas=2)
        assert found[:3] == [0, 0, 1]
        assert [draws.choice([0]), draws.choice([0, 1])][1] == found[3]
        picks.add(found[3])
    assert picks == {0, 1}


def test_a_node_that_is_split_hands_its_owner_down_and_up():
    """The third prompt, spilt to 1, splits abcd behind ab: ab and cd remember 0, the new branch 1."""
    rule = {"balance_abs_threshold": 1, "balance_rel_threshold": 0, "replicas": 2}
    assert sglang("abcd", "abcd", "abxy", **rule) == [0, 0, 1]
    assert sglang("abcd", "abcd", "abxy", "ab01", **rule)[3] == 0, "the stem"
    assert sglang("abcd", "abcd", "abxy", "abcd", **rule)[3] == 0, "the rest of the old branch"
    assert sglang("abcd", "abcd", "abxy", "abxy", **rule)[3] == 1, "the new branch"


def test_an_owner_lost_is_replaced_for_the_whole_radix_node():
    """0 forgets abcd, which 1 owns too, and remembers 1 from then on, as far up as the node goes."""
    rule = {"balance_abs_threshold": 1, "balance_rel_threshold": 0, "replicas": 2, "busy": False}
    rule |= {"max_tree_tokens": 5 * BLOCK_TOKENS, "eviction_interval_s": 60}
    burst = ["abcd", "abcd", "abcd"]
    first = [(0.0, word) for word in burst]  # 0, 0, and a spill to 1
    other = [(100.0, "wxyz")]  # 0 again, whose tree is above its limit now
    again = [(200.0, word) for word in burst]  # after the timer: 1, 1, and a spill to 0, which owns it once more
    assert sglang(timed=first + other + again, **rule) == [0, 0, 1, 0, 1, 1, 0]
    for stem, kept in (("ab01", 1), ("abcd", 1), ("a012", 0)):
        timed = [*first, *other, *again, (300.0, stem)]
        assert sglang(timed=timed, **rule)[7] == kept, "a012 matches too little"


# `sglang`: what the tree forgets


def test_the_timer_evicts_at_multiples_of_its_interval():
    rule = {"max_tree_tokens": 0, "eviction_interval_s": 60, "replicas": 2}
    timed = [(0.0, "ab"), (1.0, "ab"), (59.9, "ab")]
    assert sglang(timed=timed, **rule) == [0, 0, 0]
    assert sglang(timed=[*timed, (60.0, "ab")], **rule)[3] == 1, "nothing is left to match"
    assert sglang(timed=[*timed, (60.0, "cd"), (119.9, "cd")], **rule)[3:] == [1, 1], "until the next multiple"
    assert sglang(timed=[*timed, (60.0, "cd"), (61.0, "cd"), (120.0, "xy")], **rule)[3:] == [1, 1, 1]


def test_the_leaf_used_longest_ago_goes_first_and_only_as_many_as_needed():
    """0 has seen abcd, wxyz, abcd: at the timer wxyz goes, abcd stays."""
    timed = far_apart("abcd", "wxyz", "abcd")
    rule = {"max_tree_tokens": 4 * BLOCK_TOKENS, "eviction_interval_s": 250, "busy": False}
    now = [(300.0, "abcd"), (300.0, "wxyz")]  # abcd to its owner, which has load then
    assert sglang(timed=timed + now, **rule) == [0, 0, 0, 0, 1]
    assert sglang(timed=timed + now, **rule | {"max_tree_tokens": 8 * BLOCK_TOKENS}) == [0, 0, 0, 0, 0]


def test_a_leaf_goes_whole_and_its_stem_stays():
    """Of ab[cdefgh] and ab[xy] the first leaf goes, 6 blocks for the 1 that is too much; ab is still known."""
    timed = far_apart("abcdefgh", "abxy")
    now = [(200.0, "abxy"), (200.0, "abcd")]
    rule = {"max_tree_tokens": 9 * BLOCK_TOKENS, "eviction_interval_s": 150, "busy": False}
    assert sglang(timed=timed + now, cache_threshold=0.5, **rule) == [0, 0, 0, 1]
    assert sglang(timed=timed + now, cache_threshold=0.4, **rule) == [0, 0, 0, 0]


def test_a_leaf_of_one_replica_may_be_a_stem_of_another():
    """ab belongs to 0 and 1, abcd to 1 alone; 0 loses ab, 1 nothing."""
    rule = {"balance_abs_threshold": 0, "balance_rel_threshold": 0, "replicas": 2, "busy": False}
    rule |= {"max_tree_tokens": 5 * BLOCK_TOKENS, "eviction_interval_s": 150}
    timed = [(0.0, "ab"), (0.0, "abcd"), (100.0, "wxyz"), (200.0, "ab")]
    assert sglang(timed=timed, **rule) == [0, 1, 0, 1], "1 is the only owner left"


def test_a_prompt_that_ends_within_a_node_splits_it():
    """After abcd, wxyz and ab, cd is a leaf by itself, used longest ago: it goes, ab and wxyz stay."""
    timed = far_apart("abcd", "wxyz", "ab")
    now = [(300.0, "ab"), (300.0, "wxyz"), (300.0, "abcd")]
    rule = {"max_tree_tokens": 6 * BLOCK_TOKENS, "eviction_interval_s": 250, "busy": False, "replicas": 2}
    assert sglang(timed=timed + now, cache_threshold=0.5, **rule) == [0, 0, 0, 0, 0, 1], "half of abcd is known"


def test_0_2_2_goes_to_the_smallest_tree():
    """Trees of 4, 2 and 3 blocks, then 4, 4 and 3: shared blocks count once."""
    words = far_apart("abcd", "wx", "klm", "wxyz", "pq")
    assert sglang(timed=words, version="0.2.2", busy=False) == [0, 1, 2, 1, 2]
    assert sglang(timed=words, version="0.2.4", busy=False) == [0, 0, 0, 0, 0]


def test_0_2_2_counts_tokens_that_have_no_block():
    """Trees of 9 and 4 tokens, then 8, then 12."""
    assert two_replicas((0.0, 9, ""), (100.0, 4, ""), (200.0, 4, ""), (300.0, 4, ""), (400.0, 1, "")) == [0, 1, 1, 1, 0]


def test_a_timer_of_no_time_at_all_ends():
    started = time.perf_counter()
    timed = [(0.0, "ab"), (1e6, "ab"), (2e6, "ab")]
    assert sglang(timed=timed, eviction_interval_s=1e-12, max_tree_tokens=0, busy=False) == [0, 0, 0]
    assert time.perf_counter() - started < 60


# `sglang`: into a child by one character


def test_a_walk_may_slip_into_a_child_and_take_its_owner():
    """Behind ab lie cd, remembered by 0, and xy, by 1: with sub_block_match either is as likely."""
    rule = {"balance_abs_threshold": 1, "balance_rel_threshold": 0, "replicas": 2}
    words = ["abcd", "abcd", "abxy", "ab01"]
    found = set()
    for seed in range(8):
        assert sglang(*words, sub_block_match=0, seed=seed, **rule) == [0, 0, 1, 0]
        draws = random.Random(seed)
        draws.getrandbits(32)  # whether the second prompt slips: it has nowhere to
        draws.getrandbits(32)
        expected = draws.choice([0, 1])
        assert sglang(*words, sub_block_match=1, seed=seed, **rule) == [0, 0, 1, expected]
        found.add(expected)
    assert found == {0, 1}


def test_blocks_beyond_the_input_are_text_of_no_tokens():
    """x lies beyond the 16 tokens of the first prompt; it follows ab all the same, remembered by 0, as cd by 1."""
    setup = Setup("toys", MODEL, tuple(Replica(f"node{r}", GPU, 1) for r in range(2)))
    rule = SglangParameters(balance_abs_threshold=0, balance_rel_threshold=1.9, sub_block_match=1)
    rows = [(16, "abx"), (32, "abcd"), (32, "ab01")]
    requests = tuple(naive.Request(0.001 * i, tokens, 20_000, tuple(word)) for i, (tokens, word) in enumerate(rows))
    found = set()
    for seed in range(8):
        draws = random.Random(seed)
        draws.getrandbits(32)
        expected = draws.choice([0, 1])
        problem = Problem(requests, setup, ServingOptions(), Parameters(sglang=rule), seed)
        assert through_engine(problem, "sglang").served.replica.tolist() == [0, 1, expected]
        found.add(expected)
    assert found == {0, 1}


def test_how_often_a_walk_slips():
    """At 0.25 a slip happens where the 32-bit draw is in the lowest quarter, and goes to 1 in half of these cases."""
    rule = {"balance_abs_threshold": 1, "balance_rel_threshold": 0, "replicas": 2}
    slips = 0
    for seed in range(40):
        draws = random.Random(seed)
        draws.getrandbits(32)
        expected = draws.choice([0, 1]) if draws.getrandbits(32) < 2**30 else 0
        slips += expected
        assert sglang("abcd", "abcd", "abxy", "ab01", sub_block_match=0.25, seed=seed, **rule)[3] == expected
    assert 0 < slips < 20


def test_no_slip_within_a_node_or_at_the_end_of_a_prompt_or_of_a_leaf():
    rule = {"balance_abs_threshold": 1, "balance_rel_threshold": 0, "replicas": 2, "sub_block_match": 1}
    for seed in range(8):
        assert sglang("abcdef", "abcdef", "xy", "ab01", seed=seed, **rule) == [0, 0, 1, 0], "within abcdef"
        assert sglang("abcd", "abcd", "abxy", "ab", seed=seed, **rule) == [0, 0, 1, 0], "ab is all of it"
        assert sglang("ab", "ab", "xy", "ab01", seed=seed, **rule) == [0, 0, 1, 0], "nothing lies behind ab"


@pytest.mark.parametrize("version", ["0.2.2", "0.2.4"])
def test_before_0_3_2_a_slip_takes_any_owner_of_the_child(version):
    """ab is owned by 0 and 1, each of its children by one of them."""
    rule = {"balance_abs_threshold": 1, "balance_rel_threshold": 0, "replicas": 2, "version": version}
    for seed in range(8):
        draws = random.Random(seed)
        draws.getrandbits(32), draws.choice([0]), draws.getrandbits(32)
        child = draws.choice([0, 1])
        assert draws.choice([child]) == child
        assert sglang("abcd", "abcd", "abxy", "ab01", sub_block_match=1, seed=seed, **rule) == [0, 0, 1, child]


def test_children_that_leave_are_replaced_by_the_last():
    """Behind a lie b, c, d, e of 0, 1, 2, 3; 1 loses c, so that the children are b, e, d."""
    rule = {"balance_abs_threshold": 0, "balance_rel_threshold": 0, "replicas": 4, "busy": False}
    rule |= {"cache_threshold": 0.0, "max_tree_tokens": 3 * BLOCK_TOKENS, "eviction_interval_s": 150}
    first = [(0.0, "ab"), (0.0, "ac"), (0.0, "ad"), (0.0, "ae")]
    other = [(100.0, "x"), (100.0, "0123")]  # to 0, then to 1, whose tree is above its limit now
    found = set()
    for seed in range(12):
        draws = random.Random(seed)
        draws.getrandbits(32)
        expected = draws.choice([0, 3, 2])
        timed = [*first, *other, (200.0, "a9")]
        assert sglang(timed=timed, sub_block_match=1, seed=seed, **rule) == [0, 1, 2, 3, 0, 1, expected]
        found.add(expected)
    assert found == {0, 2, 3}
