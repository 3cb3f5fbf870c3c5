"""Runs: maximal chains of prefix blocks that every request has whole and contiguous, or not at all.

Replicas, caches and audits never need to look inside a run, so a request of 257 blocks becomes one or two
numbers. The same join serves twice: over the blocks of a whole trace as it is read, and again over the
runs of one window, where fewer requests branch and so longer chains hold.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import kernel, read_only

_UNSEEN = -1
_EDGE = -2  # the start or the end of a request
_MANY = -3  # more than one different neighbour


class Packed(NamedTuple):
    """Requests as sequences of runs (N requests, R runs that more than one place refers to)."""

    offsets: npt.NDArray[np.int64]  # (N + 1,) request i has runs[offsets[i]:offsets[i + 1]]
    runs: npt.NDArray[np.int32]  # run ids in prompt order, dense from 0 in order of first appearance
    run_blocks: npt.NDArray[np.int32]  # (R,) length of each run in blocks
    tail_blocks: npt.NDArray[np.int32]  # (N,) prompt blocks behind the last run, which no other place refers to


@kernel
def _neighbours(symbols, offsets, symbol_count):  # type: ignore[no-untyped-def]
    """The only symbol before and after each symbol, or `_EDGE` or `_MANY`, and how often (0, 1, 2 = more) it occurs."""
    before = np.full(symbol_count, _UNSEEN, np.int32)
    after = np.full(symbol_count, _UNSEEN, np.int32)
    occurs = np.zeros(symbol_count, np.int8)
    for i in range(len(offsets) - 1):
        previous = _EDGE
        for k in range(offsets[i], offsets[i + 1]):
            symbol = symbols[k]
            if occurs[symbol] < 2:
                occurs[symbol] += 1
            if before[symbol] == _UNSEEN:
                before[symbol] = previous
            elif before[symbol] != previous:
                before[symbol] = _MANY
            if previous >= 0:
                if after[previous] == _UNSEEN:
                    after[previous] = symbol
                elif after[previous] != symbol:
                    after[previous] = _MANY
            previous = symbol
        if previous >= 0:
            if after[previous] == _UNSEEN:
                after[previous] = _EDGE
            elif after[previous] != _EDGE:
                after[previous] = _MANY
    return before, after, occurs


@kernel
def _emit_runs(symbols, offsets, symbol_blocks, tails, cut_after, before, after, occurs):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    run_of = np.full(len(symbol_blocks), -1, np.int32)  # of the first symbol of each run
    run_blocks = np.zeros(len(symbol_blocks), np.int32)
    runs = np.empty(len(symbols), np.int32)
    run_offsets = np.zeros(n + 1, np.int64)
    tail_blocks = np.empty(n, np.int32)
    count = 0
    filled = 0
    for i in range(n):
        stop = offsets[i + 1]
        tail = np.int64(tails[i])
        while stop > offsets[i] and occurs[symbols[stop - 1]] == 1:
            stop -= 1
            tail += symbol_blocks[symbols[stop]]
        tail_blocks[i] = tail
        growing = False  # whether the run at hand is met for the first time, so that its length is being summed
        for k in range(offsets[i], stop):
            symbol = symbols[k]
            previous = before[symbol]
            if previous >= 0 and after[previous] == symbol and not cut_after[previous]:
                if growing:
                    run_blocks[count - 1] += symbol_blocks[symbol]
                continue
            growing = run_of[symbol] < 0
            if growing:
                run_of[symbol] = count
                run_blocks[count] = symbol_blocks[symbol]
                count += 1
            runs[filled] = run_of[symbol]
            filled += 1
        run_offsets[i + 1] = filled
    return run_offsets, runs[:filled].copy(), run_blocks[:count].copy(), tail_blocks


def join_runs(
    symbols: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    symbol_blocks: npt.NDArray[np.int32],
    tails: npt.NDArray[np.int32],
    cut_after: npt.NDArray[np.bool_] | None = None,
) -> Packed:
    """Join symbols (blocks, or runs of a finer cut) into maximal runs.

    `symbols` (S,) are dense ids below K = len(symbol_blocks), request i has symbols[offsets[i]:offsets[i + 1]],
    followed by `tails[i]` blocks of its own. Two neighbours join where each is the other's only neighbour in
    every request; never across the end of a request, nor behind a symbol of `cut_after` (K,).
    """
    if cut_after is None:
        cut_after = np.zeros(len(symbol_blocks), np.bool_)
    symbols, offsets, symbol_blocks = read_only(symbols), read_only(offsets), read_only(symbol_blocks)
    tails, cut_after = read_only(tails), read_only(cut_after)
    before, after, occurs = _neighbours(symbols, offsets, len(symbol_blocks))
    return Packed(*_emit_runs(symbols, offsets, symbol_blocks, tails, cut_after, before, after, occurs))
