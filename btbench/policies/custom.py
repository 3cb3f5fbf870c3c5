"""Policies of one's own, in plain Python: a class with `route(request, cluster)` that returns a `Decision`.

    class FewestTokens:
        def route(self, request, cluster):
            return Decision(min(range(len(cluster.load)), key=lambda r: cluster.queued_tokens[r]))

The compiled replay calls back for every request. What it shows are copies, read-only, without output lengths.
"""

from __future__ import annotations

import ctypes
import random
import traceback
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.errors import BtbenchError, PolicyError
from btbench.jit import call_address, inlined
from btbench.policies.bits import has
from btbench.policies.picks import hold_prefix
from btbench.policies.registry import Policy
from btbench.policies.view import ClusterView, CopyOrders

FAILED = -2  # no replica: the policy raised or decided what cannot be done


class Decision(NamedTuple):
    """Where a request goes, and which replicas its first Y blocks are to be copied to."""

    replica: int
    copies: Sequence[int] = ()


class Request(NamedTuple):
    """What a router knows of a request when it arrives."""

    position: int  # in the window
    arrival_s: float
    input_tokens: int
    prefix: int  # equal where the first Y blocks are equal, numbered as they come; -1 where it has fewer than Y


def sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory as an array that cannot be made writable again."""
    return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]


class Shown(NamedTuple):
    """What a class sees by replica, copied anew for each request: whoever gets at this memory changes no replay."""

    load: npt.NDArray[np.int32]
    queued_tokens: npt.NDArray[np.int64]
    context_tokens: npt.NDArray[np.int64]
    now_s: npt.NDArray[np.float64]
    kv_token_budget: npt.NDArray[np.int64]
    matched_blocks: npt.NDArray[np.int64]
    holds_prefix: npt.NDArray[np.bool_]
    awaits_prefix: npt.NDArray[np.bool_]


def new_shown(replicas: int) -> Shown:
    """Nothing yet."""
    return Shown(
        load=np.zeros(replicas, np.int32),
        queued_tokens=np.zeros(replicas, np.int64),
        context_tokens=np.zeros(replicas, np.int64),
        now_s=np.zeros(replicas, np.float64),
        kv_token_budget=np.zeros(replicas, np.int64),
        matched_blocks=np.zeros(replicas, np.int64),
        holds_prefix=np.zeros(replicas, np.bool_),
        awaits_prefix=np.zeros(replicas, np.bool_),
    )


class Cluster:
    """What a router knows of the cluster when a request arrives; arrays by replica, read-only."""

    def __init__(self, shown: Shown, seed: int) -> None:
        self.random = random.Random(seed)  # a policy's own stream of draws
        self.load = sealed(shown.load)  # requests in flight, running and queued
        self.queued_tokens = sealed(shown.queued_tokens)  # input of what waits
        self.context_tokens = sealed(shown.context_tokens)  # of what runs, as far as it is decoded
        self.now_s = sealed(shown.now_s)  # the replica's clock: ahead of the arrival while it prefills
        self.kv_token_budget = sealed(shown.kv_token_budget)
        self.matched_blocks = sealed(shown.matched_blocks)  # of this request, from the start, in HBM or RAM
        self.holds_prefix = sealed(shown.holds_prefix)  # whether its first Y blocks are all in HBM
        self.awaits_prefix = sealed(shown.awaits_prefix)  # whether a copy of them is under way there


class CallbackMemory(NamedTuple):
    """What the compiled side works out for each request before it calls back."""

    address: int  # of the C function that wraps the policy
    shown: Shown
    holds: npt.NDArray[np.bool_]  # (R,) what decisions are held to
    awaits: npt.NDArray[np.bool_]  # (R,)
    candidates: npt.NDArray[np.uint64]  # (W,) scratch


@inlined
def route_callback(view, i, memory):  # type: ignore[no-untyped-def]
    """Show the policy what it may see of request i, and ask it."""
    request = view.requests[i]
    shown = memory.shown
    is_held = request.prefix >= 0 and hold_prefix(view.in_hbm, view, i, memory.candidates)
    for r in range(len(view.load)):
        memory.holds[r] = is_held and has(memory.candidates, r)
        memory.awaits[r] = False
        blocks = 0
        for k in range(request.runs_start, request.runs_stop):
            if not has(view.resident[view.run_list[k]], r):
                break
            blocks += view.run_blocks[view.run_list[k]]
        shown.matched_blocks[r] = blocks
        shown.load[r] = view.load[r]
        shown.queued_tokens[r] = view.replicas[r].queued_tokens
        shown.context_tokens[r] = view.replicas[r].context_tokens
        shown.now_s[r] = view.replicas[r].now
        shown.kv_token_budget[r] = view.replicas[r].token_budget
    for flight in range(view.flights[0]):
        copy = view.copies[view.flying[flight]]
        if copy.prefix == request.prefix:
            memory.awaits[copy.target] = True
    for r in range(len(view.load)):
        shown.holds_prefix[r] = memory.holds[r]
        shown.awaits_prefix[r] = memory.awaits[r]
    return call_address(memory.address, i)


def told(error: BaseException) -> str:
    """What a policy raised, in one line, and where."""
    try:
        text = (str(error).splitlines() or [""])[0][:200]
    except Exception:
        text = "(its text cannot be had)"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {text} ({frames[-1].filename}, line {frames[-1].lineno})"


def prefix_numbers(view: ClusterView) -> list[int]:
    """(N,) `Request.prefix`. The view's is -1 also where no later request has the same, which no router knows."""
    numbers: dict[int, int] = {}
    rows = zip(view.requests["prompt_blocks"].tolist(), view.requests["prefix"].tolist(), strict=True)
    return [
        numbers.setdefault(prefix if prefix >= 0 else ~i, len(numbers)) if blocks >= view.costs.copy_blocks else -1
        for i, (blocks, prefix) in enumerate(rows)
    ]


class Callback:
    """The bridge between the compiled replay and one policy object, for one replay."""

    def __init__(self, policy: Policy, view: ClusterView, orders: CopyOrders, seed: int) -> None:
        replicas = len(view.load)
        self.error: BaseException | None = None
        self.pointer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._ask)
        self.memory = CallbackMemory(
            address=ctypes.cast(self.pointer, ctypes.c_void_p).value or 0,
            shown=new_shown(replicas),
            holds=np.zeros(replicas, np.bool_),
            awaits=np.zeros(replicas, np.bool_),
            candidates=np.zeros((replicas + 63) // 64, np.uint64),
        )
        self._name = policy.name
        try:
            self._route: Callable[[Request, Cluster], Decision] = policy.custom().route
        except Exception as error:
            hint = "The class is made anew for each replay, without arguments."
            raise PolicyError(f"policy {policy.name!r} cannot be made: {told(error)}", hint) from error
        self._cluster = Cluster(self.memory.shown, seed)
        self._orders = orders
        columns = view.requests["arrival_s"].tolist(), view.requests["input_tokens"].tolist(), prefix_numbers(view)
        self._requests = list(zip(*columns, strict=True))

    def _ask(self, i: int) -> int:
        """Called by the compiled replay, which no exception may cross."""
        try:
            return self._check(i, self._route(Request(i, *self._requests[i]), self._cluster))
        except (BtbenchError, KeyboardInterrupt) as error:
            self.error = error
        except BaseException as error:
            self.error = self._wrong(i, told(error), "--debug shows the traceback.")
            self.error.__cause__ = error
        return FAILED

    def _check(self, i: int, decision: Decision) -> int:
        replicas = len(self._cluster.load)
        if not isinstance(decision, Decision):
            raise self._wrong(i, f"returned {decision!r}", "route() returns Decision(replica, copies=[…]).")
        copies = list(islice(decision.copies, replicas + 1))  # one too many shows, an endless iterator does no harm
        for what, r in (("replica", decision.replica), *(("copies", r) for r in copies)):
            if isinstance(r, bool) or not isinstance(r, int | np.integer) or not 0 <= r < replicas:
                raise self._wrong(i, f"{what}: no replica {r!r}", f"Replicas are 0 … {replicas - 1}.")
        if copies:
            self._order(i, copies)
        return int(decision.replica)

    def _order(self, i: int, targets: Sequence[int]) -> None:
        holders = np.flatnonzero(self.memory.holds)
        if len(holders) == 0:
            raise self._wrong(i, "asked for a copy that nobody holds", "cluster.holds_prefix says who does.")
        for target in targets:
            if self.memory.holds[target] or self.memory.awaits[target] or targets.count(target) > 1:
                hint = "Copy to replicas for which cluster.holds_prefix and cluster.awaits_prefix are both false."
                raise self._wrong(i, f"replica {target} has the prefix, or awaits it", hint)
        self._orders.ordered[0] = len(targets)
        self._orders.target[: len(targets)] = targets
        self._orders.source[: len(targets)] = holders[0]

    def _wrong(self, i: int, what: str, hint: str) -> PolicyError:
        return PolicyError(f"policy {self._name!r}, request {i}: {what}", hint)
