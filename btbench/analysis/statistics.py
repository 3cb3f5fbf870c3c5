"""Percentiles, the same way everywhere: the sorted value at index int(share × n), as in the summary of a replay."""

from typing import Any

import numpy as np
import numpy.typing as npt

POINTS = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)  # in percent

Distribution = dict[str, float]  # count, mean, min, p1 … p99.9, max


def distribution(
    values: npt.NDArray[Any], weights: npt.NDArray[np.int64] | None = None, points: tuple[float, ...] = POINTS
) -> Distribution | None:
    """Count, mean, smallest, percentiles and largest of some values; None where there are none.

    With `weights` (whole numbers) each value counts so many times.
    """
    if len(values) == 0:
        return None
    if weights is None:
        ordered = np.sort(values)
        total = len(ordered)
        ranks = [int(point / 100 * total) for point in points]
        mean = float(ordered.mean())
    else:
        order = np.argsort(values, kind="stable")
        ordered, below = values[order], np.cumsum(weights[order])
        total = int(below[-1])
        ranks = [int(np.searchsorted(below, int(point / 100 * total), side="right")) for point in points]
        mean = float(np.dot(values.astype(np.float64), weights) / total)
    named = {f"p{point:g}": ordered[rank].item() for point, rank in zip(points, ranks, strict=True)}
    return {"count": total, "mean": mean, "min": ordered[0].item(), **named, "max": ordered[-1].item()}
