"""Counting what is odd in a trace, and refusing what cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from btbench.errors import TraceError
from btbench.trace import Oddity

SKIP_HINT = "--skip-bad-rows (skip_bad_rows = true in [trace]) drops such rows and counts them."


MOST_NAMES = 30


def printable(text: str, most: int = 60) -> str:
    """Text of a user's file for a message: not too long, and nothing that a terminal would obey."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= most else shown[:most] + "…"


def listed(names: Iterable[str]) -> str:
    """Names of a user's file for a message, sorted."""
    shown = [printable(name) for name in sorted(names)]
    more = f" and {len(shown) - MOST_NAMES} more" if len(shown) > MOST_NAMES else ""
    return ", ".join(shown[:MOST_NAMES]) + more or "none"


@dataclass
class Tally:
    """Oddities by kind, in the order they were first met."""

    _kinds: dict[str, Oddity] = field(default_factory=dict)

    def add(self, kind: str, handling: str, row: int, count: int = 1) -> None:
        """Count `count` rows of a kind, the first of them at 1-based `row`."""
        seen = self._kinds.get(kind)
        if seen is None:
            self._kinds[kind] = Oddity(kind, count, row, handling)
        else:
            self._kinds[kind] = Oddity(kind, seen.count + count, min(seen.first_row, row), handling)

    def add_where(self, kind: str, handling: str, mask: npt.NDArray[np.bool_], rows: npt.NDArray[np.integer]) -> None:
        """Count the rows of a mask; `rows` are the 1-based row numbers of all."""
        if mask.any():
            self.add(kind, handling, int(rows[mask].min()), int(mask.sum()))

    def oddities(self) -> tuple[Oddity, ...]:
        return tuple(self._kinds.values())


@dataclass
class Intake:
    """Where rows come from, for messages, and what happens to those that cannot be read."""

    file: str  # as the user named it
    skip: bool
    tally: Tally
    unit: str = "line"  # or "row", where a file has no lines
    rows_before: int = 0  # in earlier shards, so that row numbers go on

    def refuse(self, row: int, kind: str, problem: str, hint: str | None = None) -> None:
        """A row that cannot be read: an error that names it, or dropped and counted."""
        if not self.skip:
            raise TraceError(f"{self.file}, {self.unit} {row}: {problem}", hint or SKIP_HINT)
        self.tally.add(kind, "dropped", self.rows_before + row)

    def fail(self, problem: str, hint: str | None = None) -> NoReturn:
        """A file that cannot be read at all."""
        raise TraceError(f"{self.file}: {problem}", hint)
