"""`round_robin`: each replica in turn. The counter is increased before use, so the second replica comes first."""

from btbench.jit import inlined


@inlined
def route_round_robin(view, memory):  # type: ignore[no-untyped-def]
    """The next replica; draws nothing."""
    memory.turn[0] += 1
    return memory.turn[0] % len(view.load)
