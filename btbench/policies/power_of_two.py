"""`power_of_two`: two different replicas at random, the less loaded of them, the first drawn on ties.

Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (2001).
"""

from btbench.jit import inlined
from btbench.policies.picks import choose


@inlined
def route_power_of_two(view, draws):  # type: ignore[no-untyped-def]
    """The less loaded of two; the second is drawn from those that are left, in cluster order."""
    replicas = len(view.load)
    first = choose(draws, replicas)
    if replicas == 1:
        return first
    second = choose(draws, replicas - 1)
    if second >= first:
        second += 1
    return second if view.load[second] < view.load[first] else first
