"""Requests grouped by their first d blocks, each group in time order."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.analysis.prefixes import PrefixTree
from btbench.jit import kernel
from btbench.trace import Trace


class Groups(NamedTuple):
    """Groups at one depth, in order of first appearance. G groups have two requests or more, M requests in all."""

    node: npt.NDArray[np.int32]  # (G,) where in the prefix tree the depth falls
    bounds: npt.NDArray[np.int64]  # (G + 1,) group g has members[bounds[g]:bounds[g + 1]]
    members: npt.NDArray[np.int32]  # (M,) requests by arrival, those of one instant by input length
    singles: int  # groups of one request

    def __len__(self) -> int:
        return len(self.node) + self.singles


@kernel
def find_depth(depth, request, offsets, path, end_blocks):  # type: ignore[no-untyped-def]
    """Where in `path` the first node of a request ends at `depth` or deeper; offsets[request + 1] where none does."""
    low, high = offsets[request], offsets[request + 1]
    while low < high:
        middle = (low + high) // 2
        if end_blocks[path[middle]] < depth:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _fill(depth, by_time, offsets, path, end_blocks, next_place, members):  # type: ignore[no-untyped-def]
    """Put each request whose node at this depth is wanted (next_place at least 0) where it belongs."""
    for i in by_time:
        k = find_depth(depth, i, offsets, path, end_blocks)
        if k < offsets[i + 1]:
            node = path[k]
            if next_place[node] >= 0:
                members[next_place[node]] = i
                next_place[node] += 1


def order_by_time(trace: Trace, window_of: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """(N,) requests by window, arrival, input length: trace order but for the ties in time."""
    order = np.arange(len(trace), dtype=np.int32)
    same = (np.diff(trace.arrival_s) == 0) & (np.diff(window_of) == 0)
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    keys = (trace.input_tokens[tied], trace.arrival_s[tied], window_of[tied])
    order[tied] = tied[np.lexsort(keys)]
    return order


def group_by_depth(
    tree: PrefixTree,
    by_time: npt.NDArray[np.int32],
    depth: int,
    left_out: npt.NDArray[np.bool_] | None = None,
) -> Groups:
    """Group the requests with at least `depth` blocks (1 or more) by their first `depth` blocks.

    A depth inside a request's private tail makes a group of one. Groups at nodes of `left_out` (K,) are left out.
    """
    here = (tree.start_blocks() < depth) & (tree.end_blocks >= depth)
    in_nodes = int(tree.requests[here].sum())
    singles = int((tree.prompt_blocks >= depth).sum()) - in_nodes + int((tree.requests[here] == 1).sum())
    if left_out is not None:
        here &= ~left_out
    node = np.flatnonzero(here & (tree.requests > 1)).astype(np.int32)
    bounds = np.concatenate([[0], np.cumsum(tree.requests[node], dtype=np.int64)])
    next_place = np.full(len(tree.parent), -1, np.int64)
    next_place[node] = bounds[:-1]
    members = np.empty(bounds[-1], np.int32)
    _fill(depth, by_time, tree.offsets, tree.path, tree.end_blocks, next_place, members)
    return Groups(node, bounds, members, singles)
