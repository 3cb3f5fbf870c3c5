"""What a row owes to rows before it: the conversation it goes on with, and a time told as a delay behind the last."""

from __future__ import annotations

from typing import Any

import numpy as np

from btbench.sources.batches import LATEST_S, Checked, rows_where
from btbench.sources.oddities import Intake

_DELAYED = "counted from the arrival of the row before in its session"


class Threads:
    """Conversations met so far."""

    def __init__(self) -> None:
        self._roots: dict[Any, Any] = {}  # chat -> the chat it began with
        self._last_s: dict[Any, float] = {}  # session -> arrival of its last row

    def follow(self, rows: Checked, intake: Intake) -> Checked:
        """Give rows the session they belong to, and those with a delay alone their arrival.

        A delay (ms) counts from the arrival of the row before in the session, since no trace tells when that was
        answered. A row that has none before it is refused.
        """
        parents = rows.columns.pop("parent", None)
        sessions = rows.columns.get("session")
        if parents is not None:
            rows.columns["session"] = [self._root(c, p) for c, p in zip(sessions or [], parents, strict=True)]
        delays = rows.columns.pop("delay", None)
        if delays is None or sessions is None or sessions.count(None) == len(sessions):
            delays = sessions = [None] * len(rows.rows)
            if not np.isnan(rows.arrival_s).any():
                return rows
        return self._timed(rows, sessions, delays, intake)

    def _root(self, chat: Any, parent: Any) -> Any:
        root = chat if parent in (None, -1, "-1", "") else self._roots.get(parent, parent)
        self._roots[chat] = root
        return root

    def _timed(self, rows: Checked, sessions: list[Any], delays: list[Any], intake: Intake) -> Checked:
        good = np.ones(len(rows.rows), np.bool_)
        for i, (session, delay) in enumerate(zip(sessions, delays, strict=True)):
            number = int(rows.rows[i])
            if np.isnan(rows.arrival_s[i]):
                if session not in self._last_s or not 0 <= delay <= LATEST_S:
                    known = (
                        "no row of its session stands before it" if session not in self._last_s else f"it is {delay}"
                    )
                    intake.refuse(number, "missing time", f"a delay in place of a time, but {known}.")
                    good[i] = False
                    continue
                rows.arrival_s[i] = self._last_s[session] + delay / 1000
                intake.tally.add("time told as a delay", _DELAYED, intake.rows_before + number)
            if session is not None:
                self._last_s[session] = float(rows.arrival_s[i])
        return rows if good.all() else rows_where(rows, good)
