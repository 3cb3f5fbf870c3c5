"""From rows to a packed trace: block ids become dense numbers, windows are put together, runs are joined."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.runs import join_chunks
from btbench.sources.batches import Checked
from btbench.sources.block_ids import BlockIds, Paths, take_rows, walk
from btbench.sources.columns import Column
from btbench.sources.formats import Format
from btbench.sources.oddities import Intake, Tally
from btbench.sources.spelling import spelled_out, without_nulls
from btbench.trace import Trace, Window


class Numbers(dict[Any, int]):
    """Dense numbers from 0 for whatever is looked up, in order of first appearance; -1 for what tells nothing."""

    def __init__(self, *nothing: Any) -> None:
        self._nothing = len(nothing)
        for key in nothing:
            self[key] = -1

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self) - self._nothing
        return number

    def of(self, values: list[Any] | None, count: int) -> npt.NDArray[np.int32]:
        """The numbers of `count` values, which are all None where there is no such column."""
        if values is None or values.count(None) == count:
            return np.broadcast_to(np.int32(self[None]), count)  # no memory for what no row has
        return np.frombuffer(array("i", map(self.__getitem__, values)), np.int32)

    def names(self, nothing: str) -> list[str]:
        """What was numbered, as text."""
        return [nothing if key is None else str(key) for key in self]


class Whole(NamedTuple):
    """A whole source, packed: what the cache keeps."""

    trace: Trace
    row: npt.NDArray[np.int64]  # (N,) 1-based row number of each request in its source


class Rows(NamedTuple):
    """Rows of a source (N of them) but for their blocks."""

    row: npt.NDArray[Any]  # (N,) int64
    arrival_s: npt.NDArray[Any]  # (N,) float64
    input_tokens: npt.NDArray[Any]  # (N,) int64
    output_tokens: npt.NDArray[Any]  # (N,) int64
    session: npt.NDArray[Any]  # (N,) int32, and so on; -1 where a row has none
    user: npt.NDArray[Any]
    window: npt.NDArray[Any]
    label: npt.NDArray[Any]


class Packer:
    """Takes checked rows in file order, gives the packed trace."""

    def __init__(self, source: Format, tally: Tally) -> None:
        self.source = source
        self.tally = tally
        self._blocks = BlockIds(source.ids)
        self._numbers = {
            "session": Numbers(None, ""),
            "user": Numbers(None, ""),
            "window": Numbers(),
            "label": Numbers(),
        }
        self._columns = [Column(kind) for kind in "qdqqiiii"]  # those of `Rows`

    def add(self, rows: Checked, intake: Intake) -> None:
        """Take a batch of rows; refuses those whose blocks are no strings and integers."""
        name, blocks = self.source.column("blocks"), rows.columns.get("blocks")
        if blocks is not None and not isinstance(blocks, list):
            rows = without_nulls(rows, name, intake)
            numbers = self._numbers_of(rows)
            self._blocks.add_arrow(rows.columns["blocks"], numbers["session"])
        else:
            numbers = self._numbers_of(rows)
            if not self._blocks.add_json(blocks or [b"null"] * len(rows.rows), numbers["session"]):
                rows = spelled_out(rows, name, intake)
                numbers = self._numbers_of(rows)
                self._blocks.add_json(rows.columns["blocks"], numbers["session"], escapes=True)
        own = (rows.rows + intake.rows_before, rows.arrival_s, rows.input_tokens, rows.output_tokens)
        for column, values in zip(self._columns, (*own, *numbers.values()), strict=True):
            column.add(values)

    def _numbers_of(self, rows: Checked) -> dict[str, npt.NDArray[np.int32]]:
        return {role: known.of(rows.columns.get(role), len(rows.rows)) for role, known in self._numbers.items()}

    @property
    def count(self) -> int:
        """Rows taken so far."""
        return len(self._columns[0])

    def finish(self, name: str) -> Whole:
        """The packed trace: windows in order of first appearance, arrivals sorted within each."""
        rows = Rows(*(column.all() for column in self._columns))
        paths = self._blocks.finish()
        if self.source.unit == "date":
            rows = rows._replace(arrival_s=rows.arrival_s - rows.arrival_s.min())
        self._note_oddities(rows, paths)
        order = _window_order(rows)
        if order is not None:
            rows, paths = Rows(*(column[order] for column in rows)), take_rows(paths, order)
        self._note_duplicates(rows, paths)
        block_count = len(paths.parent)
        no_tails = np.zeros(len(rows.row), np.int32)
        packed = join_chunks(lambda: walk(paths), block_count, np.ones(1, np.int32), no_tails)
        trace = Trace(
            name=name,
            block_tokens=self.source.block_tokens or 0,
            arrival_s=rows.arrival_s,
            input_tokens=np.maximum(rows.input_tokens, 1),
            output_tokens=np.maximum(rows.output_tokens, 1),
            run_offsets=packed.offsets,
            runs=packed.runs,
            run_blocks=packed.run_blocks,
            tail_blocks=packed.tail_blocks,
            windows=self._make_windows(rows),
            session=rows.session if (rows.session >= 0).any() else None,
            user=rows.user if (rows.user >= 0).any() else None,
            has_times=self.source.unit != "none",
            has_blocks=block_count > 0,
            format=self.source.name,
        )
        return Whole(trace, rows.row)

    def _note_oddities(self, rows: Rows, paths: Paths) -> None:
        add = self.tally.add_where
        add("input below 1", "raised to 1", rows.input_tokens < 1, rows.row)
        add("output below 1", "raised to 1", rows.output_tokens < 1, rows.row)
        if len(paths.parent):
            add("null or empty hashes", "a request without a prefix", paths.counts == 0, rows.row)
        if self.source.ids == "prefix" and rows.window.max() == rows.window.min():
            # within one window every id that stands for a whole prefix has one id before it, and so makes one path
            add("block id behind different blocks", "kept, as an id of a whole prefix", paths.counts > 1, rows.row)
        if self.source.layout == "sessions":
            return  # sessions overlap by their nature
        late = np.zeros(len(rows.row), np.bool_)
        by_window = np.argsort(rows.window, kind="stable")
        for part in np.split(by_window, np.flatnonzero(np.diff(rows.window[by_window])) + 1):
            late[part] = rows.arrival_s[part] < np.maximum.accumulate(rows.arrival_s[part])
        add("out-of-order arrivals", "sorted, ties kept in row order", late, rows.row)

    def _note_duplicates(self, rows: Rows, paths: Paths) -> None:
        """Count rows that equal an earlier one in everything that is read; `rows` are in order."""
        tied = np.diff(rows.arrival_s) == 0
        tied = np.r_[tied, False] | np.r_[False, tied]
        if not tied.any():
            return
        columns = (rows.window, rows.arrival_s.view(np.int64), rows.input_tokens, rows.output_tokens)
        mixed = _row_sums(paths)
        for column in (*columns, rows.session, rows.user):
            mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        _, first = np.unique(mixed[tied], return_index=True)
        again = tied.copy()
        again[np.flatnonzero(tied)[first]] = False
        self.tally.add_where("duplicate rows", "kept", again, rows.row)

    def _make_windows(self, rows: Rows) -> tuple[Window, ...]:
        only_one = list(self._numbers["window"]) == [None]
        names, labels = self._numbers["window"].names("0" if only_one else "none"), self._numbers["label"].names("")
        starts = np.flatnonzero(np.r_[True, np.diff(rows.window) != 0])
        stops = np.r_[starts[1:], len(rows.row)]
        other = rows.label != np.repeat(rows.label[starts], stops - starts)
        self.tally.add_where("label differs within a window", "the first row's kept", other, rows.row)
        windows = []
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            windows.append(Window(names[rows.window[start]], labels[rows.label[start]], start, stop))
        return tuple(windows)


def _window_order(rows: Rows) -> npt.NDArray[np.int64] | None:
    """The stable order by window, then arrival; None where rows are in that order already."""
    same, later = np.diff(rows.window) == 0, np.diff(rows.window) > 0
    if np.all(later | (same & (np.diff(rows.arrival_s) >= 0))):
        return None
    return np.lexsort((rows.arrival_s, rows.window))


def _row_sums(paths: Paths) -> npt.NDArray[np.uint64]:
    """One number a row that tells its paths from others."""
    place = np.arange(len(paths.ends), dtype=np.uint64)
    ends, lengths = paths.ends.astype(np.uint64), paths.lengths.astype(np.uint64)
    stops = np.cumsum(paths.counts, dtype=np.int64)
    starts = stops - paths.counts
    place -= np.repeat(starts, paths.counts).astype(np.uint64)
    mixed = (ends << np.uint64(32) | lengths) * np.uint64(0xC2B2AE3D27D4EB4F) + place
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x165667B19E3779F9)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed)])
    return sums[stops] - sums[starts]
