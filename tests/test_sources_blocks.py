"""Numbers, paths and runs of block ids against what is obvious: equal ids have equal numbers, and nothing is lost."""

from itertools import pairwise

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trace_files import numbered

from btbench.runs import Packed, join_chunks, join_runs
from btbench.sources import block_ids
from btbench.sources.block_ids import BlockIds, Paths, take_rows, walk
from btbench.trace import Trace

rows = st.lists(st.lists(st.integers(0, 6), max_size=7), max_size=7)  # repeats in a row, empty rows, one id anywhere
batches = st.lists(rows, min_size=1, max_size=3)


def taken(scope: str, parts: list[list[list[int]]], sessions: list[int] | None = None) -> Paths:
    ids, at = BlockIds(scope), 0
    for part in parts:
        own = np.array(sessions[at : at + len(part)] if sessions else [0] * len(part), np.int32)
        assert ids.add_json([msgspec.json.encode(row) for row in part], own)
        at += len(part)
    return ids.finish()


def walked(paths: Paths) -> list[list[int]]:
    found = []
    for ids, offsets in walk(paths):
        found += [ids[a:b].tolist() for a, b in pairwise(offsets)]
    return found


@given(batches)
def test_ids_of_whole_prefixes_are_numbered_as_they_appear(parts) -> None:
    assert walked(taken("prefix", parts)) == numbered([row for part in parts for row in part])


@given(batches)
def test_ids_of_single_blocks_are_numbered_with_all_before_them(parts) -> None:
    prefixes = [[tuple(row[: k + 1]) for k in range(len(row))] for part in parts for row in part]
    paths = taken("block", parts)
    assert walked(paths) == numbered(prefixes)
    assert (paths.counts <= 1).all()


@given(batches, st.data())
def test_ids_of_sessions_are_numbered_within_them(parts, data) -> None:
    flat = [row for part in parts for row in part]
    sessions = data.draw(st.lists(st.integers(0, 2), min_size=len(flat), max_size=len(flat)))
    expected = numbered([[(s, x) for x in row] for s, row in zip(sessions, flat, strict=True)])
    assert walked(taken("session", parts, sessions)) == expected


@given(batches, st.randoms(use_true_random=False))
def test_rows_keep_their_ids_in_another_order(parts, random) -> None:
    paths = taken("prefix", parts)
    order = list(range(len(paths.counts)))
    random.shuffle(order)
    before = walked(paths)
    assert walked(take_rows(paths, np.array(order, np.int64))) == [before[i] for i in order]


@given(batches)
def test_a_walk_in_small_steps_is_the_same_walk(parts) -> None:
    paths = taken("prefix", parts)
    whole = walked(paths)
    block_ids.CHUNK_IDS, kept = 3, block_ids.CHUNK_IDS
    try:
        assert walked(paths) == whole
    finally:
        block_ids.CHUNK_IDS = kept


def joined(rows: list[list[int]], cut: int | None = None) -> tuple[Packed, list[list[int]]]:
    rows = numbered(rows)
    symbols = np.array([x for row in rows for x in row], np.int32)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    blocks, tails = np.ones(len(set(symbols.tolist())), np.int32), np.zeros(len(rows), np.int32)
    if cut is None:
        return join_runs(symbols, offsets, blocks, tails), rows
    cut = min(cut, len(rows))
    chunks = [(symbols[: offsets[cut]], offsets[: cut + 1]), (symbols[offsets[cut] :], offsets[cut:] - offsets[cut])]
    return join_chunks(lambda: chunks, len(blocks), np.ones(1, np.int32), tails), rows


@given(rows)
def test_runs_spell_the_blocks_they_were_made_of(rows) -> None:
    packed, rows = joined(rows)
    spelled: dict[int, list[int]] = {}
    flat = [x for row in rows for x in row]
    for i, row in enumerate(rows):
        at = 0
        for run in packed.runs[packed.offsets[i] : packed.offsets[i + 1]].tolist():
            blocks = row[at : at + packed.run_blocks[run]]
            assert len(blocks) == packed.run_blocks[run]
            assert spelled.setdefault(run, blocks) == blocks
            at += len(blocks)
        assert len(row) - at == packed.tail_blocks[i]
        assert all(flat.count(block) == 1 for block in row[at:])
    assert sorted(x for run in spelled.values() for x in run) == sorted({x for run in spelled.values() for x in run})


@given(rows)
def test_runs_are_as_long_as_they_can_be(rows) -> None:
    packed, rows = joined(rows)
    neighbours: dict[int, set[object]] = {}
    for i in range(len(rows)):
        runs = packed.runs[packed.offsets[i] : packed.offsets[i + 1]].tolist()
        ends = ["tail" if packed.tail_blocks[i] else "end"]
        for k, run in enumerate(runs):
            neighbours.setdefault(run, set()).add((runs[k - 1] if k else "start", (runs + ends)[k + 1]))
    for run, around in neighbours.items():
        after = {b for _, b in around}
        if len(after) == 1 and isinstance(following := after.pop(), int) and following != run:
            assert {a for a, _ in neighbours[following]} != {run}  # else the two would be one


@given(rows, st.integers(0, 7))
def test_runs_do_not_depend_on_how_many_requests_come_at_once(rows, cut: int) -> None:
    for whole, parts in zip(joined(rows)[0], joined(rows, cut)[0], strict=True):
        np.testing.assert_array_equal(whole, parts)


def test_prompt_blocks_of_more_requests_than_are_counted_at_once() -> None:
    draws = np.random.default_rng(1)
    counts = draws.integers(0, 3, 140_000)
    run_blocks = draws.integers(1, 9, 50).astype(np.int32)
    runs = draws.integers(0, 50, counts.sum()).astype(np.int32)
    tails = draws.integers(0, 4, len(counts)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    zeros = np.zeros(len(counts))
    trace = Trace("t", 1, zeros, zeros, zeros, offsets, runs, run_blocks, tails, ())
    owner = np.repeat(np.arange(len(counts)), counts)
    expected = np.bincount(owner, run_blocks[runs], len(counts)).astype(np.int64) + tails
    np.testing.assert_array_equal(trace.prompt_blocks(), expected)
