"""Copies of a prefix over RDMA: started when a policy orders them, landed when a later request finds them ready."""

from btbench.engine.cache import evict, insert_run
from btbench.jit import inlined

_LANDING_SLACK_S = 1e-12  # of the published simulator: ready this little after the arrival still counts


@inlined
def start_copy(flights, clocks, work, costs, rates, i, source, target):  # type: ignore[no-untyped-def]
    """Request i's first Y blocks set out from `source`; `target` is occupied until they are there."""
    copy = flights.started[0]
    flights.started[0] += 1
    start = max(work.arrival_s[i], clocks.now[target])
    taken_s = costs.copy_blocks * costs.block_bytes / rates.rdma_bytes_per_s[target]
    ready = start + taken_s
    clocks.now[target] = ready
    clocks.busy_s[target] += taken_s
    flights.request[copy] = i
    flights.source[copy] = source
    flights.target[copy] = target
    flights.start_s[copy] = start
    flights.ready_s[copy] = ready
    flights.used[copy] = False
    flight = flights.count[0]
    flights.count[0] += 1
    flights.flying[flight] = copy
    flights.prefix[flight] = work.prefix[i]
    flights.to[flight] = target
    flights.in_flight[work.prefix[i]] += 1
    flights.next_ready_s[0] = min(flights.next_ready_s[0], ready)


@inlined
def land_copies(flights, cache, work, rates, now):  # type: ignore[no-untyped-def]
    """Every copy that is ready by `now` enters its target's HBM, in the order in which the copies were started."""
    if flights.next_ready_s[0] > now + _LANDING_SLACK_S:
        return
    kept = 0
    next_ready_s = 1e300
    for flight in range(flights.count[0]):
        copy = flights.flying[flight]
        prefix = flights.prefix[flight]
        target = flights.to[flight]
        if flights.ready_s[copy] > now + _LANDING_SLACK_S:
            flights.flying[kept] = copy
            flights.prefix[kept] = prefix
            flights.to[kept] = target
            kept += 1
            next_ready_s = min(next_ready_s, flights.ready_s[copy])
            continue
        i = flights.request[copy]
        for k in range(work.run_offsets[i], work.run_offsets[i] + work.prefix_runs[i]):
            insert_run(cache, work, work.runs[k], target)
        evict(cache, work, rates, target)
        flights.in_flight[prefix] -= 1
        flights.next_unproven[copy] = flights.unproven[prefix]
        flights.unproven[prefix] = copy
    flights.count[0] = kept
    flights.next_ready_s[0] = next_ready_s


@inlined
def prove_copy(flights, work, i, r):  # type: ignore[no-untyped-def]
    """Request i found its prefix on replica r: if a copy brought it there, that copy was of use."""
    prefix = work.prefix[i]
    if prefix < 0 or flights.unproven[prefix] < 0:
        return
    previous = -1
    copy = flights.unproven[prefix]
    while copy >= 0:
        following = flights.next_unproven[copy]
        if flights.target[copy] == r:
            flights.used[copy] = True
            if previous < 0:
                flights.unproven[prefix] = following
            else:
                flights.next_unproven[previous] = following
            return
        previous = copy
        copy = following
