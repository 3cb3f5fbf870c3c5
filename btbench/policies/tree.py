"""A router's own tree of the prompts it has routed, and which replicas own which part of it.

Routers of the SGLang family keep a radix tree of text, fed by their own decisions alone: they never hear of real
evictions. Here its symbols are prefix blocks and its smallest parts the nodes of the trace's prompt tree
(`btbench.engine.workload`), which no request of the trace can tell apart further; what only one prompt has is a leaf of
its own. A *radix node* is a chain of parts that was inserted at once and has not been split since; its parts have the
same owners.

An *entry* is a part in the tree of one lane: a lane is a replica, or the whole router where it keeps one tree. Entries
of a lane are in least-recently-used order, with a prompt's deeper parts before its upper ones, so that the first is
always the end of a leaf.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import inlined
from btbench.lru import append_newest, unlink
from btbench.pairs import dense_or_empty, find_pair
from btbench.policies.bits import NONE, bit, has
from btbench.policies.view import ClusterView

PART = np.dtype(
    [
        ("lanes", "i4"),  # how many lanes hold it; 0 = not in the tree, and all else means nothing
        ("tokens", "i4"),  # of the prompt it was inserted with
        ("continued_by", "i4"),  # the part inserted with it at once, below it in the same radix node; -1 = it ends here
        ("remembered", "i4"),  # the owner remembered with it (sglang 0.3.2)
        ("children", "i4"),  # how many parts of the tree hang below it
        ("place", "i4"),  # its own among its parent's children
    ],
    align=True,
)
ENTRY = np.dtype([("older", "i4"), ("newer", "i4")], align=True)
LANE = np.dtype([("oldest", "i4"), ("newest", "i4"), ("tokens", "i8")], align=True)


class Tree(NamedTuple):
    """P parts that prompts can share and N of requests' own, L lanes, W words of replica bits."""

    parts: npt.NDArray[np.void]  # (P + N,) PART
    parent: npt.NDArray[np.int32]  # (P + N,) the part above each; -1 at the top
    children: npt.NDArray[np.int32]  # (P + N,) those of part p are children[first_child[p]:][:parts[p].children]
    first_child: npt.NDArray[np.int64]  # (P,)
    owners: npt.NDArray[np.uint64]  # (P + N, W) replicas that own a part
    table: npt.NDArray[np.int64]  # part × L + lane to entry, for the P shared ones
    entries: npt.NDArray[np.void]  # ENTRY, the last N for the requests' own
    lanes: npt.NDArray[np.void]  # (L,) LANE
    next_eviction_s: npt.NDArray[np.float64]  # (1,)


def new_tree(view: ClusterView, lanes: int) -> Tree:
    """An empty tree; of no size where there is no lane, as no policy uses it then."""
    shared, requests, entries = (len(view.parent), len(view.requests), len(view.path)) if lanes else (0, 0, 0)
    table = dense_or_empty(max(1, shared * lanes), entries)
    lane_records = np.zeros(lanes, LANE)
    lane_records["oldest"] = lane_records["newest"] = -1
    parent = np.full(shared + requests, -1, np.int32)
    if lanes:
        parent[:shared] = view.parent
        has_shared = view.requests["runs_stop"] > view.requests["runs_start"]
        parent[shared:][has_shared] = view.path[view.requests["runs_stop"][has_shared] - 1]
    below = np.bincount(parent + 1, minlength=shared + 1)  # how many parts can ever hang at the top, and below each
    return Tree(
        parts=np.zeros(shared + requests, PART).view(np.recarray),
        parent=parent,
        children=np.zeros(shared + requests, np.int32),
        first_child=np.cumsum(below)[:-1],
        owners=np.zeros((shared + requests, (len(view.load) + 63) // 64), np.uint64),
        table=table,
        entries=np.zeros((len(table) or shared * lanes) + requests, ENTRY).view(np.recarray),
        lanes=lane_records.view(np.recarray),
        next_eviction_s=np.zeros(1),
    )


@inlined
def walk(view, tree, i):  # type: ignore[no-untyped-def]
    """(the last part of request i's prompt that is in the tree or -1, tokens up to and with it)."""
    stop = -1
    blocks = 0
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        part = view.path[k]
        if tree.parts[part].lanes == 0:
            break
        stop = part
        blocks += view.node_blocks[part]
    return stop, min(blocks * view.costs.block_tokens, view.requests[i].input_tokens)


@inlined
def attach(tree, part, owner, tokens, goes_on):  # type: ignore[no-untyped-def]
    """A part comes into the tree, as the last child of its parent, whose radix node either goes on with it or ends."""
    new = tree.parts[part]
    new.tokens = tokens
    new.continued_by = -1
    new.remembered = owner
    new.children = 0
    above = tree.parent[part]
    if above >= 0:
        parent = tree.parts[above]
        parent.continued_by = part if goes_on else -1
        new.place = parent.children
        tree.children[tree.first_child[above] + new.place] = part
        parent.children += 1


@inlined
def detach(tree, part):  # type: ignore[no-untyped-def]
    """A part that nobody owns any more leaves the tree; the last of its siblings takes its place."""
    above = tree.parent[part]
    if above >= 0:
        first = tree.first_child[above]
        tree.parts[above].children -= 1
        last = tree.children[first + tree.parts[above].children]
        tree.children[first + tree.parts[part].place] = last
        tree.parts[last].place = tree.parts[part].place


@inlined
def entry_of(view, tree, part, lane):  # type: ignore[no-untyped-def]
    """Where the entry of a part in a lane is kept."""
    own = part - len(view.parent)
    if own >= 0:
        return len(tree.entries) - len(view.requests) + own
    place, _ = find_pair(tree.table, np.int64(part) * len(tree.lanes) + lane)
    return place


@inlined
def claim_part(view, tree, part, r, lane):  # type: ignore[no-untyped-def]
    """Replica r becomes an owner of a part, which becomes the most recently used of the lane."""
    entry = entry_of(view, tree, part, lane)
    if tree.parts[part].lanes > 0 and (len(tree.lanes) == 1 or has(tree.owners[part], r)):
        unlink(tree.entries, tree.lanes[lane], entry)
    else:
        tree.parts[part].lanes += 1
        tree.lanes[lane].tokens += tree.parts[part].tokens
    append_newest(tree.entries, tree.lanes[lane], entry)
    tree.owners[part, r >> 6] |= bit(r)


@inlined
def insert_prompt(view, tree, i, r, lane):  # type: ignore[no-untyped-def]
    """Request i's prompt enters the tree for replica r: it becomes an owner of every part on the path.

    Parts that are new form one radix node, of which r is the remembered owner; the radix node above it ends where the
    new one is attached, and a prompt that ends inside a radix node splits it there.
    """
    request = view.requests[i]
    own = len(view.parent) + i
    last = -1
    blocks = 0
    tokens = 0
    is_new = False
    for k in range(request.runs_start, request.runs_stop):
        last = view.path[k]
        blocks += view.node_blocks[last]
        before = tokens
        tokens = min(blocks * view.costs.block_tokens, request.input_tokens)
        if tree.parts[last].lanes == 0:
            attach(tree, last, r, tokens - before, is_new)
            is_new = True
    if blocks < request.prompt_blocks or tokens < request.input_tokens:
        attach(tree, own, r, request.input_tokens - tokens, is_new)
        claim_part(view, tree, own, r, lane)
    elif last >= 0 and not is_new:
        tree.parts[last].continued_by = -1
    for k in range(request.runs_stop - 1, request.runs_start - 1, -1):
        claim_part(view, tree, view.path[k], r, lane)


@inlined
def oldest_part(view, tree, lane):  # type: ignore[no-untyped-def]
    """The least recently used part of a lane that is not empty."""
    entry = tree.lanes[lane].oldest
    first_own = len(tree.entries) - len(view.requests)
    if entry >= first_own:
        return len(view.parent) + entry - first_own
    return (entry if len(tree.table) == 0 else tree.table[entry]) // len(tree.lanes)


@inlined
def evict_leaf(view, tree, lane):  # type: ignore[no-untyped-def]
    """The least recently used leaf, a radix node, leaves a lane that is not empty."""
    goes_on = True
    while goes_on:
        part = oldest_part(view, tree, lane)
        above = tree.parent[part]
        goes_on = above >= 0 and tree.parts[above].continued_by == part
        unlink(tree.entries, tree.lanes[lane], tree.lanes[lane].oldest)
        tree.lanes[lane].tokens -= tree.parts[part].tokens
        tree.parts[part].lanes -= 1
        if len(tree.lanes) == 1:
            for word in range(tree.owners.shape[1]):
                tree.owners[part, word] = NONE
        else:
            tree.owners[part, lane >> 6] &= ~bit(lane)
        if tree.parts[part].lanes == 0:
            detach(tree, part)
