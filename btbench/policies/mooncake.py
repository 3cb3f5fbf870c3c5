"""`mooncake`: the smallest estimated TTFT, moving KV where a far longer match lies elsewhere (Algorithm 1 of FAST'25).

Qin et al., Mooncake: Trading More Storage for Less Computation (FAST 2025): its conductor, with reactive copying of
what is hot. best = the longest match over replicas, in HBM or RAM. For a replica with m matching blocks: where
best / max(m, 1) > `balancing_threshold` a transfer of best - m blocks over RDMA is assumed, and the prefix is best;
else it is m. TTFT = transfer + queue + prefill of the rest, and queue = how far the replica's clock is ahead + prefill
of what it has not admitted yet, less what that was estimated to hit. The smallest wins, the first in order on ties, as
in Algorithm 1; where a transfer was assumed it is made, from the first replica with the longest match, and the request
waits for it. With `ttft_slo_s`, a request that is estimated to take longer everywhere is rejected.
Leaves out: the pool of decoding instances (here each replica does both, and decoding is not part of the queue, since
no router knows how long answers will be), and loading from RAM.
"""

import numpy as np

from btbench.cluster.timing import move_s, prefill_s
from btbench.jit import inlined
from btbench.policies.line import join_line, leave_admitted
from btbench.policies.matching import count_resident, hit_tokens, longest, order_transfer
from btbench.policies.picks import REJECTED


@inlined
def note_mooncake(view, i, r, line, memory):  # type: ignore[no-untyped-def]
    """Request i goes to replica r by another's decision."""
    count_resident(view, i, memory.candidates, memory.blocks)
    join_line(line, i, r, view.requests[i].input_tokens - hit_tokens(view, i, memory.blocks[r]))


@inlined
def route_mooncake(view, i, parameters, line, memory, orders):  # type: ignore[no-untyped-def]
    """The smallest estimated TTFT, moving KV first where that was assumed; rejected where it is over the SLO."""
    request = view.requests[i]
    leave_admitted(line, view)  # the clock has them
    count_resident(view, i, memory.candidates, memory.blocks)
    giver = longest(memory.blocks)
    best = memory.blocks[giver]
    chosen = np.int64(-1)
    least_s = np.inf
    prefix = np.int64(0)
    for r in range(len(view.load)):
        replica = view.replicas[r]
        matched = memory.blocks[r]
        transfer_s = 0.0
        if best / max(matched, 1) > parameters.balancing_threshold:
            transfer_s = move_s(view.costs, best - matched, replica.rdma_bytes_per_s)
            matched = best
        queue_s = max(0.0, replica.now - request.arrival_s) + prefill_s(view.costs, replica, line.fronts[r].tokens)
        rest = request.input_tokens - hit_tokens(view, i, matched)
        ttft_s = transfer_s + queue_s + prefill_s(view.costs, replica, rest)
        if ttft_s < least_s:
            least_s = ttft_s
            chosen = r
            prefix = matched
    if least_s > parameters.ttft_slo_s:
        return REJECTED
    if prefix > memory.blocks[chosen]:
        order_transfer(view, i, prefix, giver, orders)
    join_line(line, i, chosen, request.input_tokens - hit_tokens(view, i, prefix))
    return chosen
