"""`pull`: the least loaded replica, which fetches what another has cached where that beats prefilling it.

llm-d's "pull, don't recompute" (2026). Random among equally loaded ones. Where another replica holds more of the
prompt, in HBM or RAM, and moving the difference over RDMA takes less time than prefilling it, it is moved first, and
the request waits for it; the holder of the longest match gives it, the first in order on ties.
Leaves out: that the giver's link may be busy, and a shared disk, from which the replica might load without asking.
"""

from btbench.cluster.timing import move_s, prefill_s
from btbench.jit import inlined
from btbench.policies.matching import count_resident, hit_tokens, longest, order_transfer
from btbench.policies.picks import pick_least_loaded


@inlined
def route_pull(view, i, memory, draws, orders):  # type: ignore[no-untyped-def]
    """Pick by load, then fetch the rest of the longest match if that is faster."""
    r = pick_least_loaded(view.load, draws)
    count_resident(view, i, memory.candidates, memory.blocks)
    giver = longest(memory.blocks)
    here = memory.blocks[r]
    there = memory.blocks[giver]
    saved_tokens = hit_tokens(view, i, there) - hit_tokens(view, i, here)
    replica = view.replicas[r]
    if move_s(view.costs, there - here, replica.rdma_bytes_per_s) < prefill_s(view.costs, replica, saved_tokens):
        order_transfer(view, i, there, giver, orders)
    return r
