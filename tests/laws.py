"""Laws that hold for any replay of the cluster model, whatever the policy: checked on rows, by whoever made them."""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import naive
from strategies import Problem


class Row(NamedTuple):
    """A request and what became of it."""

    request: naive.Request
    replica: int
    start_s: float
    reuse_s: float
    prefill_s: float
    finish_s: float
    hit_tokens: int
    tier: str

    @property
    def admitted_s(self) -> float:
        """When its prefill is done."""
        return self.start_s + (self.reuse_s + self.prefill_s)

    @property
    def tokens(self) -> int:
        """KV it takes while it runs."""
        return self.request.input_tokens + self.request.output_tokens


def assert_lawful(problem: Problem, rows: list[Row], copies: list[tuple]) -> None:
    """All laws; `copies` are (target, start_s, ready_s). Raises AssertionError."""
    costs = [naive.Costs(problem.setup.model, r, problem.options, problem.block_tokens) for r in problem.setup.replicas]
    assert [row.request for row in rows] == list(problem.requests), "every request is served exactly once"
    by_replica: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        assert 0 <= row.replica < len(costs)
        by_replica[row.replica].append(row)
        assert_request_is_sound(row, costs[row.replica], problem)
    for replica, served in by_replica.items():
        received = [(start_s, ready_s) for target, start_s, ready_s in copies if target == replica]
        assert_in_turn(served)
        assert_within_limits(served, costs[replica], problem.options.max_batch)
        assert_never_idle(served, received)
        if not received:
            assert_admitted_once_it_fits(served, costs[replica], problem.options.max_batch)


def assert_request_is_sound(row: Row, costs: naive.Costs, problem: Problem) -> None:
    """Nothing starts before it arrives; the parts of its time are what its tokens cost."""
    assert row.start_s >= row.request.arrival_s
    cacheable = min(len(row.request.blocks) * costs.block_tokens, row.request.input_tokens)
    assert 0 <= row.hit_tokens <= cacheable
    assert (row.tier == "miss") == (row.hit_tokens == 0)
    assert row.tier in ("hbm", "ram", "miss", *(["disk"] if problem.options.disk_cache else []))
    assert 0 <= row.reuse_s <= costs.prefill_s(row.hit_tokens), "loading never takes longer than recomputing"
    assert row.reuse_s == 0 or row.tier in ("ram", "disk")
    assert row.prefill_s == costs.prefill_s(row.request.input_tokens - row.hit_tokens)
    alone_s = costs.decode_s(row.request.output_tokens, 1, row.request.input_tokens)
    assert row.finish_s - row.admitted_s >= alone_s * (1 - 1e-9) - 1e-9 * row.finish_s, "a batch decodes no faster"


def assert_in_turn(served: list[Row]) -> None:
    """First come, first served; one prefill at a time: the clock of a replica never goes back."""
    for earlier, later in pairwise(served):
        assert later.start_s >= earlier.admitted_s


def running_at(served: list[Row], row_index: int, time_s: float) -> list[Row]:
    """Those admitted before a row that still run at a time."""
    return [row for row in served[:row_index] if row.finish_s > time_s]


def assert_within_limits(served: list[Row], costs: naive.Costs, max_batch: int) -> None:
    """The batch never exceeds `max_batch`, nor its tokens the budget."""
    for i, row in enumerate(served):
        batch = [*running_at(served, i, row.start_s), row]
        assert len(batch) <= max_batch
        assert sum(r.tokens for r in batch) <= costs.budget_tokens


def assert_never_idle(served: list[Row], received: list[tuple[float, float]]) -> None:
    """While a request waits, its replica works: prefills, decodes or receives a copy."""
    for i, row in enumerate(served):
        spans = sorted([(r.start_s, r.finish_s) for r in served[:i]] + received)
        reached_s = row.request.arrival_s
        for start_s, end_s in spans:
            if start_s <= reached_s:
                reached_s = max(reached_s, end_s)
        assert reached_s >= row.start_s, "idle while a request waits"


def assert_admitted_once_it_fits(served: list[Row], costs: naive.Costs, max_batch: int) -> None:
    """The first in the queue waits no longer than one decode step if there is room for it."""
    step_s = costs.decode_s(1, max_batch, costs.budget_tokens)
    for i, row in enumerate(served):
        first_in_queue_s = max(row.request.arrival_s, served[i - 1].admitted_s if i else 0.0)
        batch = [*running_at(served, i, first_in_queue_s), row]
        if len(batch) <= max_batch and sum(r.tokens for r in batch) <= costs.budget_tokens:
            assert row.start_s <= (first_in_queue_s + step_s) * (1 + 1e-9)
