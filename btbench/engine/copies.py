"""KV on its way over RDMA: copies of a prefix, which land later, and transfers, for which a request waits.

Blocks enter a cache when their prefill starts, and in the published simulator they can leave for another replica at
once, before they have been computed. That flatters whatever moves KV: a second request of a burst has the prefix copied
while the first one's prefill is still running, and finds it elsewhere sooner than anybody could have computed it.
It is the default, since the paper's numbers are of that rule.

With `[engine] copies_wait = true` KV leaves a replica no earlier than it is there:

- A run is there at the end of the prefill that brought it in, or when the copy or transfer that did lands. What is
  brought in again, or moves between HBM and RAM, keeps its time: nothing leaves a replica.
- A copy occupies its target at once for the time the move takes, as published: from the later of the arrival and the
  target's clock on. It starts when, beside these, all of its blocks are there on the giver, and lands that time later.
- A transfer starts at the same time as a copy would; the request waits until it has arrived, and with it all that is to
  happen on the target: its clock goes on from there. Only the time of the move itself counts as busy.

Policies do not know of it. They see what is in the caches, and estimate, as if it could leave at once: `btb` takes the
first holder even where another one is ready, `mooncake` and `pull` reckon with the time of the move alone. What is on a
shared disk can be read from the start of its prefill on, in either case.
"""

import numpy as np

from btbench.cluster.timing import move_s
from btbench.engine.cache import evict, insert_run, run_ready_s
from btbench.jit import inlined
from btbench.pairs import place_of
from btbench.policies.bits import has

_LANDING_SLACK_S = 1e-12  # of the published simulator: ready this little after the arrival still counts


@inlined
def move_blocks(state, costs, i, source, target, blocks, leave_s):  # type: ignore[no-untyped-def]
    """`blocks` of request i's prompt go from `source`, where they are at `leave_s`, to `target`, which is occupied."""
    flights = state.flights
    replica = state.replicas[target]
    copy = flights.copies[flights.started[0]]
    flights.started[0] += 1
    copy.request = i
    copy.prefix = -1
    copy.source = source
    copy.target = target
    copy.blocks = blocks
    free_s = max(state.requests[i].arrival_s, replica.now)
    copy.start_s = max(free_s, leave_s)
    taken_s = move_s(costs, blocks, replica.rdma_bytes_per_s)
    copy.ready_s = copy.start_s + taken_s
    copy.used = False
    replica.now = free_s + taken_s
    replica.busy_s += taken_s
    return copy


@inlined
def start_copy(state, costs, i, source, target):  # type: ignore[no-untyped-def]
    """Request i's first Y blocks set out; they land later."""
    flights = state.flights
    leave_s = 0.0
    if costs.copies_wait:
        first = state.requests[i].runs_start
        for k in range(first, first + state.requests[i].prefix_runs):
            leave_s = max(leave_s, run_ready_s(state.cache, state.replicas, state.cache.run_list[k], source))
    copy = move_blocks(state, costs, i, source, target, costs.copy_blocks, leave_s)
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
    leave_s = 0.0
    first = state.requests[i].runs_start
    for k in range(first, first + run_count):
        run = cache.run_list[k]
        if not has(cache.resident[run], target):
            if costs.copies_wait:
                leave_s = max(leave_s, run_ready_s(cache, state.replicas, run, source))
            blocks += cache.runs[run].blocks
            insert_run(cache, state.replicas, run, target, np.inf)
    if blocks > 0:
        copy = move_blocks(state, costs, i, source, target, blocks, leave_s)
        copy.used = True
        state.replicas[target].now = copy.ready_s
        if costs.copies_wait:
            note_arrival(state, first, first + run_count, target, copy.ready_s)
        evict(cache, state.replicas, state.requests, target)


@inlined
def note_arrival(state, first, stop, target, ready_s):  # type: ignore[no-untyped-def]
    """Those of some runs that a transfer has just brought to `target` are there at `ready_s`."""
    cache = state.cache
    for k in range(first, stop):
        place = place_of(cache.table, cache.run_list[k] * len(state.replicas) + target)
        if cache.ready_s[place] == np.inf:
            cache.ready_s[place] = ready_s


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
            insert_run(state.cache, state.replicas, state.cache.run_list[k], target, copy.ready_s)
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
