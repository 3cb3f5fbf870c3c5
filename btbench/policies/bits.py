"""Sets of replicas as bits of 64-bit words: replica r is bit r % 64 of word r // 64."""

import numpy as np

from btbench.jit import inlined

ONE = np.uint64(1)
NONE = np.uint64(0)


@inlined
def bit(r):  # type: ignore[no-untyped-def]
    """The bit of replica r in its word."""
    return ONE << np.uint64(r & 63)


@inlined
def has(words, r):  # type: ignore[no-untyped-def]
    """Whether replica r is in the set."""
    return words[r >> 6] & bit(r) != NONE
