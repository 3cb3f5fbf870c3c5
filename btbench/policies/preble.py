"""`preble`: exploit what is cached where most of a prompt is known, else explore; and keep the load even (Preble's E2).

Srivatsa et al., Preble: Efficient Distributed Prompt Scheduling for LLM Serving (ICLR 2025). One radix tree over all
prompts, and for each node the replicas it is allocated to (`btbench.policies.prompt_tree`). Once a prompt is in, *new*
are the blocks of its last node and *shared* those before it.

- Exploit, if new < shared: the cheapest of the replicas of the nearest allocated node upwards from the last.
- Explore otherwise: the cheapest of all. In both cases the first in order on ties; every node of the prompt is then
  allocated to the replica chosen.

Cost of a replica = prefill of the load of its long nodes + requests in flight × mean length of the answers that have
ended × time of a decode step of its batch. A node is long if it has more blocks than lie before it; a request hits the
last long node of its prompt. Load of a node = Σ over its hits of the last `history_s` of (share of the prompt that was
not allocated to the replica chosen) × tokens of the node, shared evenly among the node's replicas, in whole tokens.

`btbench.policies.rebalance` moves load once every `rebalance_min_requests_per_replica` requests a replica.
Leaves out: two terms of the paper's cost (the new request's own prefill, and what it would evict), news of evictions,
and the fair queue of each replica, which the cluster model does not have.
"""

import numpy as np

from btbench.jit import inlined
from btbench.policies.bits import NONE, has
from btbench.policies.prompt_tree import ENDS, add_hit, allocate, forget_hits, insert_prompt, part_at, parts_of
from btbench.policies.rebalance import mean_answer_tokens, rebalance, replica_cost_s


@inlined
def part_blocks(view, i, depth, own):  # type: ignore[no-untyped-def]
    """Blocks of the part of request i's prompt at a depth; `own` of the one behind the shared ones."""
    k = view.requests[i].runs_start + depth
    return view.node_blocks[view.path[k]] if k < view.requests[i].runs_stop else own


@inlined
def describe(view, tree, i, count, own):  # type: ignore[no-untyped-def]
    """(last part and blocks of the last long node, blocks of the last node, blocks before it) of request i's prompt."""
    long_part = -1
    long_blocks = 0
    new = 0
    shared = 0
    stop = 0
    start = 0
    for depth in range(count):
        part = part_at(view, i, depth)
        stop += part_blocks(view, i, depth, own)
        if tree.continued_by[part] == ENDS:
            new = stop - start
            shared = start
            if new > shared:
                long_part = part
                long_blocks = new
            start = stop
    return long_part, long_blocks, new, shared


@inlined
def nearest_allocated(view, tree, i, count, candidates):  # type: ignore[no-untyped-def]
    """Set `candidates` to the replicas of the last part of request i's prompt that has any; False if none has."""
    for depth in range(count - 1, -1, -1):
        any_left = NONE
        for word in range(len(candidates)):
            candidates[word] = tree.owners[part_at(view, i, depth), word]
            any_left |= candidates[word]
        if any_left != NONE:
            return True
    return False


@inlined
def cheapest(view, tree, candidates, is_exploit):  # type: ignore[no-untyped-def]
    """The replica with the smallest cost, of the candidates where it is to exploit; the first in order on ties."""
    answer_tokens = mean_answer_tokens(view)
    chosen = np.int64(-1)
    least_s = 0.0
    for r in range(len(view.load)):
        if not is_exploit or has(candidates, r):
            cost_s = replica_cost_s(view, r, tree.replica_tokens[r], answer_tokens)
            if chosen < 0 or cost_s < least_s:
                chosen = r
                least_s = cost_s
    return chosen


@inlined
def missing_blocks(view, tree, i, r, count, own):  # type: ignore[no-untyped-def]
    """Blocks of request i's prompt from the first part on that is not allocated to replica r."""
    missing = 0
    is_missing = False
    for depth in range(count):
        is_missing = is_missing or not has(tree.owners[part_at(view, i, depth)], r)
        if is_missing:
            missing += part_blocks(view, i, depth, own)
    return missing


@inlined
def route_preble(view, i, parameters, tree, candidates):  # type: ignore[no-untyped-def]
    """Exploit or explore, note the hit, and rebalance when it is time."""
    now = view.requests[i].arrival_s
    forget_hits(view, tree, now - parameters.history_s)
    count, own = parts_of(view, i)
    insert_prompt(view, tree, i, count)
    long_part, long_blocks, new, shared = describe(view, tree, i, count, own)
    is_exploit = new < shared and nearest_allocated(view, tree, i, count, candidates)
    r = cheapest(view, tree, candidates, is_exploit)
    missing = missing_blocks(view, tree, i, r, count, own)
    for depth in range(count):
        allocate(tree, part_at(view, i, depth), r)
    add_hit(tree, i, long_part, missing * long_blocks * view.costs.block_tokens // (new + shared))
    tree.state[0].unbalanced += 1
    if tree.state[0].unbalanced >= parameters.rebalance_min_requests_per_replica * len(view.load):
        tree.state[0].unbalanced = 0
        rebalance(view, tree, parameters, now)
    return r
