"""A table of integer pairs, packed into one number each, to consecutive or sparse places: plain open addressing.

Numba's typed dictionary would cost seconds of compile time; a replay needs neither growth nor removal.
"""

import numpy as np

from btbench.jit import inlined, kernel

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: neighbours land far apart


@kernel
def dense_or_empty(pairs, entries):  # type: ignore[no-untyped-def]
    """A table for at most `entries` different pairs, or of length 0 where pairs below `pairs` index directly.

    A length of 0 stands for the identity; it is chosen where the range of pairs is no larger than a table would be.
    """
    size = 16
    while size < 2 * entries:
        size *= 2
    if 0 < pairs <= 2 * size:
        size = 0
    return np.full(size, -1, np.int64)


@inlined
def find_pair(table, pair):  # type: ignore[no-untyped-def]
    """(place of the pair, whether it was added just now)."""
    if len(table) == 0:
        return pair, False
    mask = len(table) - 1
    place = np.int64((np.uint64(pair) * _SPREAD) >> np.uint64(32)) & mask
    while table[place] != pair:
        if table[place] < 0:
            table[place] = pair
            return place, True
        place = (place + 1) & mask
    return place, False


@inlined
def place_of(table, pair):  # type: ignore[no-untyped-def]
    """The place of a pair that is known to be there."""
    if len(table) == 0:
        return pair
    mask = len(table) - 1
    place = np.int64((np.uint64(pair) * _SPREAD) >> np.uint64(32)) & mask
    while table[place] != pair:
        place = (place + 1) & mask
    return place
