"""Trace: packed requests as arrays, the one type that sources make and the engine and the analysis read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from btbench.jit import read_only


@dataclass(frozen=True)
class Window:
    """Consecutive requests of a trace that are replayed by themselves, on a fresh cluster."""

    name: str  # its id as text; "0" where a trace is one window
    label: str  # the part of the summary it belongs to; "" where it has none
    start: int  # first request
    stop: int  # behind the last


@dataclass(frozen=True)
class Oddity:
    """Something a trace holds that a reader should know of, and what was done about it."""

    kind: str  # e.g. "out-of-order arrivals"
    count: int  # rows
    first_row: int  # 1-based row (line) it was first seen at
    handling: str  # e.g. "sorted, ties kept in file order"

    def __str__(self) -> str:
        rows = f"{self.count:,} row{'s'[: self.count != 1]}"
        return f"{self.kind}: {rows}, first row {self.first_row:,}; {self.handling}"


@dataclass(frozen=True)
class Trace:
    """N requests in arrival order within each window, arrivals in seconds relative to the window.

    Prompt blocks are stored as runs (`btbench.runs`): request i holds `runs[run_offsets[i]:run_offsets[i + 1]]`,
    then `tail_blocks[i]` blocks that occur nowhere else. `run_blocks` are lengths in blocks of `block_tokens`.
    Arrays are read-only.
    """

    name: str
    block_tokens: int  # 0 where the trace has no blocks and does not tell
    arrival_s: npt.NDArray[np.float64]  # (N,) non-decreasing within a window
    input_tokens: npt.NDArray[np.int64]  # (N,) at least 1
    output_tokens: npt.NDArray[np.int64]  # (N,) at least 1
    run_offsets: npt.NDArray[np.int64]  # (N + 1,)
    runs: npt.NDArray[np.int32]
    run_blocks: npt.NDArray[np.int32]  # (R,)
    tail_blocks: npt.NDArray[np.int32]  # (N,)
    windows: tuple[Window, ...]
    session: npt.NDArray[np.int32] | None = None  # (N,) dense ids; -1 unknown
    user: npt.NDArray[np.int32] | None = None  # (N,) dense ids; -1 unknown
    has_times: bool = True
    has_blocks: bool = True  # whether the format carries block ids at all
    format: str = ""  # e.g. "mooncake", "art", "bursted-art", "btbench"
    source: str = ""  # as the user named it
    revision: str = ""  # the commit of a Hub repository
    digest: str = ""  # of the content the trace was read from, "xxh3_128:<hex>"
    oddities: tuple[Oddity, ...] = field(default=())
    notes: tuple[str, ...] = ()  # what a reader should know and is no fault of the trace, e.g. a block size overridden

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))

    def __len__(self) -> int:
        return len(self.arrival_s)

    def prompt_blocks(self) -> npt.NDArray[np.int64]:
        """(N,) number of prompt blocks of each request."""
        blocks = self.tail_blocks.astype(np.int64)
        for start in range(0, len(self), 1 << 16):  # some at a time: a long trace has many more runs than requests
            offsets = self.run_offsets[start : start + (1 << 16) + 1]
            lengths = self.run_blocks[self.runs[offsets[0] : offsets[-1]]]
            before = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[offsets - offsets[0]]
            blocks[start : start + (1 << 16)] += np.diff(before)
        return blocks

    def window(self, window: Window) -> Trace:
        """The requests of one window as a trace of its own; arrays are views, run ids stay the trace's."""
        cut = slice(window.start, window.stop)
        first, last = self.run_offsets[window.start], self.run_offsets[window.stop]
        return replace(
            self,
            arrival_s=self.arrival_s[cut],
            input_tokens=self.input_tokens[cut],
            output_tokens=self.output_tokens[cut],
            run_offsets=self.run_offsets[window.start : window.stop + 1] - first,
            runs=self.runs[first:last],
            tail_blocks=self.tail_blocks[cut],
            windows=(replace(window, start=0, stop=window.stop - window.start),),
            session=None if self.session is None else self.session[cut],
            user=None if self.user is None else self.user[cut],
        )

    def scaled(self, arrival_scale: float) -> Trace:
        """The same trace with arrival times multiplied: 2.0 is half the load."""
        return self if arrival_scale == 1.0 else replace(self, arrival_s=self.arrival_s * arrival_scale)

    def with_changes(self, **changes: Any) -> Trace:
        """A copy with some fields replaced."""
        return replace(self, **changes)
