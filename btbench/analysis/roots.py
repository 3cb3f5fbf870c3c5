"""The prefix that every request of a window shares: a system prompt, which says nothing about bursts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from btbench.analysis.prepared import Prepared


@dataclass(frozen=True)
class RootPrefix:
    """The longest prefix that all requests with blocks of one trace window share."""

    prefix: str  # as in the list of bursts
    window: str
    blocks: int
    tokens: int
    requests: int


def root_nodes(prepared: Prepared) -> npt.NDArray[np.bool_]:
    """(K,) whether all requests with blocks of a node's window, two at least, pass through it."""
    with_blocks = np.bincount(prepared.window_of[prepared.blocks > 0], minlength=len(prepared.trace.windows))
    tree = prepared.tree
    return (tree.requests == with_blocks[prepared.window_of[tree.first_request]]) & (tree.requests > 1)


def common_root_blocks(roots: Sequence[RootPrefix], windows: int) -> int:
    """Blocks that every prompt of every one of so many windows begins with; 0 where a window has no root prefix.

    At these depths a window is one group, which says nothing about bursts.
    """
    return min((root.blocks for root in roots), default=0) if len(roots) == windows else 0


def find_roots(prepared: Prepared) -> list[RootPrefix]:
    """The shared prefix of each window that has one."""
    tree = prepared.tree
    deepest = {int(tree.first_request[node]): int(node) for node in np.flatnonzero(root_nodes(prepared))}
    roots = []
    for first, node in deepest.items():  # nodes ascend, so the deepest of a window stays
        blocks = int(tree.end_blocks[node])
        name = prepared.name_prefix(first, blocks)
        tokens = blocks * prepared.trace.block_tokens
        roots.append(RootPrefix(name.prefix, name.window, blocks, tokens, int(tree.requests[node])))
    return roots
