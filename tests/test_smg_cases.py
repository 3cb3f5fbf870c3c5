"""`smg`, `btb` before it and before `sglang`, and `power_of_two` by hand: one case for each thing they do."""

import random

import pytest
from routing import at_once, route
from strategies import BLOCK_TOKENS

from btbench.policies.parameters import BtbParameters, Parameters, SglangParameters, SmgParameters

# `smg`


def smg(*words, timed=None, busy=True, replicas=3, seed=42, **rule) -> list[int]:
    prompts = at_once(*words) if timed is None else timed
    return route("smg", prompts, Parameters(smg=SmgParameters(**rule)), replicas=replicas, busy=busy, seed=seed)


def by_appearance(replicas: list[int]) -> str:
    """Replicas as letters in the order in which they came up."""
    names = {r: "ABCDEFGH"[i] for i, r in enumerate(dict.fromkeys(replicas))}
    return "".join(names[r] for r in replicas)


def test_smg_nothing_matches_goes_to_one_of_the_least_loaded():
    for seed in range(6):
        draws = random.Random(seed)
        first = draws.choice([0, 1, 2])
        second = draws.choice([r for r in range(3) if r != first])
        (third,) = {0, 1, 2} - {first, second}
        assert smg("ab", "cd", "ef", seed=seed) == [first, second, third]


def test_smg_matches_above_the_threshold_stay_with_the_holder():
    assert by_appearance(smg("abcdefghij", "abc0123456")) == "AB"
    assert by_appearance(smg("abcdefghij", "abcd012345", "abcdefghij")) == "AAA"
    assert by_appearance(smg("ab", "ab", cache_threshold=1.0)) == "AB"


@pytest.mark.parametrize("seed", range(4))
def test_smg_a_spill_makes_a_holder_and_a_hot_prefix_spreads(seed):
    """At loads 2 0 0 the holder is above mean + 1, and the third prompt makes B one; C becomes one at 4 4 0."""
    found = by_appearance(smg(*["ab"] * 4, balance_abs_threshold=1, balance_rel_threshold=0, seed=seed))
    assert found == "AABB", "A A | 2 > 2/3 + 1: B becomes a holder, and is the less loaded one"
    assert by_appearance(smg(*["ab"] * 9, balance_abs_threshold=1, balance_rel_threshold=0, seed=seed))[8] == "C"
    longer = smg(*["ab"] * 40, balance_abs_threshold=1, balance_rel_threshold=0, seed=seed)
    assert sorted(longer.count(r) for r in range(3)) == [13, 13, 14], "all hold it in the end, and share it evenly"


def test_smg_the_gate_needs_both_the_ratio_and_the_difference():
    """Loads 2 and 0, mean 1: 2 is above 1.9 × mean, not above 2 × mean; above mean + 0.9, not above mean + 1."""
    for abs_threshold, rel_threshold, expected in ((0.9, 1.9, "AAB"), (1.0, 1.9, "AAA"), (0.9, 2.0, "AAA")):
        rule = {"balance_abs_threshold": abs_threshold, "balance_rel_threshold": rel_threshold}
        assert by_appearance(smg("ab", "ab", "ab", replicas=2, **rule)) == expected


def test_smg_the_gate_looks_at_this_request_alone():
    """However far apart the loads are, a prompt whose holder is not the loaded one stays with it."""
    words = ["ab", "xy", *["ab"] * 5, "xy"]
    assert by_appearance(smg(*words, balance_abs_threshold=100)) == "ABAAAAAB"


def test_smg_the_least_used_leaf_leaves_the_whole_tree():
    """At 5 blocks the second prompt of 4 pushes the first out, whoever holds it."""
    limit = 5 * BLOCK_TOKENS
    assert by_appearance(smg("abcd", "wxyz", "abcd", max_tree_tokens=limit)) == "ABC"
    assert by_appearance(smg("abcd", "wxyz", "abcd", max_tree_tokens=2 * limit)) == "ABA"
    assert by_appearance(smg("abcd", "wx", "abcd", "yz", "abcd", "wx", max_tree_tokens=6 * BLOCK_TOKENS)) == "ABACAB"


def test_smg_a_stem_counts_once_and_outlives_its_leaves():
    """abcd and abxy are 6 blocks; at 5 cd goes, ab stays."""
    words = ["abcd", "abxy", "abcd"]
    rule = {"cache_threshold": 0.5}  # so that ab alone is not enough
    assert by_appearance(smg(*words, max_tree_tokens=6 * BLOCK_TOKENS, **rule)) == "ABA"
    assert by_appearance(smg(*words, max_tree_tokens=5 * BLOCK_TOKENS, **rule)) == "ABC"
    assert by_appearance(smg(*words, max_tree_tokens=5 * BLOCK_TOKENS, cache_threshold=0.4)) == "AAA"


def test_smg_keeps_nothing_where_nothing_may_be_kept():
    assert by_appearance(smg("ab", "ab", "ab", max_tree_tokens=0)) == "ABC"


# `btb` before them


def test_btb_leaves_all_but_bursts_to_smg():
    """The second abcd is a burst: ab is copied, the third goes to the copy; but smg knows of the first holder only."""
    smg_rule = SmgParameters(balance_abs_threshold=100)
    rule = BtbParameters(threshold=2, prefix_blocks=2, window_s=1.0, copies=2, fallback="smg")
    parameters = Parameters(btb=rule, smg=smg_rule)
    timed = [(0.0, "abcd"), (0.5, "abcd"), (0.9, "abcd"), (10.0, "abef"), (20.0, "xy"), (20.1, "x")]
    found = route("btb", timed, parameters)
    assert by_appearance(found[:4]) == "AABA"
    assert found[4] not in found[:4], "the least loaded"
    assert found[5] == found[4], "shorter than a prefix: smg's alone"


def test_btb_before_sglang_uses_the_thresholds_of_sglang():
    rule = BtbParameters(threshold=9, prefix_blocks=2, fallback="sglang")
    timed = at_once("ab", "ab", "ab", "ab")
    for limit, expected in ((2, [0, 0, 0, 1]), (64, [0, 0, 0, 0])):
        parameters = Parameters(btb=rule, sglang=SglangParameters(balance_abs_threshold=limit, balance_rel_threshold=0))
        assert route("btb", timed, parameters) == expected


# `power_of_two`


def test_power_of_two_takes_the_less_loaded_and_the_first_drawn_on_ties():
    for seed in range(6):
        draws, loads, expected = random.Random(seed), [0] * 4, []
        for _ in range(12):
            first = draws.choice(range(4))
            second = draws.choice([r for r in range(4) if r != first])
            expected.append(second if loads[second] < loads[first] else first)
            loads[expected[-1]] += 1
        assert route("power_of_two", at_once(*["ab"] * 12), Parameters(), replicas=4, seed=seed) == expected


def test_power_of_two_of_two_is_the_less_loaded_and_of_one_that_one():
    assert by_appearance(route("power_of_two", at_once(*"abcd"), Parameters(), replicas=2))[:2] == "AB"
    assert route("power_of_two", at_once(*"abcd"), Parameters(), replicas=1) == [0] * 4
