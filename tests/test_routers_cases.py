"""`prefix_hash`, `pull` and `mooncake`, case by case: every branch of every rule, worked out by hand (see `toys`)."""

import numpy as np
import pytest
from toys import BLOCK_S, SLOW, ask, blocks, moves, replay, routed, setup_of

from btbench.engine import TIERS
from btbench.policies.parameters import MooncakeParameters, PrefixHashParameters


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

    def test_blocks_save_no_more_than_the_input(self):
        """20 tokens of input take 0.04 s to prefill, whatever their 10 blocks say; to move those takes 0.1 s."""
        requests = [ask(0.0, blocks("a", 10), 500), ask(1.0, blocks("a", 10), input_tokens=20)]
        assert moves(replay("pull", requests, setup_of(2, 4.096e5))) == []
        assert moves(replay("pull", requests, setup_of(2, 4.096e6))) != []

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
