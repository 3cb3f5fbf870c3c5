"""Workload: one window's requests as the kernels read them, with what follows from the arrivals alone worked out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.engine.floor import known_tokens
from btbench.engine.records import REQUEST, Records
from btbench.jit import kernel, read_only
from btbench.pairs import dense_or_empty, find_pair
from btbench.policies.parameters import BtbParameters
from btbench.runs import join_runs
from btbench.trace import Trace


class Workload(NamedTuple):
    """N requests over K runs. A run is shared by several places of the window; the rest of a prompt is its tail."""

    requests: Records  # (N,) REQUEST
    run_list: npt.NDArray[np.int32]  # the requests' runs, one request after the other
    run_blocks: npt.NDArray[np.int32]  # (K,)
    path: npt.NDArray[np.int32]  # of each entry of run_list, the node of the prompt tree it leads to
    parent: npt.NDArray[np.int32]  # (nodes,) -1 at the top
    node_blocks: npt.NDArray[np.int32]  # (nodes,) blocks of a node's last run
    known_tokens: npt.NDArray[np.int64]  # (N,) see `btbench.engine.floor`


@kernel
def _locate_prefix_ends(run_offsets, runs, run_blocks, prefix_blocks):  # type: ignore[no-untyped-def]
    """Per request: the run that holds block number `prefix_blocks`, and how many of its blocks lie before the cut.

    (-1, 0) where the request's shared runs are shorter.
    """
    n = len(run_offsets) - 1
    cut_run = np.full(n, -1, np.int64)
    cut_blocks = np.zeros(n, np.int64)
    for i in range(n):
        left = prefix_blocks
        for k in range(run_offsets[i], run_offsets[i + 1]):
            length = run_blocks[runs[k]]
            if left <= length:
                cut_run[i] = runs[k]
                cut_blocks[i] = left
                break
            left -= length
    return cut_run, cut_blocks


@kernel
def _name_paths(run_offsets, runs, run_blocks, prefix_blocks):  # type: ignore[no-untyped-def]
    """The tree of prompts: a node a path of runs from the start of a prompt, equal paths sharing it.

    Returns (node of each run of each request, parent of each node, -1 at the top, blocks of each node's last run, node
    of each request's first `prefix_blocks` blocks or -1, how many runs those are).
    """
    n = len(run_offsets) - 1
    path = np.empty(len(runs), np.int32)
    prefix = np.full(n, -1, np.int32)
    prefix_runs = np.zeros(n, np.int32)
    runs_in_all = len(run_blocks) + 1
    table = dense_or_empty(0, len(runs))
    node_of = np.zeros(len(table), np.int32)
    parent = np.empty(len(runs), np.int32)
    blocks = np.empty(len(runs), np.int32)
    nodes = 0
    for i in range(n):
        left = prefix_blocks
        node = -1
        for k in range(run_offsets[i], run_offsets[i + 1]):
            place, is_new = find_pair(table, np.int64(node + 1) * runs_in_all + runs[k])
            if is_new:
                node_of[place] = nodes
                parent[nodes] = node
                blocks[nodes] = run_blocks[runs[k]]
                nodes += 1
            node = node_of[place]
            path[k] = node
            left -= run_blocks[runs[k]]
            if left == 0:
                prefix[i] = node
                prefix_runs[i] = k + 1 - run_offsets[i]
    return path, parent[:nodes].copy(), blocks[:nodes].copy(), prefix, prefix_runs


@kernel
def _detect_bursts(arrival_s, prefix, prefixes, threshold, window_s):  # type: ignore[no-untyped-def]
    """Per request: whether `threshold` requests with its prefix, itself included, arrived within `window_s`."""
    n = len(arrival_s)
    burst = np.zeros(n, np.bool_)
    count = np.zeros(prefixes, np.int64)
    oldest = np.full(prefixes, -1, np.int64)
    newest = np.full(prefixes, -1, np.int64)
    following = np.full(n, -1, np.int64)
    for i in range(n):
        key = prefix[i]
        if key < 0:
            continue
        if newest[key] >= 0:
            following[newest[key]] = i
        newest[key] = i
        if oldest[key] < 0:
            oldest[key] = i
        count[key] += 1
        while arrival_s[oldest[key]] < arrival_s[i] - window_s:
            oldest[key] = following[oldest[key]]
            count[key] -= 1
        burst[i] = count[key] >= threshold
    return burst


def _cut_prefixes(
    trace: Trace, prefix_blocks: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """The trace's runs cut in pieces behind each request's first `prefix_blocks` blocks.

    Returns symbols, offsets, blocks of each symbol, and which symbols end a prefix. A run of an honest trace is cut at
    one place at most; one whose ids do not stand for whole prefixes may be cut at several.
    """
    used, runs = _dense_runs(trace)
    run_blocks = trace.run_blocks[used].astype(np.int64)
    cut_run, cut_blocks = _locate_prefix_ends(trace.run_offsets, read_only(runs), read_only(run_blocks), prefix_blocks)
    # a place in a run is one number, run × 2^32 + blocks before it, so that places sort by run, then by depth
    prefix_ends = np.unique((cut_run << 32 | cut_blocks)[cut_run >= 0])
    ends = np.union1d(prefix_ends, np.arange(len(run_blocks)) << 32 | run_blocks)
    run_of_end, end = ends >> 32, ends & 0xFFFFFFFF
    pieces = np.bincount(run_of_end, minlength=len(run_blocks))
    first_piece = np.cumsum(pieces) - pieces
    start = np.where(np.arange(len(end)) == first_piece[run_of_end], 0, np.roll(end, 1))

    per_place = pieces[runs]
    places = np.concatenate([[0], np.cumsum(per_place)])
    symbols = np.repeat(first_piece[runs] - places[:-1], per_place) + np.arange(places[-1])
    ends_prefix = np.isin(ends, prefix_ends, assume_unique=True)
    return symbols.astype(np.int32), places[trace.run_offsets], (end - start).astype(np.int32), ends_prefix


def _dense_runs(trace: Trace) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(the runs of the whole trace that this window holds, its list of runs as indices into them)."""
    if len(trace.run_blocks) <= 2 * len(trace.runs):
        return np.arange(len(trace.run_blocks), dtype=np.int32), trace.runs
    used, runs = np.unique(trace.runs, return_inverse=True)
    return used, runs.astype(np.int32)


def build_workload(trace: Trace, btb: BtbParameters) -> Workload:
    """One window ready for replay: runs joined for this window alone, prefixes named, bursts detected."""
    symbols, offsets, symbol_blocks, ends_prefix = _cut_prefixes(trace, btb.prefix_blocks)
    packed = join_runs(symbols, offsets, symbol_blocks, trace.tail_blocks, ends_prefix)
    path, parent, node_blocks, prefix, prefix_runs = _name_paths(
        packed.offsets, packed.runs, packed.run_blocks, btb.prefix_blocks
    )
    blocks = trace.prompt_blocks()
    needed = -((trace.input_tokens + trace.output_tokens) // -trace.block_tokens)  # rounded up
    requests = np.zeros(len(trace), REQUEST)
    requests["arrival_s"] = trace.arrival_s
    requests["input_tokens"] = trace.input_tokens
    requests["output_tokens"] = trace.output_tokens
    requests["cacheable_tokens"] = np.minimum(blocks * trace.block_tokens, trace.input_tokens)
    requests["runs_start"] = packed.offsets[:-1]
    requests["runs_stop"] = packed.offsets[1:]
    requests["own_blocks"] = packed.tail_blocks + np.maximum(0, needed - blocks)
    requests["prefix"] = prefix
    requests["prefix_runs"] = prefix_runs
    requests["prompt_blocks"] = blocks
    requests["burst"] = _detect_bursts(trace.arrival_s, prefix, len(parent), btb.threshold, float(btb.window_s))
    records = read_only(requests).view(np.recarray)
    runs, run_blocks = read_only(packed.runs), read_only(packed.run_blocks)
    known = known_tokens(records, runs, run_blocks, trace.block_tokens)
    return Workload(records, runs, run_blocks, *map(read_only, (path, parent, node_blocks, known)))
