"""`llm_d`: the highest weighted score of queue, KV cache and prefix (llm-d's endpoint picker, defaults of its chart).

Scores in [0, 1], random among equals:

- queue = (most waiting - waiting) / (most - fewest), 1 where all are equal; a request waits until its prefill starts
- kv = 1 - tokens of context of what runs / KV token budget
- prefix = leading blocks of the prompt that the router has sent there before / blocks of the prompt. Its own table
  says so: the latest `table_blocks` blocks it sent to each replica (least recently used go first, and of a prompt its
  beginning), whatever became of them in the cache.

Leaves out: blocks that running sequences share (kv counts each sequence whole), and the picker's cap on the blocks it
matches.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import inlined
from btbench.lru import append_newest, unlink
from btbench.pairs import dense_or_empty, find_pair
from btbench.policies.bits import bit
from btbench.policies.line import Line, join_line, leave_lines, new_line
from btbench.policies.matching import count_leading, prompt_blocks
from btbench.policies.picks import pick_least_loaded
from btbench.policies.view import ClusterView

STRETCH = np.dtype([("older", "i4"), ("newer", "i4"), ("kept", "i4")], align=True)  # blocks still in the table
TABLE = np.dtype([("oldest", "i4"), ("newest", "i4"), ("blocks", "i8")], align=True)


class Sent(NamedTuple):
    """What was sent to each of R replicas: stretches of blocks, M nodes of the prompt tree and N requests' own."""

    line: Line
    tables: npt.NDArray[np.void]  # (R,) TABLE
    masks: npt.NDArray[np.uint64]  # (M, W) replicas whose table has a node whole
    places: npt.NDArray[np.int64]  # node × R + replica to stretch
    stretches: npt.NDArray[np.void]  # STRETCH, the last N for the requests' own
    matched: npt.NDArray[np.int64]  # (R,) scratch
    lack: npt.NDArray[np.float64]  # (R,) scratch: minus the score


def new_sent(view: ClusterView, is_used: bool) -> Sent:
    """Empty tables; of no size where no policy uses them."""
    replicas, nodes, requests, entries = (
        (len(view.load), len(view.parent), len(view.requests), len(view.path)) if is_used else (0, 0, 0, 0)
    )
    places = dense_or_empty(max(1, nodes * replicas), entries)
    tables = np.zeros(replicas, TABLE)
    tables["oldest"] = tables["newest"] = -1
    return Sent(
        line=new_line(requests, replicas),
        tables=tables.view(np.recarray),
        masks=np.zeros((nodes, (len(view.load) + 63) // 64), np.uint64),
        places=places,
        stretches=np.zeros((len(places) or nodes * replicas) + requests, STRETCH).view(np.recarray),
        matched=np.zeros(replicas, np.int64),
        lack=np.zeros(replicas, np.float64),
    )


@inlined
def renew(sent, r, place, blocks):  # type: ignore[no-untyped-def]
    """A stretch becomes the most recently used of replica r's table, whole."""
    stretch = sent.stretches[place]
    if stretch.kept > 0:
        unlink(sent.stretches, sent.tables[r], place)
    sent.tables[r].blocks += blocks - stretch.kept
    stretch.kept = blocks
    append_newest(sent.stretches, sent.tables[r], place)


@inlined
def note_sent(view, sent, i, r, capacity):  # type: ignore[no-untyped-def]
    """Request i's prompt enters replica r's table; what is too much leaves it."""
    own = prompt_blocks(view, i)
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        node = view.path[k]
        own -= view.node_blocks[node]
        place, _ = find_pair(sent.places, np.int64(node) * len(sent.tables) + r)
        renew(sent, r, place, np.int64(view.node_blocks[node]))
        sent.masks[node, r >> 6] |= bit(r)
    first_own = len(sent.stretches) - len(view.requests)
    if own > 0:
        renew(sent, r, first_own + i, own)
    table = sent.tables[r]
    while table.blocks > capacity:
        place = table.oldest
        stretch = sent.stretches[place]
        if place < first_own:
            node = (place if len(sent.places) == 0 else sent.places[place]) // len(sent.tables)
            sent.masks[node, r >> 6] &= ~bit(r)
        gone = min(np.int64(stretch.kept), table.blocks - capacity)
        stretch.kept -= gone
        table.blocks -= gone
        if stretch.kept == 0:
            unlink(sent.stretches, table, place)


@inlined
def note_llm_d(i, r, sent):  # type: ignore[no-untyped-def]
    """Request i goes to replica r by another's decision: it waits there, but the table does not hear of it."""
    join_line(sent.line, i, r, np.int64(0))


@inlined
def route_llm_d(view, i, parameters, sent, candidates, draws):  # type: ignore[no-untyped-def]
    """The highest score."""
    request = view.requests[i]
    leave_lines(sent.line, view, min(request.arrival_s, view.seen_s[0]), False)
    count_leading(
        sent.masks, view.path, view.node_blocks, request.runs_start, request.runs_stop, candidates, sent.matched
    )
    most = sent.line.fronts[0].requests
    fewest = most
    for r in range(1, len(view.load)):
        most = max(most, sent.line.fronts[r].requests)
        fewest = min(fewest, sent.line.fronts[r].requests)
    size = prompt_blocks(view, i)
    for r in range(len(view.load)):
        queue = (most - sent.line.fronts[r].requests) / (most - fewest) if most > fewest else 1.0
        kv = 1.0 - view.replicas[r].context_tokens / view.replicas[r].token_budget
        prefix = sent.matched[r] / size
        score = parameters.queue_weight * queue + parameters.kv_weight * kv + parameters.prefix_weight * prefix
        sent.lack[r] = -score
    r = pick_least_loaded(sent.lack, draws)
    join_line(sent.line, i, r, np.int64(0))
    note_sent(view, sent, i, r, parameters.table_blocks)
    return r
