"""The replay: arrivals in order; before each, every working replica is advanced to it."""

import numpy as np

from btbench.engine.clock import MISS, advance
from btbench.engine.copies import land_copies, start_copy, transfer
from btbench.engine.signals import next_report, note_decision, observe, take_report
from btbench.jit import inlined, lean_kernel, uncached
from btbench.policies.bits import has
from btbench.policies.picks import REJECTED
from btbench.policies.router import route

DONE, TOO_LARGE, OUT_OF_DRAWS, OUT_OF_COPIES, WRONG_REPLICA, WRONG_ORDER = range(6)


@inlined
def advance_all(state, costs, bounded, until):  # type: ignore[no-untyped-def]
    """Advance the working replicas in cluster order; those left idle leave the list.

    Returns (request, replica) of a request that can never fit, or (-1, -1).
    """
    kept = 0
    for position in range(state.workers[0]):
        r = np.int64(state.working[position])
        if not bounded or state.replicas[r].now < until or state.replicas[r].queue_head >= 0:
            misfit = advance(state, costs, bounded, until, r)
            if misfit >= 0:
                return misfit, r
        if state.load[r] > 0:
            state.working[kept] = r
            kept += 1
    state.workers[0] = kept
    return -1, -1


@inlined
def advance_and_report(state, costs, signals, until):  # type: ignore[no-untyped-def]
    """`advance_all` with a stop wherever on the way a report is to be taken that some arrival sees."""
    due_s = next_report(signals, state)
    while due_s < until:
        misfit, where = advance_all(state, costs, True, due_s)
        if misfit >= 0:
            return misfit, where
        take_report(signals, state, due_s)
        due_s = next_report(signals, state)
    return advance_all(state, costs, True, until)


@inlined
def enqueue(state, i, r):  # type: ignore[no-untyped-def]
    """Request i joins the queue of replica r; an idle replica's clock, left alone so far, is brought up to date."""
    replica = state.replicas[r]
    if state.load[r] == 0:
        replica.now = max(replica.now, state.requests[i].arrival_s)
        position = state.workers[0]
        state.workers[0] += 1
        while position > 0 and state.working[position - 1] > r:
            state.working[position] = state.working[position - 1]
            position -= 1
        state.working[position] = r
    if replica.queue_head < 0:
        replica.queue_head = i
    else:
        state.served[replica.queue_tail].next_queued = i
    replica.queue_tail = i
    replica.queued_tokens += state.requests[i].input_tokens
    state.served[i].next_queued = -1
    state.served[i].replica = r
    state.load[r] += 1


@inlined
def can_carry_out(view, i, r, orders):  # type: ignore[no-untyped-def]
    """Whether every move of KV asked for with request i, sent to r, has one that gives and one that takes, as seen."""
    request = view.requests[i]
    replicas = len(view.load)
    copies = orders.ordered[0]
    if copies < 0 or copies > replicas or (copies > 0 and request.prefix < 0):
        return False
    for order in range(copies):
        source = np.int64(orders.source[order])
        target = np.int64(orders.target[order])
        if min(source, target) < 0 or max(source, target) >= replicas or source == target:
            return False
        lacks = 0
        for k in range(request.runs_start, request.runs_start + request.prefix_runs):
            if not has(view.in_hbm[view.run_list[k]], source):
                return False
            lacks += not has(view.in_hbm[view.run_list[k]], target)
        if lacks == 0:
            return False
        for earlier in range(order):
            if orders.target[earlier] == target:
                return False
    runs = orders.transfer_runs[0]
    giver = orders.transfer_source[0]
    if runs == 0:
        return True
    if runs < 0 or runs > request.runs_stop - request.runs_start or giver < 0 or giver >= replicas or giver == r:
        return False
    for k in range(request.runs_start, request.runs_start + runs):
        if not has(view.resident[view.run_list[k]], giver):
            return False
    return True


@inlined
def reject(state, i):  # type: ignore[no-untyped-def]
    """Request i is turned away: no replica, no times."""
    served = state.served[i]
    served.replica = -1
    served.reuse_s = np.nan
    served.prefill_s = np.nan
    served.hit_tokens = 0
    served.tier = MISS


@lean_kernel
def replay_requests(code, parameters, view, costs, state, signals, draws, memory, orders):  # type: ignore[no-untyped-def]
    """Replay all requests; returns (status, request, replica), the latter two where a request can never fit."""
    n = len(state.requests)
    for i in range(n + 1):
        bounded = i < n
        arrival_s = state.requests[i].arrival_s if bounded else 0.0
        if bounded and signals.delay_s > 0:
            misfit, where = advance_and_report(state, costs, signals, arrival_s)
        else:
            misfit, where = advance_all(state, costs, bounded, arrival_s)
        if misfit >= 0:
            return TOO_LARGE, misfit, where
        if not bounded:
            break
        land_copies(state, arrival_s)
        if signals.delay_s > 0:
            observe(signals, state, arrival_s)
        orders.ordered[0] = 0
        orders.transfer_runs[0] = 0
        r = route(code, view, i, parameters, memory, draws, orders)
        if draws.used[0] > len(draws.outputs):
            return OUT_OF_DRAWS, i, r
        if r == REJECTED and code >= 0:  # a policy of the user's has no such choice, and no replica of that number
            reject(state, i)
            continue
        if r < 0 or r >= len(state.replicas):
            return WRONG_REPLICA, i, r
        if not can_carry_out(view, i, r, orders):
            return WRONG_ORDER, i, r
        if state.flights.started[0] + orders.ordered[0] + 1 > len(state.flights.copies):
            return OUT_OF_COPIES, i, r
        for order in range(orders.ordered[0]):
            start_copy(state, costs, i, np.int64(orders.source[order]), np.int64(orders.target[order]))
        if signals.delay_s > 0:
            note_decision(signals, state, r, orders.ordered[0])
        if orders.transfer_runs[0] > 0:
            transfer(state, costs, i, orders.transfer_source[0], r, orders.transfer_runs[0])
        enqueue(state, i, r)
    return DONE, -1, -1


replay_requests_uncached = uncached(replay_requests)  # for a compiled policy of the user's, which is part of the kernel
