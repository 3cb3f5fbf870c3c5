"""The floor: what no policy can beat in this model, however it routes.

Each request's TTFT with no queue, on the fastest replica, and with every block that any earlier request brought in
already in HBM: the prefill of the rest. The share of the gap between a baseline and the floor that a policy closes says
more than a reduction does.

Where KV stays on the replica that made it, no request gets below its floor. Where it is copied, fetched or on a shared
disk, one that waits may find what a later one brought in elsewhere, and so get below its own; the later one has then
prefilled in its place. The mean over all requests stays above the mean floor in any case, since each block of the tree
of prompts is prefilled by whoever is served first.
"""

import numpy as np

from btbench.jit import kernel


@kernel
def known_tokens(requests, run_list, run_blocks, block_tokens):  # type: ignore[no-untyped-def]
    """(N,) tokens of each request's prompt, from its start, that earlier requests brought in."""
    known = np.zeros(len(run_blocks), np.bool_)
    tokens = np.empty(len(requests), np.int64)
    for i in range(len(requests)):
        blocks = 0
        leading = True
        for k in range(requests[i].runs_start, requests[i].runs_stop):
            leading = leading and known[run_list[k]]
            if leading:
                blocks += run_blocks[run_list[k]]
        for k in range(requests[i].runs_start, requests[i].runs_stop):
            known[run_list[k]] = True
        tokens[i] = min(blocks * block_tokens, requests[i].cacheable_tokens)
    return tokens
