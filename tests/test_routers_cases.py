"""The routers people run, case by case: every branch of every rule on a cluster small enough to work out by hand.

A block holds 8 tokens and takes 16 ms to prefill and 4,096 bytes; a decode step takes about 8 ms. Replicas are equal.
"""

import math
import random

import naive
import numpy as np
import pytest
from replaying import through_engine
from strategies import MODEL, Problem

from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import TIERS
from btbench.policies.parameters import (
    DynamoParameters,
    LlmDParameters,
    MooncakeParameters,
    Parameters,
    PrebleParameters,
    PrefixHashParameters,
)

BLOCK_S = 0.016  # to prefill
FAST, SLOW = 4.096e6, 4096.0  # bytes/s over RDMA: a block takes 1 ms, or 1 s


def setup_of(replicas: int, rdma_bytes_per_s: float = FAST, tokens: int = 100_000) -> Setup:
    """Equal replicas with room for so many tokens of KV."""
    room_bytes = MODEL.weight_bytes + MODEL.kv_bytes_per_token * (tokens + 0.5)
    gpu = Gpu("toy", 2e12, 3e11, room_bytes, 1e9, rdma_bytes_per_s, 1e9)
    return Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i in range(replicas)))


def blocks(name: str, count: int) -> tuple:
    """Ids of a prompt's part."""
    return tuple(f"{name}{i}" for i in range(count))


def ask(arrival_s: float, prompt: tuple, output_tokens: int = 1, input_tokens: int | None = None) -> naive.Request:
    """A request whose input is its blocks, unless told otherwise."""
    return naive.Request(arrival_s, input_tokens or 8 * len(prompt), output_tokens, prompt)


def replay(policy, requests, setup, parameters=None, seed=42, **options):
    """Replay with the engine."""
    groups = {policy: parameters} if parameters is not None else {}
    options = ServingOptions(mfu=0.5, mbu=0.8, **options)
    return through_engine(Problem(tuple(requests), setup, options, Parameters(**groups), seed), policy)


def routed(*arguments, **options) -> list[int]:
    """The replica of each request."""
    return replay(*arguments, **options).served.replica.tolist()


def moves(run) -> list[tuple]:
    """(request, source, target, blocks) of each move of KV."""
    c = run.copies
    return list(zip(c.request.tolist(), c.source.tolist(), c.target.tolist(), c.blocks.tolist(), strict=True))


class TestPrefixHash:
    def test_the_same_beginning_goes_to_the_same_replica(self):
        """32 blocks hold the first 256 tokens; what comes behind them does not count, what differs among them does."""
        long = blocks("a", 32)
        requests = [ask(10.0 * i, long + blocks(f"own{i}", 3)) for i in range(8)]
        assert len(set(routed("prefix_hash", requests, setup_of(4)))) == 1
        requests = [ask(10.0 * i, long[:31] + blocks(f"own{i}", 3)) for i in range(20)]
        assert len(set(routed("prefix_hash", requests, setup_of(4)))) > 1

    def test_tokens_are_rounded_up_to_blocks(self):
        requests = [ask(10.0 * i, ("a", f"b{i % 2}", f"c{i}")) for i in range(20)]
        for tokens, count in ((8, 1), (9, 2), (16, 2)):
            homes = routed("prefix_hash", requests, setup_of(64), PrefixHashParameters(prefix_tokens=tokens))
            assert len(set(homes)) == count

    def test_a_short_prompt_counts_whole(self):
        requests = [ask(10.0 * i, blocks("a", 1 + i % 2)) for i in range(20)]
        homes = routed("prefix_hash", requests, setup_of(64))
        assert homes == homes[:2] * 10
        assert homes[0] != homes[1]

    def test_a_prompt_of_unknown_content_is_one_of_its_own(self):
        requests = [ask(10.0 * i, (), input_tokens=300) for i in range(20)]
        assert len(set(routed("prefix_hash", requests, setup_of(64)))) > 10

    def test_another_seed_is_another_hash(self):
        requests = [ask(10.0 * i, blocks(f"p{i}x", 40)) for i in range(20)]
        assert routed("prefix_hash", requests, setup_of(4)) != routed("prefix_hash", requests, setup_of(4), seed=1)

    def test_a_busy_home_passes_on(self):
        """Kept while load ≤ 1.25 × (total + 1) / 2: 0 ≤ 0.6, 1 ≤ 1.25, not 2 ≤ 1.9, 2 ≤ 2.5, 3 ≤ 3.1, not 4 ≤ 3.75."""
        homes = routed("prefix_hash", [ask(0.0, blocks("a", 40), 50)] * 6, setup_of(2))
        home = homes[0]
        assert homes == [home, home, 1 - home, home, home, 1 - home]

    def test_the_first_of_the_least_loaded_takes_over(self):
        homes = routed("prefix_hash", [ask(0.0, blocks("a", 40), 50)] * 4, setup_of(3))
        first, second = [r for r in range(3) if r != homes[0]]
        # 0 ≤ 0.4, not 1 ≤ 0.8, not 1 ≤ 1.25 ... is kept, not 2 ≤ 1.7
        assert homes == [homes[0], first, homes[0], second]

    def test_where_nobody_passes_home_keeps_it(self):
        """A factor of 0 lets only idle replicas pass."""
        rule = PrefixHashParameters(load_factor=0.0)
        homes = routed("prefix_hash", [ask(0.0, blocks("a", 40), 50)] * 5, setup_of(2), rule)
        assert homes == [homes[0], 1 - homes[0], homes[0], homes[0], homes[0]]


class TestPull:
    def requests(self):
        """A long answer keeps the holder of 10 blocks busy, so the next goes elsewhere."""
        return [ask(0.0, blocks("a", 10), 500), ask(1.0, (*blocks("a", 10), "b"))]

    def test_what_another_has_is_fetched_and_waited_for(self):
        """10 blocks take 10 ms to move and 160 ms to prefill."""
        run = replay("pull", self.requests(), setup_of(2))
        holder = run.served.replica[0]
        assert moves(run) == [(1, holder, 1 - holder, 10)]
        assert run.copies.used.tolist() == [True]
        assert run.copies.start_s[0] == 1.0
        assert run.served.start_s[1] == run.copies.ready_s[0] == pytest.approx(1.010)
        assert run.served.hit_tokens.tolist() == [0, 80]
        assert TIERS[run.served.tier[1]] == "hbm"

    def test_what_is_prefilled_sooner_is_not_fetched(self):
        run = replay("pull", self.requests(), setup_of(2, SLOW))
        assert moves(run) == []
        assert run.served.hit_tokens.tolist() == [0, 0]

    def test_as_fast_is_not_faster(self):
        as_fast = 4096.0 / BLOCK_S
        assert moves(replay("pull", self.requests(), setup_of(2, as_fast))) == []
        assert moves(replay("pull", self.requests(), setup_of(2, as_fast * 1.001))) != []

    def test_only_what_is_missing_is_moved(self):
        """The holder stays busy for a second; the other fetches 4 blocks, and the 6 behind them later."""
        requests = [
            ask(0.0, blocks("a", 10), 100),
            ask(0.5, (*blocks("a", 4), "b")),
            ask(0.9, (*blocks("a", 10), "c")),
        ]
        run = replay("pull", requests, setup_of(2))
        holder = run.served.replica[0]
        assert moves(run) == [(1, holder, 1 - holder, 4), (2, holder, 1 - holder, 6)]

    def test_the_longest_match_gives_the_first_on_ties(self):
        """All stay busy, so each goes to one that is idle; the last finds 4, 6 and 6 blocks elsewhere."""
        requests = [ask(float(i), (*blocks("a", 4 if i == 0 else 6), f"own{i}"), 900) for i in range(4)]
        run = replay("pull", requests, setup_of(4))
        first, second, third, last = run.served.replica.tolist()
        assert {first, second, third, last} == {0, 1, 2, 3}
        assert moves(run) == [(1, first, second, 4), (2, second, third, 6), (3, min(second, third), last, 6)]

    def test_nobody_has_anything(self):
        assert moves(replay("pull", [ask(0.0, blocks("a", 3)), ask(0.0, blocks("b", 3))], setup_of(2))) == []


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


class TestMooncake:
    def test_a_transfer_is_assumed_and_made(self):
        """The holder is busy for 0.15 s more; the other has 10 blocks in 10 ms. Best 10 / max(0, 1) > 2."""
        requests = [ask(0.0, blocks("a", 10)), ask(0.01, (*blocks("a", 10), "b"))]
        run = replay("mooncake", requests, setup_of(2))
        assert run.served.replica.tolist() == [0, 1]
        assert moves(run) == [(1, 0, 1, 10)]
        assert run.served.start_s[1] == run.copies.ready_s[0] == pytest.approx(0.02)
        assert run.served.hit_tokens[1] == 80

    def test_a_slow_transfer_is_not_worth_it(self):
        """10 s of transfer against 0.15 s of waiting."""
        requests = [ask(0.0, blocks("a", 10)), ask(0.01, (*blocks("a", 10), "b"))]
        run = replay("mooncake", requests, setup_of(2, SLOW))
        assert run.served.replica.tolist() == [0, 0]
        assert moves(run) == []

    def test_no_transfer_below_the_threshold(self):
        """10 / 1 is not above 10, so the other would prefill all: 0.176 s, against 0.15 + 0.016 s."""
        requests = [ask(0.0, blocks("a", 10)), ask(0.01, (*blocks("a", 10), "b"))]
        run = replay("mooncake", requests, setup_of(2), MooncakeParameters(balancing_threshold=10.0))
        assert run.served.replica.tolist() == [0, 0]
        assert moves(run) == []

    @pytest.mark.parametrize(("held", "then"), [(5, []), (4, [(3, 0, 1, 6)])])
    def test_the_ratio_is_to_what_the_replica_has(self, held, then):
        """Replica 1 has 5 of 10 blocks: 2 is not above 2. Or 4: 2.5 is. Replica 0 is busy for 1.5 s."""
        requests = [
            ask(0.0, blocks("a", 10)),
            ask(0.0, blocks("a", held) + blocks("b", 5)),  # moves the first to replica 1
            ask(5.0, blocks("a", 10) + blocks("c", 100)),
            ask(5.1, (*blocks("a", 10), "d")),
        ]
        run = replay("mooncake", requests, setup_of(2))
        assert run.served.replica.tolist() == [0, 1, 0, 1]
        assert moves(run) == [(1, 0, 1, held), *then]

    def test_equal_estimates_go_to_the_first(self):
        assert routed("mooncake", [ask(9.0 * i, blocks(f"p{i}x", 3)) for i in range(5)], setup_of(3)) == [0] * 5

    @pytest.mark.parametrize(("own", "where"), [(4, 0), (12, 1)])
    def test_what_waits_counts_as_the_prefill_of_what_it_does_not_hit(self, own, where):
        """One runs at a time, for long, which is no part of the queue. The last takes 0.176 s on replica 1; on 0, where
        a is, 0.016 s, at most 0.008 s of a decode step, and 0.064 or 0.192 s for the own blocks of what waits."""
        requests = [
            ask(0.0, blocks("a", 10), 900),
            ask(1.0, blocks("a", 10) + blocks("b", own)),
            ask(1.0, (*blocks("a", 10), "c")),
        ]
        rule = MooncakeParameters(balancing_threshold=100.0)
        assert routed("mooncake", requests, setup_of(2), rule, max_batch=1) == [0, 0, where]

    def test_over_the_slo_everywhere_is_rejected(self):
        """10 blocks take 0.16 s to prefill, 5 take half of it."""
        requests = [
            ask(0.0, blocks("a", 10)),
            ask(0.0, blocks("b", 5)),
            ask(9.0, blocks("c", 10)),
            ask(9.0, blocks("b", 6)),
        ]
        run = replay("mooncake", requests, setup_of(2), MooncakeParameters(ttft_slo_s=0.1))
        assert run.served.replica.tolist() == [-1, 0, -1, 0]
        for name in ("start_s", "reuse_s", "prefill_s", "finish_s"):
            assert np.isnan(getattr(run.served, name)).tolist() == [True, False, True, False]
        assert run.served.hit_tokens.tolist() == [0, 0, 0, 40]
        assert [TIERS[tier] for tier in run.served.tier] == ["miss", "miss", "miss", "hbm"]
        assert moves(run) == []

    def test_exactly_the_slo_is_served(self):
        rule = MooncakeParameters(ttft_slo_s=2e9 * 80 / 1e12)
        assert routed("mooncake", [ask(0.0, blocks("a", 10)), ask(9.0, blocks("b", 11))], setup_of(2), rule) == [0, -1]


class TestPreble:
    """Load in tokens: a prompt of 10 new blocks brings 80 to where it goes."""

    def test_what_is_new_explores(self):
        """Each to the cheapest: equal at first, then the one without load, then the one with less."""
        prompts = [blocks("a", 10), blocks("b", 10), blocks("c", 4), blocks("d", 4), blocks("e", 4)]
        requests = [ask(10.0 * i, prompt) for i, prompt in enumerate(prompts)]
        assert routed("preble", requests, setup_of(2)) == [0, 1, 0, 1, 0]

    def test_what_is_known_for_the_most_part_exploits(self):
        """9 blocks behind 10 go where the 10 are, though that is dearer; 10 behind 10 do not."""
        shared = [ask(0.0, blocks("a", 10)), ask(10.0, blocks("b", 3))]
        for new, where in ((1, 0), (9, 0), (10, 1), (11, 1)):
            requests = [*shared, ask(20.0, blocks("a", 10) + blocks("c", new))]
            assert routed("preble", requests, setup_of(2)) == [0, 1, where]

    def test_a_prompt_that_is_one_node_explores_again(self):
        """The whole of it is the last node, with nothing before it."""
        requests = [ask(0.0, blocks("a", 10)), ask(10.0, blocks("b", 3)), ask(20.0, blocks("a", 10))]
        assert routed("preble", requests, setup_of(2)) == [0, 1, 1]

    def test_the_cheapest_owner_is_taken(self):
        """a gets to both, with 10 own blocks each time; then replica 1 is given more."""
        requests = [
            ask(0.0, blocks("a", 10)),  # 0: 80
            ask(10.0, blocks("a", 10) + blocks("b", 10)),  # explores; its long node is a: 20 × 10 × 8 / 20 = 80 more
            ask(20.0, blocks("c", 2)),  # a's 160 on both: the first
            ask(30.0, blocks("a", 10) + blocks("d", 1)),
        ]
        assert routed("preble", requests, setup_of(2)) == [0, 1, 0, 1]
        requests[2] = ask(20.0, blocks("a", 10) + blocks("d", 2))  # to the first; the load falls on both
        assert routed("preble", requests, setup_of(2)) == [0, 1, 0, 0]

    def test_the_nearest_allocated_node_counts(self):
        """a is on both, its 20 blocks of b on replica 1 alone."""
        requests = [
            ask(0.0, blocks("a", 10)),
            ask(10.0, blocks("a", 10) + blocks("b", 20)),
            ask(20.0, blocks("a", 10) + blocks("b", 20) + blocks("c", 2)),
        ]
        assert routed("preble", requests, setup_of(2)) == [0, 1, 1]

    def test_load_is_forgotten(self):
        """After 180 s nothing counts, and the first of equals is taken."""
        requests = [ask(0.0, blocks("a", 10)), ask(179.0, blocks("b", 3)), ask(180.0, blocks("c", 2))]
        assert routed("preble", requests, setup_of(2)) == [0, 1, 1]
        requests[2] = ask(180.1, blocks("c", 2))
        assert routed("preble", requests, setup_of(2)) == [0, 1, 0]

    def test_requests_in_flight_cost_their_answers(self):
        """An answer of 100 tokens has ended; a is decoded on 0, 2 blocks are less than 100 decode steps."""
        requests = [
            ask(0.0, blocks("x", 1), 100),
            ask(200.0, blocks("a", 2), 900),
            ask(201.0, blocks("b", 1)),
            ask(202.0, blocks("c", 5)),
            ask(203.0, blocks("d", 5)),
        ]
        # a on 0, decoded for 7 s; b, c and d cost 1, 6 and 11 blocks on 1 at most, below 0.8 s
        assert routed("preble", requests, setup_of(2)) == [0, 0, 1, 1, 1]

    def requests_out_of_balance(self):
        """Nodes of 117 and 32 tokens on replica 0, 80 on replica 1; only the 32 may go."""
        return [
            ask(0.0, blocks("a", 10)),
            ask(10.0, blocks("b", 10)),
            ask(20.0, blocks("e", 4)),
            ask(30.0, blocks("a", 10) + blocks("f", 9)),  # exploits: 9 × 10 × 8 / 19 = 37 more
            ask(40.0, blocks("e", 4) + blocks("g", 1)),  # goes where e is
            ask(50.0, blocks("a", 10) + blocks("h", 1)),  # goes where a is
        ]

    def test_nodes_move_from_dear_to_cheap(self):
        """149 ≥ 1.5 × 80 after 2 × 2 requests."""
        rule = PrebleParameters(rebalance_min_requests_per_replica=2)
        assert routed("preble", self.requests_out_of_balance(), setup_of(2), rule) == [0, 1, 0, 0, 1, 0]

    def test_nothing_moves_before_there_are_enough_requests(self):
        assert routed("preble", self.requests_out_of_balance(), setup_of(2)) == [0, 1, 0, 0, 0, 0]

    def test_nothing_moves_below_the_ratio(self):
        rule = PrebleParameters(rebalance_min_requests_per_replica=2, rebalance_ratio=1.9)
        assert routed("preble", self.requests_out_of_balance(), setup_of(2), rule) == [0, 1, 0, 0, 0, 0]

    @pytest.mark.parametrize(("ratio", "last"), [(2.0, 1), (8.0, 0)])
    def test_a_node_that_slows_alone_gets_a_second_replica(self, ratio, last):
        """Mean TTFT 0.088 s in the older half; 0.144, 0.288, 0.432, 0.576 and 0.016 s in the newer: 3.3 times that."""
        requests = [
            ask(0.0, blocks("a", 10)),
            ask(1.0, (*blocks("a", 10), "b")),
            *(ask(100.0, blocks("a", 10) + blocks(f"c{i}x", 9)) for i in range(4)),
            ask(110.0, (*blocks("a", 10), "d")),
            ask(111.0, (*blocks("a", 10), "e")),  # the 8th: rebalanced behind it, as behind every 2nd
            ask(112.0, (*blocks("a", 10), "f"), 900),  # the first of two as cheap
            ask(113.0, (*blocks("a", 10), "g")),  # f is in flight there
        ]
        rule = PrebleParameters(rebalance_min_requests_per_replica=1, split_ttft_ratio=ratio)
        run = replay("preble", requests, setup_of(2), rule)
        assert run.served.replica.tolist() == [0] * 9 + [last]
        assert moves(run) == [], "computed again there, not copied"
