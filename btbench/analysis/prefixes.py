"""Which prompts begin alike: a tree of prefixes over the runs of a trace.

A node is a parent and a run behind it, so two requests pass through the same node exactly where all their
blocks up to its end are equal, whatever the block ids mean by themselves. Every trace window has a root
of its own: a burst or a reused prefix never spans two windows.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import kernel
from btbench.trace import Trace

_FIRST_SLOTS = 1 << 12
_MIX_NODE, _MIX = 0x9E3779B1, 0x2545F4914F6CDD1D  # odd multipliers, to scatter neighbouring numbers
_LOW_BITS = (1 << 62) - 1


class PrefixTree(NamedTuple):
    """Prefixes of N requests as K nodes, numbered in order of first appearance."""

    offsets: npt.NDArray[np.int64]  # (N + 1,) request i passes path[offsets[i]:offsets[i + 1]]
    path: npt.NDArray[np.int32]  # nodes in prompt order
    parent: npt.NDArray[np.int32]  # (K,) -1 - root where the prompt begins
    end_blocks: npt.NDArray[np.int32]  # (K,) depth of its last block
    requests: npt.NDArray[np.int32]  # (K,) how many pass through
    first_request: npt.NDArray[np.int32]  # (K,)
    matched_blocks: npt.NDArray[np.int32]  # (N,) longest prefix an earlier request of the same root had
    prompt_blocks: npt.NDArray[np.int64]  # (N,) blocks of the whole prompt

    def start_blocks(self) -> npt.NDArray[np.int32]:
        """(K,) depth at which each node begins: where its parent ends."""
        starts = np.zeros_like(self.end_blocks)
        inner = self.parent >= 0
        starts[inner] = self.end_blocks[self.parent[inner]]
        return starts


@kernel
def _slot_of(node, run, mask):  # type: ignore[no-untyped-def]
    mixed = ((int(node) * _MIX_NODE + int(run)) * _MIX) & _LOW_BITS
    return (mixed ^ (mixed >> 31)) & mask


@kernel
def _wider(slots, parent, run_of, count):  # type: ignore[no-untyped-def]
    """The same hash table with twice the slots."""
    mask = 2 * len(slots) - 1
    wide = np.zeros(mask + 1, np.int32)
    for node in range(count):
        slot = _slot_of(parent[node], run_of[node], mask)
        while wide[slot] != 0:
            slot = (slot + 1) & mask
        wide[slot] = node + 1
    return wide


@kernel
def _grow(offsets, runs, run_blocks, tail_blocks, roots):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    path = np.empty(len(runs), np.int32)
    parent = np.empty(len(runs), np.int32)
    run_of = np.empty(len(runs), np.int32)
    end_blocks = np.empty(len(runs), np.int32)
    requests = np.empty(len(runs), np.int32)
    first_request = np.empty(len(runs), np.int32)
    matched_blocks = np.zeros(n, np.int32)
    prompt_blocks = np.empty(n, np.int64)
    slots = np.zeros(_FIRST_SLOTS, np.int32)  # open addressing; holds node + 1, 0 is free
    count = 0
    for i in range(n):
        at = -1 - int(roots[i])
        depth = 0
        for k in range(offsets[i], offsets[i + 1]):
            run = runs[k]
            slot = _slot_of(at, run, len(slots) - 1)
            while slots[slot] != 0 and (parent[slots[slot] - 1] != at or run_of[slots[slot] - 1] != run):
                slot = (slot + 1) & (len(slots) - 1)
            node = slots[slot] - 1
            depth += run_blocks[run]
            if node < 0:
                node = count
                slots[slot] = node + 1
                parent[node] = at
                run_of[node] = run
                end_blocks[node] = depth
                requests[node] = 0
                first_request[node] = i
                count += 1
                if 2 * count > len(slots):
                    slots = _wider(slots, parent, run_of, count)
            else:
                matched_blocks[i] = depth
            requests[node] += 1
            path[k] = node
            at = node
        prompt_blocks[i] = depth + tail_blocks[i]
    return (
        path,
        parent[:count].copy(),
        end_blocks[:count].copy(),
        requests[:count].copy(),
        first_request[:count].copy(),
        matched_blocks,
        prompt_blocks,
    )


def window_numbers(trace: Trace) -> npt.NDArray[np.int32]:
    """(N,) the position of each request's window in `trace.windows`."""
    sizes = [window.stop - window.start for window in trace.windows]
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def prefix_tree(trace: Trace, roots: npt.NDArray[np.int32]) -> PrefixTree:
    """The prefixes of a trace; requests with different `roots` (N,), all at least 0, share nothing."""
    grown = _grow(trace.run_offsets, trace.runs, trace.run_blocks, trace.tail_blocks, roots)
    return PrefixTree(trace.run_offsets, *grown)
