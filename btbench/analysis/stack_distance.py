"""How large a cache must be: LRU hit rates of every size from one pass, by stack distances.

A cache holds prefix blocks. A request looks its prompt up, then touches its blocks in prompt order, as a replica of
the cluster model does; blocks of its private tail take room too and are never found again. A touched block is still
there in a cache of C blocks where its *stack distance*, the number of different blocks touched since, itself
included, is at most C (Mattson et al., 1970).

All blocks that one request finds where one earlier request left them have the same distance: of what that request
touched last nothing but these blocks and those behind them is left, and the blocks in front of each have been touched
again by the request at hand. So weights need a place per request, not per block, in a tree of partial sums (Fenwick).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.analysis.prefixes import PrefixTree
from btbench.jit import kernel
from btbench.trace import Trace

_STEPS_PER_DOUBLING = 32


class ReuseDistances(NamedTuple):
    """Hits of an LRU cache at C ascending sizes, and the gaps of S stretches of reused blocks."""

    sizes_blocks: npt.NDArray[np.int64]  # (C,)
    hit_blocks: npt.NDArray[np.int64]  # (C,) that a cache of this size finds
    hit_tokens: npt.NDArray[np.int64]  # (C,)
    gap_s: npt.NDArray[np.float64]  # (S,) since the blocks were last touched
    gap_blocks: npt.NDArray[np.int64]  # (S,) how many blocks


@kernel
def _sum_below(sums, place):  # type: ignore[no-untyped-def]
    total = 0
    while place > 0:
        total += sums[place]
        place -= place & -place
    return total


@kernel
def _add(sums, place, weight):  # type: ignore[no-untyped-def]
    place += 1
    while place < len(sums):
        sums[place] += weight
        place += place & -place


@kernel
def _measure(offsets, path, end_blocks, room_blocks, arrival_s, input_tokens, block_tokens, sizes):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    sums = np.zeros(n + 1, np.int64)  # by request: blocks that it was the last to touch
    last = np.full(len(end_blocks), -1, np.int32)  # by node: the last request to touch it
    hit_blocks = np.zeros(len(sizes) + 1, np.int64)
    hit_tokens = np.zeros(len(sizes) + 1, np.int64)
    gap_s = np.empty(len(path), np.float64)
    gap_blocks = np.empty(len(path), np.int64)
    stretches = 0
    touched = 0  # different blocks so far
    for i in range(n):
        k = offsets[i]
        found = 0
        while k < offsets[i + 1] and last[path[k]] >= 0:
            toucher = last[path[k]]
            before = found
            while k < offsets[i + 1] and last[path[k]] == toucher:
                found = np.int64(end_blocks[path[k]])
                last[path[k]] = i
                k += 1
            size = np.searchsorted(sizes, touched - _sum_below(sums, toucher))
            hit_blocks[size] += found - before
            hit_tokens[size] += min(found * block_tokens, input_tokens[i]) - min(before * block_tokens, input_tokens[i])
            gap_s[stretches] = arrival_s[i] - arrival_s[toucher]
            gap_blocks[stretches] = found - before
            stretches += 1
            _add(sums, toucher, before - found)
        for new in range(k, offsets[i + 1]):
            last[path[new]] = i
        touched += room_blocks[i] - found
        _add(sums, i, room_blocks[i])
    return (
        np.cumsum(hit_blocks)[:-1],
        np.cumsum(hit_tokens)[:-1],
        gap_s[:stretches].copy(),
        gap_blocks[:stretches].copy(),
    )


def size_steps(largest: int) -> npt.NDArray[np.int64]:
    """Cache sizes from 1 to at least `largest` blocks, 32 to a doubling: no two more than 2.2 % apart beyond 32."""
    octaves = np.arange(_STEPS_PER_DOUBLING * max(1, int(largest).bit_length()) + 1)
    return np.unique(np.ceil(2.0 ** (octaves / _STEPS_PER_DOUBLING)).astype(np.int64))


def reuse_distances(
    trace: Trace, tree: PrefixTree, room_blocks: npt.NDArray[np.int64], sizes_blocks: npt.NDArray[np.int64]
) -> ReuseDistances:
    """Hits at ascending cache sizes. `room_blocks` (N,) is the room each request takes: its prompt blocks or more."""
    facts = (room_blocks, trace.arrival_s, trace.input_tokens, trace.block_tokens, sizes_blocks)
    return ReuseDistances(sizes_blocks, *_measure(tree.offsets, tree.path, tree.end_blocks, *facts))
