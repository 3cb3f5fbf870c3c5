"""`least_load`: the replica with the fewest requests in flight, whatever it has cached."""

from btbench.jit import inlined
from btbench.policies.picks import pick_least_loaded


@inlined
def route_least_load(view, draws):  # type: ignore[no-untyped-def]
    """Pick by load."""
    return pick_least_loaded(view.load, draws)
