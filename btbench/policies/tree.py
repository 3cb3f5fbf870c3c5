"""A router's own tree of the prompts it has routed, and which replicas own which part of it.

Routers of the SGLang family keep a radix tree of text, fed by their own decisions alone: they never hear of real
evictions. Here its symbols are prefix blocks and its smallest parts the nodes of the trace's prompt tree
(`btbench.engine.workload`), which no request of the trace can tell apart further; what only one prompt has is a leaf of
its own. A *radix node* is a chain of parts that was inserted at once and has not been split since.

An *entry* is a part in the tree of one lane: a lane is a replica, or the whole router where it keeps one tree. Entries
of a lane are in least-recently-used order, with a prompt's deeper parts before its upper ones, so that the first is
always a leaf.
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
        ("first_child", "i4"),  # parts attached to it that are in the tree; -1 = none
        ("next_sibling", "i4"),
        ("previous_sibling", "i4"),
        ("parent", "i4"),  # -1 at the top
        ("continued_by", "i4"),  # the part inserted with it at once, below it in the same radix node; -1 = it ends here
        ("remembered", "i4"),  # the owner remembered with it (sglang 0.3.2)
        ("lanes", "i4"),  # how many lanes hold it; 0 = not in the tree
    ],
    align=True,
)
ENTRY = np.dtype([("older", "i4"), ("newer", "i4")], align=True)
LANE = np.dtype([("oldest", "i4"), ("newest", "i4"), ("tokens", "i8")], align=True)


class Tree(NamedTuple):
    """P parts that prompts can share and N of requests' own, L lanes, W words of replica bits."""

    parts: npt.NDArray[np.void]  # (P + N,) PART
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
    return Tree(
        parts=np.zeros(shared + requests, PART).view(np.recarray),
        owners=np.zeros((shared + requests, (len(view.load) + 63) // 64), np.uint64),
        table=table,
        entries=np.zeros((len(table) or shared * lanes) + requests, ENTRY).view(np.recarray),
        lanes=lane_records.view(np.recarray),
        next_eviction_s=np.zeros(1),
    )


@inlined
def part_tokens(view, tree, part):  # type: ignore[no-untyped-def]
    """Tokens of a part: its blocks, or what of a prompt its shared blocks leave."""
    own = part - len(view.parent)
    if own < 0:
        return np.int64(view.node_blocks[part]) * view.costs.block_tokens
    return view.requests[own].input_tokens - shared_tokens(view, own)


@inlined
def shared_tokens(view, i):  # type: ignore[no-untyped-def]
    """Tokens of request i's prompt that other prompts can share."""
    blocks = 0
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        blocks += view.node_blocks[view.path[k]]
    return min(blocks * view.costs.block_tokens, view.requests[i].input_tokens)


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
def attach(tree, part, parent):  # type: ignore[no-untyped-def]
    """A part comes into the tree below its parent (-1 = at the top)."""
    new = tree.parts[part]
    new.first_child = -1
    new.previous_sibling = -1
    new.next_sibling = -1
    new.parent = parent
    new.continued_by = -1
    new.remembered = -1
    if parent >= 0:
        new.next_sibling = tree.parts[parent].first_child
        if new.next_sibling >= 0:
            tree.parts[new.next_sibling].previous_sibling = part
        tree.parts[parent].first_child = part


@inlined
def detach(tree, part):  # type: ignore[no-untyped-def]
    """A part that nobody owns any more leaves the tree."""
    old = tree.parts[part]
    if old.parent < 0:
        return
    parent = tree.parts[old.parent]
    if parent.continued_by == part:
        parent.continued_by = -1
    if old.previous_sibling >= 0:
        tree.parts[old.previous_sibling].next_sibling = old.next_sibling
    else:
        parent.first_child = old.next_sibling
    if old.next_sibling >= 0:
        tree.parts[old.next_sibling].previous_sibling = old.previous_sibling


@inlined
def entry_of(view, tree, part, lane):  # type: ignore[no-untyped-def]
    """Where the entry of a part in a lane is kept."""
    own = part - len(view.parent)
    if own >= 0:
        return len(tree.entries) - len(view.requests) + own
    place, _ = find_pair(tree.table, np.int64(part) * len(tree.lanes) + lane)
    return place


@inlined
def insert_part(view, tree, part, r, lane, is_held):  # type: ignore[no-untyped-def]
    """Replica r becomes an owner of a part, which becomes the most recently used of the lane."""
    entry = entry_of(view, tree, part, lane)
    if is_held:
        unlink(tree.entries, tree.lanes[lane], entry)
    else:
        tree.parts[part].lanes += 1
        tree.lanes[lane].tokens += part_tokens(view, tree, part)
    append_newest(tree.entries, tree.lanes[lane], entry)
    tree.owners[part, r >> 6] |= bit(r)


@inlined
def insert_prompt(view, tree, i, r, lane):  # type: ignore[no-untyped-def]
    """Request i's prompt enters the tree for replica r: it becomes an owner of every part on the path.

    Parts that are new form one radix node, of which r is the remembered owner; the radix node above it ends where the
    new one is attached, and a prompt that ends inside a radix node splits it there.
    """
    start = view.requests[i].runs_start
    stop = view.requests[i].runs_stop
    own = len(view.parent) + i
    has_own = part_tokens(view, tree, own) > 0
    above = -1
    is_new = False
    for k in range(start, stop + has_own):
        part = view.path[k] if k < stop else own
        if tree.parts[part].lanes == 0:
            attach(tree, part, above)
            tree.parts[part].remembered = r
            if is_new:
                tree.parts[above].continued_by = part
            elif above >= 0:
                tree.parts[above].continued_by = -1
            is_new = True
        above = part
    if not is_new and above >= 0:
        tree.parts[above].continued_by = -1
    if has_own:
        insert_part(view, tree, own, r, lane, False)
    one_tree = len(tree.lanes) == 1
    for k in range(stop - 1, start - 1, -1):
        part = view.path[k]
        is_held = tree.parts[part].lanes > 0 if one_tree else has(tree.owners[part], r)
        insert_part(view, tree, part, r, lane, is_held)


@inlined
def evict_oldest(view, tree, lane):  # type: ignore[no-untyped-def]
    """The least recently used leaf leaves a lane; nothing where the lane is empty."""
    entry = tree.lanes[lane].oldest
    first_own = len(tree.entries) - len(view.requests)
    if entry >= first_own:
        part = len(view.parent) + entry - first_own
    else:
        part = (entry if len(tree.table) == 0 else tree.table[entry]) // len(tree.lanes)
    unlink(tree.entries, tree.lanes[lane], entry)
    tree.lanes[lane].tokens -= part_tokens(view, tree, part)
    tree.parts[part].lanes -= 1
    if len(tree.lanes) == 1:
        for word in range(tree.owners.shape[1]):
            tree.owners[part, word] = NONE
    else:
        tree.owners[part, lane >> 6] &= ~bit(lane)
    if tree.parts[part].lanes == 0:
        detach(tree, part)
