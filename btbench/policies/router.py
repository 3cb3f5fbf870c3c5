"""The chain of kernels: one policy number, one branch. The order is that of `registry.KINDS`, which a test checks.

An if-chain, because a compiled function handed over as an argument would be compiled anew by every process.
"""

from btbench.jit import inlined
from btbench.policies.btb import route_btb
from btbench.policies.cache_aware import route_cache_aware
from btbench.policies.least_load import route_least_load
from btbench.policies.random import route_random
from btbench.policies.round_robin import route_round_robin

CHAIN = (route_least_load, route_cache_aware, route_btb, route_round_robin, route_random)


@inlined
def route(code, view, i, parameters, memory, draws, orders):  # type: ignore[no-untyped-def]
    """The replica that policy number `code` sends request i to; copies it asks for are left in `orders`."""
    if code == 0:
        return route_least_load(view, draws)
    if code == 1:
        return route_cache_aware(view, i, parameters.cache_aware, memory, draws)
    if code == 2:
        return route_btb(view, i, parameters.btb, parameters.cache_aware, memory, draws, orders)
    if code == 3:
        return route_round_robin(view, memory)
    return route_random(view, draws)
