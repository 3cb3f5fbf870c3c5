"""`dynamo` and `llm_d`, case by case: every branch of every rule, worked out by hand (see `toys`)."""

import math
import random

import pytest
from toys import ask, blocks, routed, setup_of

from btbench.policies.parameters import DynamoParameters, LlmDParameters


class TestDynamo:
    """Cost of a replica: prefill blocks less credit, and blocks in use. In flight on A below: n blocks, a0 first."""

    def test_cached_blocks_are_worth_a_prefill(self):
        """A: (11 - 10) + 11; B: 11 + 11."""
        requests = [ask(10.0 * i, (*blocks("a", 10), f"own{i}")) for i in range(10)]
        assert len(set(routed("dynamo", requests, setup_of(4)))) == 1
        without = routed("dynamo", requests, setup_of(4), DynamoParameters(overlap_credit=0.0))
        assert len(set(without)) > 1, "all equal: drawn"

    @pytest.mark.parametrize(("n", "stays"), [(9, True), (11, False)])
    def test_blocks_in_use_count_once(self, n, stays):
        """A has a0 … a9 and n others in use: 1 + (10 + n + 1) against B's 11 + 11."""
        requests = [ask(0.0, blocks("a", 10) + blocks("b", n), 900), ask(5.0, (*blocks("a", 10), "c"))]
        first, second = routed("dynamo", requests, setup_of(2))
        assert (second == first) == stays

    def test_prefill_counts_until_the_first_token(self):
        """x and y take 1.6 s to prefill. At 5.5 s y is at it on B; at 7 s no more, and A has one block more in use."""
        requests = [
            ask(0.0, blocks("x", 100), 2000),
            ask(5.0, blocks("y", 100), 2000),  # A: 100 + 200, B: 100 + 100
            ask(5.5, blocks("p", 1), 2000),  # A: 1 + 101, B: 101 + 101
            ask(7.0, blocks("q", 1), 2000),  # A: 1 + 102, B: 1 + 101
        ]
        a, *others = routed("dynamo", requests, setup_of(2))
        assert others == [1 - a, a, 1 - a]

    def test_what_was_found_cached_is_not_to_be_prefilled(self):
        """All but the own block of y2 is cached on B, so A's p weighs more than that."""
        requests = [
            ask(0.0, blocks("x", 100), 3000),
            ask(2.0, blocks("y", 100), 3000),
            ask(5.0, (*blocks("y", 100), *blocks("o", 2)), 3000),  # A: 102 + 202, B: 2 + 102
            ask(5.0, blocks("p", 3), 3000),  # A: 3 + 103, B: (2 + 3) + 105
            ask(5.0, blocks("q", 1), 3000),  # A: (3 + 1) + 104, B: (2 + 1) + 103
        ]
        a, *others = routed("dynamo", requests, setup_of(2))
        assert others == [1 - a, 1 - a, a, 1 - a]

    @pytest.mark.parametrize(("n", "stays"), [(8, True), (9, False)])
    def test_blocks_in_ram_are_worth_less(self, n, stays):
        """12 blocks fit in HBM, so a1 … a9 were moved out: 10 - (1 + 0.75 × 9) + (n + 10 - 1) against 10 + 10."""
        requests = [
            ask(0.0, blocks("a", 10)),
            ask(5.0, ("a0", *blocks("c", 9))),  # A: 9 + 10, B: 10 + 10
            ask(10.0, ("a0", *blocks("d", n - 1)), 20),
            ask(10.25, blocks("a", 10)),
        ]
        a, b, c, last = routed("dynamo", requests, setup_of(2, tokens=100))
        assert a == b == c
        assert (last == a) == stays

    @pytest.mark.parametrize(("n", "credit", "stays"), [(8, 0.25, True), (9, 0.25, False), (9, 0.0, True)])
    def test_blocks_on_the_shared_disk_are_worth_little(self, n, credit, stays):
        """A: 0 + (n + 10 - 1); B: 10 - 0.25 × 10 + 10."""
        requests = [
            ask(0.0, blocks("a", 10)),
            ask(10.0, ("a0", *blocks("d", n - 1)), 900),
            ask(12.0, blocks("a", 10)),
        ]
        a, b, last = routed("dynamo", requests, setup_of(2), DynamoParameters(disk_credit=credit), disk_cache=True)
        assert a == b
        assert (last == a) == stays

    @pytest.mark.parametrize(("n", "stays"), [(10, True), (12, False)])
    def test_credit_pays_no_more_than_the_prefill(self, n, stays):
        """A: max(0, 10 - 30) + (n + 10 - 1); B: 10 + 10."""
        requests = [
            ask(0.0, blocks("a", 10)),
            ask(10.0, ("a0", *blocks("d", n - 1)), 900),
            ask(12.0, blocks("a", 10)),
        ]
        a, b, last = routed("dynamo", requests, setup_of(2), DynamoParameters(overlap_credit=3.0))
        assert a == b
        assert (last == a) == stays

    def test_a_scale_of_0_leaves_blocks_in_use(self):
        """A: 0 + (100 + 1); B: 0 + 101."""
        requests = [ask(0.0, blocks("x", 100), 900), ask(5.0, (*blocks("x", 100), "p"))]
        rule = DynamoParameters(prefill_load_scale=0.0)
        assert len({len(set(routed("dynamo", requests, setup_of(2), rule, seed))) for seed in range(20)}) == 2

    def test_a_temperature_draws_by_cost(self):
        """The first finds equal costs, the second 12 and 22, scaled to 0 and 1."""
        requests = [ask(0.0, blocks("a", 10)), ask(10.0, (*blocks("a", 10), "b"))]
        for temperature in (0.5, 1.0, 3.0):
            for seed in range(20):
                draw = random.Random(seed)
                a = 0 if draw.getrandbits(32) / 2**32 * 2 < 1 else 1
                weights = [math.exp(-abs(r - a) / temperature) for r in range(2)]
                b = 0 if draw.getrandbits(32) / 2**32 * sum(weights) < weights[0] else 1
                rule = DynamoParameters(temperature=temperature)
                assert routed("dynamo", requests, setup_of(2), rule, seed) == [a, b]


class TestLlmD:
    def test_what_was_sent_there_before_scores(self):
        requests = [ask(10.0 * i, (*blocks("a", 10), f"own{i}")) for i in range(10)]
        assert len(set(routed("llm_d", requests, setup_of(4)))) == 1
        without = routed("llm_d", requests, setup_of(4), LlmDParameters(prefix_weight=0.0))
        assert len(set(without)) > 1, "all equal: drawn"

    def test_a_fuller_kv_budget_scores_less(self):
        """x is decoded on A, so all that is new goes to B."""
        requests = [ask(0.0, blocks("x", 10), 2000), *(ask(1.0 + i, blocks(f"p{i}x", 3)) for i in range(8))]
        a, *others = routed("llm_d", requests, setup_of(2))
        assert others == [1 - a] * 8
        a, *others = routed("llm_d", requests, setup_of(2), LlmDParameters(kv_weight=0.0))
        assert len(set(others)) > 1

    def test_a_request_waits_until_its_prefill_starts(self):
        """The second waits for the first until 1.6 s. Scores of A: queue 0 or 1 × 2, kv almost 2, prefix almost 1."""
        prompt = blocks("x", 100)
        requests = [
            ask(0.0, prompt, 500),
            ask(0.1, (*prompt, "a"), 500),  # A: 2 + 2 + 1, B: 2 + 2
            ask(1.5, (*prompt, "b"), 500),  # A: 0 + 2 + 1, B: 2 + 2
        ]
        rule = LlmDParameters(prefix_weight=1.0)
        a, *others = routed("llm_d", requests, setup_of(2), rule)
        assert others == [a, 1 - a]
        requests[2] = ask(1.7, (*prompt, "b"), 500)  # A: 2 + 2 + 1, B: 2 + 2
        a, *others = routed("llm_d", requests, setup_of(2), rule)
        assert others == [a, a]

    @pytest.mark.parametrize(("capacity", "is_known"), [(20, True), (19, False), (10, False), (0, False)])
    def test_the_table_forgets_what_was_used_longest_ago(self, capacity, is_known):
        """x keeps B busy, so a and e go to A; of 20 blocks all must be kept, since a0 goes first."""
        requests = [
            ask(0.0, blocks("x", 1), 500),
            ask(1.0, blocks("a", 10)),
            ask(2.0, blocks("e", 10)),
            ask(30.0, blocks("a", 10)),
        ]
        rule = LlmDParameters(table_blocks=capacity)
        same = {r[3] == r[1] for r in (routed("llm_d", requests, setup_of(2), rule, seed) for seed in range(20))}
        assert same == ({True} if is_known else {True, False})

    def test_what_is_sent_again_is_kept_longer(self):
        """a, e, then a again: of 20 blocks e goes first when f comes."""
        requests = [
            ask(0.0, blocks("x", 1), 900),
            *(ask(1.0 + i, blocks(name, 10)) for i, name in enumerate("aeaf")),
            ask(30.0, blocks("a", 10)),
        ]
        for seed in range(10):
            first, *_, last = routed("llm_d", requests, setup_of(2), LlmDParameters(table_blocks=20), seed)
            assert last == 1 - first
