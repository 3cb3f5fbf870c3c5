"""Runs: maximal chains of prefix blocks that every request has whole and contiguous, or not at all.

Replicas, caches and audits never need to look inside a run, so a request of 257 blocks becomes one or two
numbers. The same join serves twice: over the blocks of a whole trace as it is read, and again over the
runs of one window, where fewer requests branch and so longer chains hold.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import kernel, read_only

_UNSEEN = -1
_EDGE = -2  # the start or the end of a request
_MANY = -3  # more than one different neighbour
_CONTINUES = -4  # the run of the symbol before


class Packed(NamedTuple):
    """Requests as sequences of runs (N requests, R runs that more than one place refers to)."""

    offsets: npt.NDArray[np.int64]  # (N + 1,) request i has runs[offsets[i]:offsets[i + 1]]
    runs: npt.NDArray[np.int32]  # run ids in prompt order, dense from 0 in order of first appearance
    run_blocks: npt.NDArray[np.int32]  # (R,) length of each run in blocks
    tail_blocks: npt.NDArray[np.int32]  # (N,) prompt blocks behind the last run, which no other place refers to


@kernel
def _note_neighbours(symbols, offsets, before, after, occurs):  # type: ignore[no-untyped-def]
    """Note the only symbol before and after each, or `_EDGE` or `_MANY`, and how often (0, 1, 2 = more) each occurs."""
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


@kernel
def _mark_runs(before, after, cut_after):  # type: ignore[no-untyped-def]
    """Turn `before` into what `_emit_runs` keeps: whether a symbol continues a run or opens one."""
    for symbol in range(len(before)):
        previous = before[symbol]
        joins = previous >= 0 and after[previous] == symbol and not cut_after[previous]
        before[symbol] = _CONTINUES if joins else _UNSEEN


@kernel
def _emit_runs(symbols, offsets, symbol_blocks, tails, occurs, run_of, run_blocks, count):  # type: ignore[no-untyped-def]
    """The runs of some requests, numbers of runs per request, and tails; `count` runs are known, and more after.

    `run_of` (K,) tells the run that a symbol opens, or `_UNSEEN` where it opens one not met yet, or `_CONTINUES`;
    `symbol_blocks` has K entries, or one for all.
    """
    n = len(offsets) - 1
    alike = len(symbol_blocks) == 1
    runs = np.empty(len(symbols), np.int32)
    run_counts = np.zeros(n, np.int64)
    tail_blocks = np.empty(n, np.int32)
    filled = 0
    for i in range(n):
        begin = filled
        stop = offsets[i + 1]
        tail = np.int64(tails[i])
        while stop > offsets[i] and occurs[symbols[stop - 1]] == 1:
            stop -= 1
            tail += symbol_blocks[0 if alike else symbols[stop]]
        tail_blocks[i] = tail
        growing = False  # whether the run at hand is met for the first time, so that its length is being summed
        for k in range(offsets[i], stop):
            symbol = symbols[k]
            blocks = symbol_blocks[0 if alike else symbol]
            run = run_of[symbol]
            if run == _CONTINUES:
                if growing:
                    run_blocks[count - 1] += blocks
                continue
            growing = run == _UNSEEN
            if growing:
                run = np.int32(count)
                run_of[symbol] = run
                run_blocks[run] = blocks
                count += 1
            runs[filled] = run
            filled += 1
        run_counts[i] = filled - begin
    return runs[:filled].copy(), run_counts, tail_blocks, count


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
    return join_chunks(lambda: [(symbols, offsets)], len(symbol_blocks), symbol_blocks, tails, cut_after)


Chunk = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]  # symbols and offsets of some requests


def join_chunks(
    chunks: Callable[[], Iterable[Chunk]],
    count: int,
    symbol_blocks: npt.NDArray[np.int32],
    tails: npt.NDArray[np.int32],
    cut_after: npt.NDArray[np.bool_] | None = None,
) -> Packed:
    """`join_runs` for requests that are too many to hold: `chunks` gives them some at a time, twice over.

    `count` is K, the number of symbols; `symbol_blocks` has one entry where all symbols are of the same length.
    """
    if cut_after is None:
        cut_after = np.zeros(count, np.bool_)
    symbol_blocks, tails, cut_after = read_only(symbol_blocks), read_only(tails), read_only(cut_after)
    before, after = np.full(count, _UNSEEN, np.int32), np.full(count, _UNSEEN, np.int32)
    occurs = np.zeros(count, np.int8)
    for symbols, offsets in chunks():
        _note_neighbours(read_only(symbols), read_only(offsets), before, after, occurs)
    _mark_runs(before, after, cut_after)
    run_of = before
    del before, after, cut_after
    run_blocks = np.zeros(count, np.int32)
    emitted, first, runs = [], 0, 0
    for symbols, offsets in chunks():
        own = tails[first : first + len(offsets) - 1]
        places = (read_only(symbols), read_only(offsets), symbol_blocks, own, occurs)
        *part, runs = _emit_runs(*places, run_of, run_blocks, runs)
        emitted.append(part)
        first += len(own)
    del symbol_blocks, occurs, run_of
    joined, counts, tail_blocks = (np.concatenate(column) for column in zip(*emitted, strict=True))
    return Packed(np.concatenate([[0], np.cumsum(counts)]), joined, run_blocks[:runs].copy(), tail_blocks)
