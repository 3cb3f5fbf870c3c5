"""The replay: arrivals in order; before each, every working replica is advanced to it."""

from btbench.engine.clock import advance
from btbench.engine.copies import land_copies, start_copy
from btbench.jit import inlined, lean_kernel
from btbench.policies.router import route

DONE, TOO_LARGE, OUT_OF_DRAWS, OUT_OF_COPIES = 0, 1, 2, 3


@inlined
def advance_all(state, work, costs, rates, bounded, until):  # type: ignore[no-untyped-def]
    """Advance the working replicas in cluster order; those left idle leave the list.

    Returns (request, replica) of a request that can never fit, or (-1, -1).
    """
    clocks = state.clocks
    kept = 0
    for position in range(clocks.workers[0]):
        r = clocks.working[position]
        if not bounded or clocks.now[r] < until or clocks.queue_head[r] >= 0:
            misfit = advance(
                clocks, state.links, state.cache, work, costs, rates, state.flights, state.out, bounded, until, r
            )
            if misfit >= 0:
                return misfit, r
        if clocks.load[r] > 0:
            clocks.working[kept] = r
            kept += 1
    clocks.workers[0] = kept
    return -1, -1


@inlined
def enqueue(clocks, links, i, r, arrival_s):  # type: ignore[no-untyped-def]
    """Request i joins the queue of replica r; an idle replica's clock, left alone so far, is brought up to date."""
    if clocks.load[r] == 0:
        clocks.now[r] = max(clocks.now[r], arrival_s)
        position = clocks.workers[0]
        clocks.workers[0] += 1
        while position > 0 and clocks.working[position - 1] > r:
            clocks.working[position] = clocks.working[position - 1]
            position -= 1
        clocks.working[position] = r
    if clocks.queue_head[r] < 0:
        clocks.queue_head[r] = i
    else:
        links.next_queued[clocks.queue_tail[r]] = i
    links.next_queued[i] = -1
    clocks.queue_tail[r] = i
    clocks.load[r] += 1


@lean_kernel
def replay_requests(code, parameters, view, work, costs, rates, state, draws, memory, orders):  # type: ignore[no-untyped-def]
    """Replay all requests; returns (status, request, replica), the latter two where a request can never fit."""
    clocks = state.clocks
    flights = state.flights
    n = len(work.arrival_s)
    for i in range(n + 1):
        bounded = i < n
        arrival_s = work.arrival_s[i] if bounded else 0.0
        misfit, where = advance_all(state, work, costs, rates, bounded, arrival_s)
        if misfit >= 0:
            return TOO_LARGE, misfit, where
        if not bounded:
            break
        land_copies(flights, state.cache, work, rates, arrival_s)
        orders.count[0] = 0
        r = route(code, view, i, parameters, memory, draws, orders)
        if draws.used[0] > len(draws.outputs):
            return OUT_OF_DRAWS, i, r
        if flights.started[0] + orders.count[0] > len(flights.request):
            return OUT_OF_COPIES, i, r
        for order in range(orders.count[0]):
            start_copy(flights, clocks, work, costs, rates, i, orders.source[order], orders.target[order])
        state.out.replica[i] = r
        enqueue(clocks, state.links, i, r, arrival_s)
    return DONE, -1, -1
