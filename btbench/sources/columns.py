"""A column that grows in place, so that a long trace is never in memory twice."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt


class Column:
    """Numbers of one kind: "d" float64, "q" int64, "i" int32. Takes no memory as long as all are the same."""

    def __init__(self, kind: str) -> None:
        self._values = array(kind)
        self._count = 0
        self._same: Any = None  # the value of all so far, where they came as one number many times

    def add(self, values: npt.NDArray[Any]) -> None:
        """Append some; a view without strides is one number many times."""
        if not len(values):
            return
        is_one = values.strides == (0,)
        if is_one and not self._count:
            self._same = values[0].item()
        elif self._same is not None and not (is_one and values[0] == self._same):
            self._values.extend([self._same] * self._count)
            self._same = None
        if self._same is None:
            self._values.frombytes(np.ascontiguousarray(values, self._values.typecode).data.cast("B"))
        self._count += len(values)

    def __len__(self) -> int:
        return self._count

    def all(self) -> npt.NDArray[Any]:
        """Everything; nothing can be added after."""
        if self._same is not None:
            return np.broadcast_to(np.array(self._same, self._values.typecode), self._count)
        return np.frombuffer(self._values, self._values.typecode)
