"""Whose blocks are reused: prefixes that an earlier request of the same session, or user, had."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from btbench.analysis.prefixes import PrefixTree
from btbench.jit import kernel

_FIRST_SLOTS = 1 << 12
_MIX = 0x2545F4914F6CDD1D  # an odd multiplier, to scatter neighbouring numbers
_LOW_BITS = (1 << 62) - 1


@dataclass(frozen=True)
class Across:
    """Reuse by requests whose session (or user) is known. *Across*: blocks that no earlier request of their own had."""

    requests: int
    owners: int  # different sessions or users
    hit_blocks: int
    across_blocks: int
    across_share: float | None


@kernel
def _slot_of(keys, key):  # type: ignore[no-untyped-def]
    """Where a key is, or the free place (0) where it belongs."""
    mask = len(keys) - 1
    mixed = (int(key) * _MIX) & _LOW_BITS
    slot = (mixed ^ (mixed >> 31)) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _match_own(offsets, path, end_blocks, owner):  # type: ignore[no-untyped-def]
    """Blocks of the longest prefix that an earlier request of the same owner had; unknown owners (below 0) have none.

    An owner that had a node had all before it, so the deepest one is searched for by halves.
    """
    matched = np.zeros(len(owner), np.int32)
    keys = np.zeros(_FIRST_SLOTS, np.int64)  # open addressing; a key is a node and an owner
    count = 0
    for i in range(len(owner)):
        if owner[i] < 0:
            continue
        low, high = offsets[i], offsets[i + 1]
        while low < high:
            middle = (low + high) // 2
            key = ((int(path[middle]) + 1) << 32) | int(owner[i])
            if keys[_slot_of(keys, key)] != 0:
                low = middle + 1
            else:
                high = middle
        if low > offsets[i]:
            matched[i] = end_blocks[path[low - 1]]
        for k in range(low, offsets[i + 1]):
            key = ((int(path[k]) + 1) << 32) | int(owner[i])
            keys[_slot_of(keys, key)] = key
            count += 1
            if 2 * count > len(keys):
                wide = np.zeros(2 * len(keys), np.int64)
                for old in keys:
                    if old != 0:
                        wide[_slot_of(wide, old)] = old
                keys = wide
    return matched


def reuse_across(tree: PrefixTree, owner: npt.NDArray[np.int32] | None) -> Across | None:
    """How much of the reuse crosses owners (N,), below 0 where unknown; None where no owner is known."""
    if owner is None or not (known := owner >= 0).any():
        return None
    own = _match_own(tree.offsets, tree.path, tree.end_blocks, owner)
    hits, across = int(tree.matched_blocks[known].sum()), int((tree.matched_blocks - own)[known].sum())
    return Across(int(known.sum()), len(np.unique(owner[known])), hits, across, across / hits if hits else None)
