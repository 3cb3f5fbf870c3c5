"""`preble`'s rebalancing: moves load from dear replicas to cheap ones, and puts on two what one cannot carry.

While the dearest replica costs `rebalance_ratio` times the cheapest or more (of several the first in order), its nodes
with load that the cheapest has not, in order of their oldest hit, are allocated to the cheapest instead, each where
that leaves the cheapest no dearer than the dearest. If it has one node alone, that is allocated to both (and computed
again there, not copied) once its TTFT has grown: the mean over hits of the newer half of the history is
`split_ttft_ratio` times that of the older half or more, as far as their first tokens are out.
"""

import numpy as np

from btbench.cluster.timing import decode_s, prefill_s
from btbench.jit import inlined
from btbench.policies.bits import has
from btbench.policies.prompt_tree import move_node, share_of


@inlined
def mean_answer_tokens(view):  # type: ignore[no-untyped-def]
    """Mean length of the answers that have ended; 0 before the first has."""
    finished = 0
    tokens = 0
    for r in range(len(view.load)):
        finished += view.answers[r].finished
        tokens += view.answers[r].answered_tokens
    return tokens / finished if finished > 0 else 0.0


@inlined
def replica_cost_s(view, r, load_tokens, answer_tokens):  # type: ignore[no-untyped-def]
    """Cost of replica r where so many tokens of load fall on it, and answers are that long."""
    replica = view.replicas[r]
    decoding_s = view.load[r] * answer_tokens * decode_s(view.costs, replica, np.int64(1))
    return prefill_s(view.costs, replica, load_tokens) + decoding_s


@inlined
def start_pass(tree):  # type: ignore[no-untyped-def]
    """The number of a new pass over the hits."""
    tree.state[0].passes += 1
    return tree.state[0].passes


@inlined
def meet_node(tree, hit, this_pass, r):  # type: ignore[no-untyped-def]
    """The node of a hit, if this pass meets it for the first time and it brings load to replica r; else -1."""
    part = np.int64(tree.hits[hit].part)
    is_new = tree.seen[part] != this_pass
    tree.seen[part] = this_pass
    return part if is_new and has(tree.owners[part], r) and share_of(tree, part) > 0 else -1


@inlined
def only_node(tree, r):  # type: ignore[no-untyped-def]
    """The one node that brings load to replica r; -1 where there are none or several."""
    this_pass = start_pass(tree)
    only = np.int64(-1)
    for hit in range(tree.state[0].first, tree.state[0].stop):
        node = meet_node(tree, hit, this_pass, r)
        if node >= 0:
            if only >= 0:
                return -1
            only = node
    return only


@inlined
def has_slowed(view, tree, node, parameters, now):  # type: ignore[no-untyped-def]
    """Whether the mean TTFT over a node's hits has grown by the ratio between the halves of the history."""
    older_s = 0.0
    newer_s = 0.0
    older = 0
    newer = 0
    for hit in range(tree.state[0].first, tree.state[0].stop):
        if tree.hits[hit].part != node:
            continue
        arrival_s = view.requests[tree.hits[hit].request].arrival_s
        served = view.served[tree.hits[hit].request]
        if not served.start_s + (served.reuse_s + served.prefill_s) <= now:
            continue  # no first token yet, or not even admitted: not a number
        ttft_s = served.start_s - arrival_s + served.reuse_s + served.prefill_s
        if arrival_s < now - parameters.history_s / 2:
            older_s += ttft_s
            older += 1
        else:
            newer_s += ttft_s
            newer += 1
    return older > 0 and newer > 0 and newer_s / newer >= parameters.split_ttft_ratio * (older_s / older)


@inlined
def move_nodes(view, tree, dear, cheap, ratio, answer_tokens):  # type: ignore[no-untyped-def]
    """Move nodes until the two are in balance, or none is left that may go; returns whether any was moved."""
    this_pass = start_pass(tree)
    has_moved = False
    for hit in range(tree.state[0].first, tree.state[0].stop):
        node = meet_node(tree, hit, this_pass, dear)
        if node < 0 or has(tree.owners[node], cheap):
            continue
        tokens = share_of(tree, node)
        dear_s = replica_cost_s(view, dear, tree.replica_tokens[dear] - tokens, answer_tokens)
        cheap_s = replica_cost_s(view, cheap, tree.replica_tokens[cheap] + tokens, answer_tokens)
        if cheap_s <= dear_s:
            move_node(view, tree, node, cheap, dear)
            has_moved = True
            if dear_s < ratio * cheap_s:
                break
    return has_moved


@inlined
def rebalance(view, tree, parameters, now):  # type: ignore[no-untyped-def]
    """Move load until the cluster is in balance, or nothing helps."""
    answer_tokens = mean_answer_tokens(view)
    has_moved = True
    while has_moved:
        has_moved = False
        dear = np.int64(0)
        cheap = np.int64(0)
        for r in range(len(view.load)):
            tree.cost_s[r] = replica_cost_s(view, r, tree.replica_tokens[r], answer_tokens)
            if tree.cost_s[r] > tree.cost_s[dear]:
                dear = r
            if tree.cost_s[r] < tree.cost_s[cheap]:
                cheap = r
        if dear != cheap and tree.cost_s[dear] >= parameters.rebalance_ratio * tree.cost_s[cheap]:
            node = only_node(tree, dear)
            if node < 0:
                has_moved = move_nodes(view, tree, dear, cheap, parameters.rebalance_ratio, answer_tokens)
            elif not has(tree.owners[node], cheap) and has_slowed(view, tree, node, parameters, now):
                move_node(view, tree, node, cheap, np.int64(-1))
