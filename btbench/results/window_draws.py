"""Whole windows of a trace drawn with replacement: what intervals over windows are made from.

Requests of one burst depend on each other, those of different windows do not (B. Efron and R. Tibshirani, An
Introduction to the Bootstrap, 1993, on blocks of dependent data).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from btbench.results.bootstrap import RESAMPLES, SEED

FEWEST = 5  # windows, or seeds of a trace of fewer windows, that an interval needs
MOST_DRAWN = 500  # above so many windows, neighbours are drawn together

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def group_starts(windows: int) -> Ints:
    """The first window of each group of neighbours that is drawn as one; every window where there are not too many."""
    if windows <= MOST_DRAWN:
        return np.arange(windows)
    return np.linspace(0, windows, MOST_DRAWN, endpoint=False).astype(np.int64)


@lru_cache(maxsize=8)
def draw_windows(windows: int, seeds: int = 1, stream: int = 0) -> Floats | None:
    """(RESAMPLES, seeds * groups) how often a resample holds each group of windows as replayed with each seed.

    Draws of different streams have nothing in common. Fewer windows than FEWEST are all taken, and the seed alone is
    drawn; None where there are as few seeds.
    """
    groups = len(group_starts(windows))
    if max(groups, seeds) < FEWEST:
        return None
    rng = np.random.default_rng(SEED + stream)
    every = np.broadcast_to(np.arange(groups), (RESAMPLES, groups))
    window = rng.integers(0, groups, (RESAMPLES, groups)) if groups >= FEWEST else every
    seed = rng.integers(0, seeds, (RESAMPLES, groups))
    resample = np.arange(RESAMPLES)[:, None]
    drawn = (resample * seeds + seed) * groups + window
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * seeds * groups)
    return counts.reshape(RESAMPLES, seeds * groups).astype(float)


def resampled_means(weights: Floats, sums: Floats, counts: Floats) -> Floats:
    """(RESAMPLES,) means, of the sum and the number of values of each column of `weights`."""
    # weights @ sums, but summed in one order on every machine
    return np.asarray((weights * sums).sum(axis=1) / (weights * counts).sum(axis=1))
