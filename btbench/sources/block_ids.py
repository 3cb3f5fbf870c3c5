"""Block ids of any kind become dense numbers, without a Python object for any of them.

Ids are read where they stand: in the JSON text of a row's list, or in the buffers of an Arrow column. A request's
ids are kept as *paths*: the last id of a chain and its length, where each id of the chain follows the one it followed
when it was first seen. Ids that stand for whole prefixes make one path a request, however long the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import read_only
from btbench.sources import block_kernels as kernels
from btbench.sources.columns import Column

Scope = Literal["prefix", "block", "session", "none"]


class Paths(NamedTuple):
    """N requests as sequences of chains of ids."""

    counts: npt.NDArray[np.int32]  # (N,) chains of each request
    ends: npt.NDArray[np.int32]  # the last id of each chain
    lengths: npt.NDArray[np.int32]  # and how many ids it has
    parent: npt.NDArray[np.int32]  # (K,) the id before each id where it was first seen, or -1


_FILL = 0.6  # a table is made larger where more of it is in use


class _Table:
    """Numbers of keys met so far: open addressing with linear probing."""

    def __init__(self) -> None:
        self.count = 0
        self._slots = np.full(1 << 16, -1, np.int32)  # (power of two,) the number of the key kept there, or -1
        self._keys = np.empty(1 << 16, np.uint64)  # two words for each number

    def room(self, more: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], int]:
        """Slots, keys and count, with room for `more` new keys."""
        needed = self.count + more
        if 2 * needed > len(self._keys):
            self._keys.resize(max(2 * needed, len(self._keys) // 8 * 9), refcheck=False)
        if needed > _FILL * len(self._slots):
            size = len(self._slots)
            while needed > _FILL * size:
                size *= 2
            self._slots = np.full(size, -1, np.int32)
            kernels.rehash(self._slots, self._keys, self.count)
        return self._slots, self._keys, self.count

    def enter(self, values: npt.NDArray[np.int64]) -> None:
        """Number distinct integers in their order; the table is empty."""
        slots, keys, _ = self.room(len(values))
        keys[0 : 2 * len(values) : 2] = values.view(np.uint64)
        keys[1 : 2 * len(values) : 2] = kernels.INTEGER
        kernels.rehash(slots, keys, len(values))
        self.count = len(values)


_SMALL = 1 << 20
_SPREAD = 8  # a plain array pays up to this many entries for each id in use


class _Scratch:
    """Arrays that are used again from batch to batch: room for one is made once, and memory stays in one piece."""

    def __init__(self) -> None:
        self._kept: dict[str, npt.NDArray[Any]] = {}

    def room(self, name: str, count: int, dtype: type) -> npt.NDArray[Any]:
        """An array of `count`, which holds anything."""
        kept = self._kept.get(name)
        if kept is None or len(kept) < count:
            kept = self._kept[name] = np.empty(count + count // 8, dtype)
        return kept[:count]


class _Ids:
    """Numbers of ids: by a plain array as long as all are integers that lie close, by a table from then on."""

    def __init__(self, scratch: _Scratch) -> None:
        self._table = _Table()
        self._scratch = scratch
        self._dense: npt.NDArray[np.int32] | None = np.zeros(_SMALL, np.int32)  # number + 1 of each integer
        self._dense_count = 0

    @property
    def count(self) -> int:
        return self._table.count if self._dense is None else self._dense_count

    def _make_dense(self, values: npt.NDArray[np.int64]) -> bool:
        """Whether the plain array serves, longer if need be."""
        if self._dense is None or not len(values):
            return self._dense is not None
        top = int(values.max())
        if values.min() < 0 or top >= _SMALL + _SPREAD * (self._dense_count + len(values)):
            return False
        if top >= len(self._dense):
            self._dense.resize(top // 4 * 5, refcheck=False)
        return True

    def _leave_dense(self) -> None:
        if self._dense is not None:
            used = np.flatnonzero(self._dense)
            self._table.enter(used[np.argsort(self._dense[used])])
            self._dense = None

    def of_integers(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Numbers of integers."""
        ids = self._scratch.room("ids", len(values), np.int32)
        values = read_only(values)
        if self._make_dense(values):
            self._dense_count = int(kernels.number_dense(values, self._dense, self._dense_count, ids))
        else:
            self._leave_dense()
            self._table.count = int(kernels.number_integers(values, *self._table.room(len(values)), ids))
        return ids

    def of_texts(
        self, text: npt.NDArray[np.uint8], is_json: bool, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int32]:
        """Numbers of the pieces text[starts[i]:stops[i]]."""
        self._leave_dense()
        ids = self._scratch.room("ids", len(starts), np.int32)
        places = (read_only(text), is_json, read_only(starts), read_only(stops))
        self._table.count = int(kernels.number_texts(*places, *self._table.room(len(starts)), ids))
        return ids


class BlockIds:
    """Takes the block ids of a trace row by row, gives them back as dense numbers in order of first appearance.

    `scope` says what an id stands for: a whole prefix; one block alone, so that it is numbered together with the
    block before; or something that only its session knows, so that it is numbered together with the session.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._scratch = _Scratch()
        self._ids = _Ids(self._scratch)
        self._scoped = _Table()
        self._parent = np.empty(1 << 16, np.int32)
        self._known = 0
        self._paths = [Column("i") for _ in range(3)]  # counts, ends, lengths

    def add_json(self, lists: list[Any], sessions: npt.NDArray[np.int32], escapes: bool = False) -> bool:
        """Take rows as JSON text: arrays of strings and integers, or null.

        False where a row holds something else; where an id is escaped, too, unless `escapes` says that every id is
        written in the one way that msgspec writes it. Nothing is taken then.
        """
        text = read_only(np.frombuffer(b"".join(lists), np.uint8))
        counts = np.zeros(len(lists), np.int32)
        starts = self._scratch.room("starts", len(text) // 2, np.int64)
        stops = self._scratch.room("stops", len(text) // 2, np.int64)
        filled = kernels.split_lists(text, escapes, starts, stops, counts)
        if filled < 0:
            return False
        starts, stops = read_only(starts[:filled]), read_only(stops[:filled])
        values = self._scratch.room("values", filled, np.int64)
        if kernels.read_integers(text, starts, stops, values):
            ids = self._ids.of_integers(values)
        else:
            ids = self._ids.of_texts(text, True, starts, stops)
        self._add(ids, counts, sessions)
        return True

    def add_arrow(self, lists: Any, sessions: npt.NDArray[np.int32]) -> None:
        """Take rows as an Arrow list array of strings or integers."""
        import pyarrow

        counts = np.array(lists.value_lengths().fill_null(0), np.int32)
        values = lists.flatten()
        if pyarrow.types.is_integer(values.type):
            wide = pyarrow.uint64() if pyarrow.types.is_unsigned_integer(values.type) else pyarrow.int64()
            ids = self._ids.of_integers(np.asarray(values.cast(wide)).view(np.int64))
        else:
            values = values.cast(pyarrow.large_string())
            _, offsets, text = values.buffers()
            places = np.frombuffer(offsets, np.int64, len(values) + 1, 8 * values.offset)
            ids = self._ids.of_texts(np.frombuffer(text or b"", np.uint8), False, places[:-1], places[1:])
        self._add(ids, counts, sessions)

    def _add(self, ids: npt.NDArray[np.int32], counts: npt.NDArray[np.int32], sessions: npt.NDArray[np.int32]) -> None:
        if self._scope in ("block", "session"):
            chained = self._scope == "block"
            scopes = read_only(np.zeros(len(counts), np.int32) if chained else sessions)
            room = self._scoped.room(len(ids))
            self._scoped.count = int(kernels.number_pairs(ids, read_only(counts), scopes, chained, *room))
        if self.count > len(self._parent):
            self._parent.resize(max(self.count, len(self._parent) // 8 * 9), refcheck=False)
        path_counts = np.empty(len(counts), np.int32)
        ends = self._scratch.room("ends", len(ids), np.int32)
        lengths = self._scratch.room("lengths", len(ids), np.int32)
        known, found = kernels.find_paths(
            read_only(ids), read_only(counts), self._parent, self._known, path_counts, ends, lengths
        )
        self._known = int(known)
        for column, values in zip(self._paths, (path_counts, ends[:found], lengths[:found]), strict=True):
            column.add(values)

    @property
    def count(self) -> int:
        """How many different ids there are, K."""
        return self._scoped.count if self._scope in ("block", "session") else self._ids.count

    def finish(self) -> Paths:
        """All rows; nothing can be added after."""
        counts, ends, lengths = (column.all() for column in self._paths)
        paths = Paths(counts, ends, lengths, self._parent[: self._known])
        del self._ids, self._scoped, self._paths, self._parent, self._scratch
        return paths


def take_rows(paths: Paths, order: npt.NDArray[np.int64]) -> Paths:
    """The rows of a trace in another order."""
    firsts = np.cumsum(paths.counts, dtype=np.int64) - paths.counts
    counts = paths.counts[order]
    moved = np.cumsum(counts, dtype=np.int64) - counts
    places = np.repeat(firsts[order] - moved, counts) + np.arange(counts.sum())
    return Paths(counts, paths.ends[places], paths.lengths[places], paths.parent)


CHUNK_IDS = 1 << 20


def walk(paths: Paths) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]:
    """The ids of all rows, some rows at a time: ids (S,), and offsets (rows + 1,) into them."""
    path_stops = np.concatenate([[0], np.cumsum(paths.counts, dtype=np.int64)])
    id_stops = np.concatenate([[0], np.cumsum(paths.lengths, dtype=np.int64)])
    row_starts = id_stops[path_stops]  # where the ids of each row begin, were they all in one array
    ends, lengths, parent = read_only(paths.ends), read_only(paths.lengths), read_only(paths.parent)
    row = 0
    while row < len(paths.counts):
        until = max(row + 1, int(np.searchsorted(row_starts, row_starts[row] + CHUNK_IDS, side="right")) - 1)
        some = slice(path_stops[row], path_stops[until])
        offsets = row_starts[row : until + 1] - row_starts[row]
        ids = np.empty(offsets[-1], np.int32)
        stops = read_only(id_stops[1:][some] - row_starts[row])
        kernels.walk_paths(ends[some], lengths[some], parent, stops, ids)
        yield ids, offsets
        row = until
