"""From rows to a packed trace: block ids become dense numbers, windows are put together, runs are joined."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.runs import join_runs
from btbench.sources.batches import Checked
from btbench.sources.formats import Format
from btbench.sources.oddities import Tally
from btbench.trace import Trace, Window


class Interner(dict[Any, int]):
    """Dense numbers from 0 for whatever is looked up, in order of first appearance."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class Whole(NamedTuple):
    """A whole source, packed: what the cache keeps."""

    trace: Trace
    row: npt.NDArray[np.int64]  # (N,) 1-based row number of each request in its source


class Packer:
    """Takes checked rows in file order, gives the packed trace."""

    def __init__(self, source: Format, tally: Tally) -> None:
        self.source = source
        self.tally = tally
        self.blocks = Interner()
        self.sessions = Interner()
        self.users = Interner()
        self.windows = Interner()
        self.labels: list[Any] = []  # of each window, from its first row
        self._symbols = array("i")
        self._block_counts = array("i")
        self._window = array("i")
        self._session = array("i")
        self._user = array("i")
        self._parts: list[Checked] = []

    def add(self, rows: Checked) -> None:
        """Take a batch of rows; their numbers go on from batch to batch."""
        count = len(rows.rows)
        columns = rows.columns
        self._add_blocks(columns.pop("blocks", None), rows)
        windows = columns.pop("window", None)
        labels = columns.pop("label", None)
        if windows is not None:
            self._window.extend(map(self.windows.__getitem__, windows))
            known = len(self.labels)
            if len(self.windows) > known:
                first = {w: i for i, w in reversed(list(enumerate(windows)))}
                names = list(self.windows)[known:]
                self.labels += [labels[first[name]] if labels is not None else None for name in names]
        for values, interner, into in (
            (columns.pop("session", None), self.sessions, self._session),
            (columns.pop("user", None), self.users, self._user),
        ):
            if values is None:
                into.extend([-1] * count)
            else:
                into.extend(-1 if v is None or v == "" else interner[v] for v in values)
        self._parts.append(rows)

    def _add_blocks(self, lists: Any, rows: Checked) -> None:
        count = len(rows.rows)
        if lists is None:
            self._block_counts.extend([0] * count)
            return
        if isinstance(lists, list):
            if None in lists:
                lists = [blocks or () for blocks in lists]
            self._block_counts.extend(map(len, lists))
            flat: Iterable[Any] = chain.from_iterable(lists)
        else:
            counts = np.asarray(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int32)
            self._block_counts.frombytes(counts.tobytes())
            flat = lists.flatten().to_pylist()
        self._symbols.extend(map(self.blocks.__getitem__, flat))

    def finish(self, name: str) -> Whole:
        """The packed trace: windows in order of first appearance, arrivals sorted within each."""
        row = _joined([p.rows for p in self._parts], np.int64)
        arrival_s = _joined([p.arrival_s for p in self._parts], np.float64)
        input_tokens = _joined([p.input_tokens for p in self._parts], np.int64)
        output_tokens = _joined([p.output_tokens for p in self._parts], np.int64)
        self._parts.clear()
        self.tally.add_where("input below 1", "raised to 1", input_tokens < 1, row)
        self.tally.add_where("output below 1", "raised to 1", output_tokens < 1, row)
        symbols = np.frombuffer(self._symbols, np.int32) if len(self._symbols) else np.zeros(0, np.int32)
        counts = np.frombuffer(self._block_counts, np.int32)
        symbol_count = len(self.blocks)
        if symbol_count:
            self.tally.add_where("null or empty hashes", "a request without a prefix", counts == 0, row)
        self.blocks.clear()
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        window = np.frombuffer(self._window, np.int32) if len(self.windows) else np.zeros(len(row), np.int32)
        self._note_disorder(window, arrival_s, row)
        order = _window_order(window, arrival_s)
        if order is not None:
            symbols, offsets = _reordered(symbols, offsets, order)
            row, arrival_s, window = row[order], arrival_s[order], window[order]
            input_tokens, output_tokens = input_tokens[order], output_tokens[order]
        packed = join_runs(symbols, offsets, np.ones(symbol_count, np.int32), np.zeros(len(row), np.int32))
        del symbols
        trace = Trace(
            name=name,
            block_tokens=self.source.block_tokens or 0,
            arrival_s=arrival_s,
            input_tokens=np.maximum(input_tokens, 1),
            output_tokens=np.maximum(output_tokens, 1),
            run_offsets=packed.offsets,
            runs=packed.runs,
            run_blocks=packed.run_blocks,
            tail_blocks=packed.tail_blocks,
            windows=self._make_windows(window),
            session=_dense(self._session, self.sessions, order),
            user=_dense(self._user, self.users, order),
            has_blocks=symbol_count > 0,
            format=self.source.name,
        )
        return Whole(trace, row)

    def _note_disorder(
        self, window: npt.NDArray[np.int32], arrival_s: npt.NDArray[np.float64], row: npt.NDArray[np.int64]
    ) -> None:
        """Count rows that arrive before an earlier row of their window."""
        by_window = np.argsort(window, kind="stable")
        times, of = arrival_s[by_window], window[by_window]
        # the running maximum within each window: windows are lifted above each other by their rank
        starts = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
        late = np.zeros(len(row), np.bool_)
        for begin, end in zip(starts, np.r_[starts[1:], len(of)], strict=True):
            part = times[begin:end]
            late[by_window[begin:end]] = part < np.maximum.accumulate(part)
        self.tally.add_where("out-of-order arrivals", "sorted, ties kept in row order", late, row)

    def _make_windows(self, window: npt.NDArray[np.int32]) -> tuple[Window, ...]:
        if list(self.windows) in ([], [None]):
            return (Window("0", "", 0, len(window)),)
        ends = np.cumsum(np.bincount(window, minlength=len(self.windows)))
        starts = np.concatenate([[0], ends[:-1]])
        return tuple(
            Window("none" if name is None else str(name), "" if label is None else str(label), int(start), int(end))
            for name, label, start, end in zip(self.windows, self.labels, starts, ends, strict=True)
        )


def _joined(parts: list[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)


def _dense(values: array[int], interner: Interner, order: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int32] | None:
    if not interner:
        return None
    dense = np.frombuffer(values, np.int32)
    return dense.copy() if order is None else dense[order]


def _window_order(window: npt.NDArray[np.int32], arrival_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    """The stable order by window, then arrival; None where rows are in that order already."""
    same = window[1:] == window[:-1]
    if np.all((window[1:] > window[:-1]) | (same & (arrival_s[1:] >= arrival_s[:-1]))):
        return None
    return np.lexsort((arrival_s, window))


def _reordered(
    symbols: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The rows' symbols in another order of rows."""
    counts = np.diff(offsets)[order]
    moved = np.concatenate([[0], np.cumsum(counts)])
    places = np.repeat(offsets[:-1][order] - moved[:-1], counts) + np.arange(moved[-1])
    return symbols[places], moved
