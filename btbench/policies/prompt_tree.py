"""`preble`'s radix tree over all prompts: which replicas a node is allocated to, and who has hit it of late.

Its smallest *parts* are the nodes of the trace's prompt tree (`btbench.engine.workload`), which no request of the trace
can tell apart further, and what only one prompt has. A *radix node* is a chain of parts that came in at once and has
not been split since; it goes by its last part. A split leaves the hits with the lower piece, as it keeps the last part.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import inlined
from btbench.policies.bits import NONE, ONE, bit, has
from btbench.policies.matching import prompt_blocks
from btbench.policies.view import ClusterView

ENDS, UNKNOWN = -1, -2  # in place of the part that continues a radix node: it ends here; the part is not in the tree

HIT = np.dtype([("load_tokens", "i8"), ("request", "i4"), ("part", "i4")], align=True)
STATE = np.dtype(
    [
        ("first", "i8"),  # hits[first:stop] are kept
        ("stop", "i8"),
        ("unbalanced", "i8"),  # requests since the last rebalancing
        ("passes", "i8"),  # over the hits
    ],
    align=True,
)


class PromptTree(NamedTuple):
    """M nodes that prompts can share and N requests' own parts behind them, R replicas, W words of replica bits."""

    continued_by: npt.NDArray[np.int32]  # (M + N,) the next part of the same radix node
    owners: npt.NDArray[np.uint64]  # (M + N, W) replicas a part is allocated to
    load_tokens: npt.NDArray[np.int64]  # (M + N,) of the hits kept, by the last part of the radix node
    seen: npt.NDArray[np.int64]  # (M + N,) scratch: the latest pass that met a part
    hits: npt.NDArray[np.void]  # (N,) HIT, in order of arrival
    state: npt.NDArray[np.void]  # (1,) STATE
    replica_tokens: npt.NDArray[np.int64]  # (R,) load of what is allocated to a replica, its share of each node
    cost_s: npt.NDArray[np.float64]  # (R,) scratch


def new_prompt_tree(view: ClusterView, is_used: bool) -> PromptTree:
    """An empty tree; of no size where no policy uses it."""
    replicas, nodes, requests = (len(view.load), len(view.parent), len(view.requests)) if is_used else (0, 0, 0)
    parts = nodes + requests
    return PromptTree(
        continued_by=np.full(parts, UNKNOWN, np.int32),
        owners=np.zeros((parts, (len(view.load) + 63) // 64), np.uint64),
        load_tokens=np.zeros(parts, np.int64),
        seen=np.zeros(parts, np.int64),
        hits=np.zeros(requests, HIT).view(np.recarray),
        state=np.zeros(1, STATE).view(np.recarray),
        replica_tokens=np.zeros(replicas, np.int64),
        cost_s=np.zeros(replicas, np.float64),
    )


@inlined
def parts_of(view, i):  # type: ignore[no-untyped-def]
    """(how many parts request i's prompt has, blocks of the last, which is its own, or 0 where that is shared too)."""
    own = prompt_blocks(view, i)
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        own -= view.node_blocks[view.path[k]]
    return view.requests[i].runs_stop - view.requests[i].runs_start + (own > 0), own


@inlined
def part_at(view, i, depth):  # type: ignore[no-untyped-def]
    """The part of request i's prompt at a depth."""
    k = view.requests[i].runs_start + depth
    return np.int64(view.path[k]) if k < view.requests[i].runs_stop else len(view.parent) + i


@inlined
def part_above(view, part):  # type: ignore[no-untyped-def]
    """The part before another in the prompts that have it; -1 at the top."""
    own = part - len(view.parent)
    if own < 0:
        return np.int64(view.parent[part])
    request = view.requests[own]
    return np.int64(view.path[request.runs_stop - 1]) if request.runs_stop > request.runs_start else -1


@inlined
def insert_prompt(view, tree, i, count):  # type: ignore[no-untyped-def]
    """Request i's prompt comes into the tree: a radix node it leaves in the middle is split, its new parts form one."""
    known = np.int64(0)
    while known < count and tree.continued_by[part_at(view, i, known)] != UNKNOWN:
        known += 1
    if known > 0:
        tree.continued_by[part_at(view, i, known - 1)] = ENDS
    for depth in range(known, count):
        tree.continued_by[part_at(view, i, depth)] = part_at(view, i, depth + 1) if depth + 1 < count else ENDS


@inlined
def share_of(tree, part):  # type: ignore[no-untyped-def]
    """What of the load of a node falls on each of its replicas, in whole tokens, so that sums are exact."""
    count = 0
    for word in range(tree.owners.shape[1]):
        bits = tree.owners[part, word]
        while bits != NONE:
            count += 1
            bits &= bits - ONE
    return tree.load_tokens[part] // max(count, 1)


@inlined
def share_load(tree, part, sign):  # type: ignore[no-untyped-def]
    """The load of a node falls on its replicas (sign 1), or no longer does (-1)."""
    if tree.load_tokens[part] == 0:
        return
    share = sign * share_of(tree, part)
    for word in range(tree.owners.shape[1]):
        bits = tree.owners[part, word]
        r = 64 * word
        while bits != NONE:
            if bits & ONE != NONE:
                tree.replica_tokens[r] += share
            bits >>= ONE
            r += 1


@inlined
def allocate(tree, part, r):  # type: ignore[no-untyped-def]
    """A part is allocated to replica r too."""
    if not has(tree.owners[part], r):
        share_load(tree, part, np.int64(-1))
        tree.owners[part, r >> 6] |= bit(r)
        share_load(tree, part, np.int64(1))


@inlined
def move_node(view, tree, part, taker, giver):  # type: ignore[no-untyped-def]
    """A radix node, by its last part, is allocated to `taker`, and no longer to `giver` (-1 = to nobody less)."""
    share_load(tree, part, np.int64(-1))
    above = part
    below = -1
    while above >= 0 and (below < 0 or tree.continued_by[above] == below):
        tree.owners[above, taker >> 6] |= bit(taker)
        if giver >= 0:
            tree.owners[above, giver >> 6] &= ~bit(giver)
        below = above
        above = part_above(view, above)
    share_load(tree, part, np.int64(1))


@inlined
def change_load(tree, part, tokens):  # type: ignore[no-untyped-def]
    """The load of a node grows by so many tokens."""
    share_load(tree, part, np.int64(-1))
    tree.load_tokens[part] += tokens
    share_load(tree, part, np.int64(1))


@inlined
def add_hit(tree, i, part, tokens):  # type: ignore[no-untyped-def]
    """Request i has hit a long node, for so many tokens of load."""
    hit = tree.hits[tree.state[0].stop]
    tree.state[0].stop += 1
    hit.request = i
    hit.part = part
    hit.load_tokens = tokens
    change_load(tree, part, tokens)


@inlined
def forget_hits(view, tree, since_s):  # type: ignore[no-untyped-def]
    """Hits of requests that arrived before `since_s` no longer count."""
    state = tree.state[0]
    while state.first < state.stop and view.requests[tree.hits[state.first].request].arrival_s < since_s:
        hit = tree.hits[state.first]
        change_load(tree, np.int64(hit.part), -hit.load_tokens)
        state.first += 1
