"""Copies of a prefix over RDMA: started when a policy orders them, landed when a later request finds them ready."""

import numpy as np

from btbench.cluster.timing import move_s
from btbench.engine.cache import evict, insert_run
from btbench.jit import inlined
from btbench.policies.bits import has

_LANDING_SLACK_S = 1e-12  # of the published simulator: ready this little after the arrival still counts


@inlined
def move_blocks(state, costs, i, source, target, blocks):  # type: ignore[no-untyped-def]
    """`blocks` of request i's prompt go from `source` to `target`, which is occupied until they are there."""
    flights = state.flights
    replica = state.replicas[target]
    copy = flights.copies[flights.started[0]]
    flights.started[0] += 1
    copy.request = i
    copy.prefix = -1
    copy.source = source
    copy.target = target
    copy.blocks = blocks
    copy.start_s = max(state.requests[i].arrival_s, replica.now)
    taken_s = move_s(costs, blocks, replica.rdma_bytes_per_s)
    copy.ready_s = copy.start_s + taken_s
    copy.used = False
    replica.now = copy.ready_s
    replica.busy_s += taken_s
    return copy


@inlined
def start_copy(state, costs, i, source, target):  # type: ignore[no-untyped-def]
    """Request i's first Y blocks set out; they land later."""
    flights = state.flights
    copy = move_blocks(state, costs, i, source, target, costs.copy_blocks)
    copy.prefix = state.requests[i].prefix
    flights.flying[flights.under_way[0]] = flights.started[0] - 1
    flights.under_way[0] += 1
    flights.prefixes[copy.prefix].in_flight += 1
    flights.next_ready_s[0] = min(flights.next_ready_s[0], copy.ready_s)


@inlined
def transfer(state, costs, i, source, target, run_count):  # type: ignore[no-untyped-def]
    """Those of request i's first runs that `target` lacks are brought to it, ahead of what it does next.

    The request waits for them, as everything else on that replica does; that is why the blocks can enter the cache at
    once: nothing happens there before they have arrived.
    """
    cache = state.cache
    blocks = np.int64(0)  # as everywhere: another type would compile what is called again
    first = state.requests[i].runs_start
    for k in range(first, first + run_count):
        if not has(cache.resident[cache.run_list[k]], target):
            blocks += cache.runs[cache.run_list[k]].blocks
            insert_run(cache, state.replicas, cache.run_list[k], target)
    if blocks > 0:
        move_blocks(state, costs, i, source, target, blocks).used = True
        evict(cache, state.replicas, state.requests, target)


@inlined
def has_landed(copy, now):  # type: ignore[no-untyped-def]
    """Whether a copy is in its target's cache at an arrival at `now`."""
    return copy.ready_s <= now + _LANDING_SLACK_S


@inlined
def land_copies(state, now):  # type: ignore[no-untyped-def]
    """Every copy that is ready by `now` enters its target's HBM, in the order in which the copies were started."""
    flights = state.flights
    if flights.next_ready_s[0] > now + _LANDING_SLACK_S:
        return
    kept = 0
    next_ready_s = 1e300
    for flight in range(flights.under_way[0]):
        index = flights.flying[flight]
        copy = flights.copies[index]
        if not has_landed(copy, now):
            flights.flying[kept] = index
            kept += 1
            next_ready_s = min(next_ready_s, copy.ready_s)
            continue
        target = np.int64(copy.target)  # as everywhere: another type would compile what is called again
        first = state.requests[copy.request].runs_start
        for k in range(first, first + state.requests[copy.request].prefix_runs):
            insert_run(state.cache, state.replicas, state.cache.run_list[k], target)
        evict(state.cache, state.replicas, state.requests, target)
        prefix = flights.prefixes[copy.prefix]
        prefix.in_flight -= 1
        copy.next_unproven = prefix.unproven
        prefix.unproven = index
    flights.under_way[0] = kept
    flights.next_ready_s[0] = next_ready_s


@inlined
def prove_copy(flights, prefix, r):  # type: ignore[no-untyped-def]
    """A request found its prefix on replica r: if a copy brought it there, that copy was of use."""
    if prefix < 0:
        return
    previous = -1
    index = flights.prefixes[prefix].unproven
    while index >= 0:
        copy = flights.copies[index]
        if copy.target == r:
            copy.used = True
            if previous < 0:
                flights.prefixes[prefix].unproven = copy.next_unproven
            else:
                flights.copies[previous].next_unproven = copy.next_unproven
            return
        previous = index
        index = copy.next_unproven
