"""The chain of kernels: one policy number, one branch. The order is that of `registry.KINDS`, which a test checks.

An if-chain, because a compiled function handed over as an argument would be compiled anew by every process.
"""

from btbench.jit import inlined
from btbench.policies.btb import route_burst
from btbench.policies.cache_aware import route_cache_aware
from btbench.policies.least_load import route_least_load
from btbench.policies.random import route_random
from btbench.policies.round_robin import route_round_robin

LEAST_LOAD, CACHE_AWARE, BTB, ROUND_ROBIN, RANDOM = range(5)


@inlined
def route(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
    """The replica that policy number `code` sends request i to; copies it asks for are left in `orders`."""
    if code == BTB:
        r = route_burst(view, i, parameters.btb, memory, draws, orders)
        if r >= 0:
            return r
        code = parameters.btb.fallback
    if code == LEAST_LOAD:
        return route_least_load(view, draws)
    if code == CACHE_AWARE:
        return route_cache_aware(view, i, parameters.cache_aware, memory, draws)
    if code == ROUND_ROBIN:
        return route_round_robin(view, memory)
    return route_random(view, draws)
