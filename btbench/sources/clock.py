"""Dates and times as seconds from the first one, exact to the nanosecond."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?", re.ASCII)


class Clock:
    """Counts from the first moment it is shown."""

    def __init__(self) -> None:
        self._first: np.datetime64 | None = None

    def seconds(self, moments: npt.NDArray[np.datetime64]) -> npt.NDArray[np.float64]:
        """Moments (datetime64[ns]) as seconds; NaN where there is none."""
        if self._first is None and not np.isnat(moments).all():
            self._first = moments[~np.isnat(moments)][0]
        if self._first is None:
            return np.full(len(moments), np.nan)
        since: npt.NDArray[Any] = (moments - self._first).astype(np.int64) / 1e9
        return np.where(np.isnat(moments), np.nan, since)

    def second(self, text: str) -> float:
        """One moment as ISO 8601 has it, UTC. Raises ValueError."""
        bare = text.strip().removesuffix("Z").removesuffix("+00:00")
        if not _MOMENT.fullmatch(bare):
            raise ValueError(text)
        moment = np.datetime64(bare, "ns")
        return float(self.seconds(np.array([moment]))[0])
