"""`random`: any replica, uniformly."""

from btbench.jit import inlined
from btbench.policies.picks import choose


@inlined
def route_random(view, draws):  # type: ignore[no-untyped-def]
    """A uniform draw."""
    return choose(draws, len(view.load))
