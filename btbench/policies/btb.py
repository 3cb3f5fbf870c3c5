"""`btb` (published as early_rdma): copy the prefix of a burst ahead of it, then spread the burst over the holders.

A prefix of Y = `prefix_blocks` blocks that arrives X = `threshold` times within Z = `window_s` seconds is a burst. The
first replica that holds it whole in HBM gives it to the least loaded others until M = `copies` replicas have it or are
about to; requests of the burst go to the least loaded holder. Anything else goes to the `fallback` policy, in the paper
always `cache_aware`, thresholds and all.

Detection depends on arrivals alone and is worked out before the replay (`btbench.engine.workload`).
"""

from btbench.jit import inlined
from btbench.policies.bits import has
from btbench.policies.picks import hold_prefix, pick_least_loaded_of


@inlined
def order_copies(view, prefix, wanted, memory, orders):  # type: ignore[no-untyped-def]
    """Order copies to the `wanted` least loaded replicas (first in order on ties) that neither hold nor await it."""
    taken = memory.taken
    source = -1
    for r in range(len(view.load)):
        taken[r] = has(memory.candidates, r)
        if taken[r] and source < 0:
            source = r
    for flight in range(view.flights[0]):
        copy = view.copies[view.flying[flight]]
        if copy.prefix == prefix:
            taken[copy.target] = True
    while wanted > 0:
        target = -1
        for r in range(len(view.load)):
            if not taken[r] and (target < 0 or view.load[r] < view.load[target]):
                target = r
        if target < 0:
            return
        taken[target] = True
        orders.target[orders.ordered[0]] = target
        orders.source[orders.ordered[0]] = source
        orders.ordered[0] += 1
        wanted -= 1


@inlined
def route_burst(view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
    """The least loaded holder of a burst's prefix, copying it further where too few have it; -1 where btb passes on."""
    if not view.requests[i].burst or not hold_prefix(view.in_hbm, view, i, memory.candidates):
        return -1
    prefix = view.requests[i].prefix
    holders = 0
    for r in range(len(view.load)):
        holders += has(memory.candidates, r)
    wanted = parameters.copies - holders - view.prefixes[prefix].in_flight
    if wanted > 0 and holders < len(view.load):
        order_copies(view, prefix, wanted, memory, orders)
    return pick_least_loaded_of(view.load, memory.candidates, draws)
