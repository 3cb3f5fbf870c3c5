"""`preble`, case by case: every branch of every rule, worked out by hand (see `toys`)."""

import pytest
from toys import ask, blocks, moves, replay, routed, setup_of

from btbench.policies.parameters import PrebleParameters


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
