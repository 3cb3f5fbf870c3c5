"""Bootstrap intervals of the difference of a statistic between two results, over requests.

A request is drawn with replacement, together with its pair in the other result where there is one (B. Efron and
R. Tibshirani, An Introduction to the Bootstrap, 1993, percentile intervals). Two shortcuts keep a million requests
quick without changing what is estimated:

- means: above GROUPS requests, random groups of equal size are drawn in place of single requests;
- percentiles: an order statistic of a resample lies within a few standard deviations of its rank, so only requests
  near that rank are drawn one by one; of the others it matters how many fall below it.

Requests are drawn as if independent. Those of one burst are not, so such an interval is too narrow: it is for traces of
too few windows to draw these (`btbench.results.window_bootstrap`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 1000
LEVEL = 0.95
LEVEL_WORDS = f"{LEVEL:.0%} interval"
SEED = 42
GROUPS = 2000
_SPREAD = 6.0  # standard deviations of a rank that are drawn one by one; a resample beyond has odds of 1e-9

Floats = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """Where the difference b - a lies, at LEVEL."""

    low: float
    high: float


def interval_of(differences: Floats) -> Interval:
    """The middle LEVEL of what was drawn."""
    low, high = np.quantile(differences, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def mean_interval(a: Floats, b: Floats, paired: bool) -> Interval:
    """Of mean(b) - mean(a). Paired: a[i] and b[i] are the same request."""
    rng = np.random.default_rng(SEED)
    if paired:
        return interval_of(_resampled_means(b - a, rng))
    return interval_of(_resampled_means(b, rng) - _resampled_means(a, rng))


def percentile_interval(a: Floats, b: Floats, share: float, paired: bool) -> Interval:
    """Of the difference of element int(share n) of the n sorted values. Paired: a[i] and b[i] are the same request."""
    rng = np.random.default_rng(SEED)
    if paired:
        return interval_of(_paired_percentiles(a, b, share, rng))
    return interval_of(_resampled_percentiles(b, share, rng) - _resampled_percentiles(a, share, rng))


def _resampled_means(values: Floats, rng: np.random.Generator) -> Floats:
    """(RESAMPLES,) means of resamples."""
    groups = min(len(values), GROUPS)
    if groups < len(values):
        values = rng.permutation(values)
    edges = np.linspace(0, len(values), groups + 1).astype(np.int64)
    sums, sizes = np.add.reduceat(values, edges[:-1]), np.diff(edges)
    means = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        drawn = rng.integers(0, groups, groups)
        means[i] = sums[drawn].sum() / sizes[drawn].sum()
    return means


def _resampled_percentiles(values: Floats, share: float, rng: np.random.Generator) -> Floats:
    """(RESAMPLES,) percentiles of resamples: element k of n uniform draws has a beta distribution, known exactly."""
    n = len(values)
    k = int(share * n)
    at = np.minimum((rng.beta(k + 1, n - k, RESAMPLES) * n).astype(np.int64), n - 1)
    return np.sort(values)[at]


def _paired_percentiles(a: Floats, b: Floats, share: float, rng: np.random.Generator) -> Floats:
    """(RESAMPLES,) differences of percentiles of paired resamples."""
    n = len(a)
    k = int(share * n)
    reach = int(_SPREAD * np.sqrt(n * share * (1 - share))) + 2
    below_a, near_a, ordered_a = _place(a, k, reach)
    below_b, near_b, ordered_b = _place(b, k, reach)
    near = near_a | near_b
    # of the far ones: below both, below a alone, below b alone, above both
    far = np.bincount((2 * ~below_a + ~below_b)[~near], minlength=4)
    chances = np.append(far, near.sum()) / n
    rank_in_near = np.cumsum(near) - 1
    order_a, order_b = (rank_in_near[ordered[near[ordered]]] for ordered in (ordered_a, ordered_b))
    values_a, values_b = a[near][order_a], b[near][order_b]
    differences = np.empty(RESAMPLES)
    for i, (below_both, only_a, only_b, _, drawn) in enumerate(rng.multinomial(n, chances, RESAMPLES)):
        times = np.bincount(rng.integers(0, len(values_a), drawn), minlength=len(values_a))
        at_a = np.searchsorted(np.cumsum(times[order_a]), k - below_both - only_a, side="right")
        at_b = np.searchsorted(np.cumsum(times[order_b]), k - below_both - only_b, side="right")
        last = len(values_a) - 1
        differences[i] = values_b[min(at_b, last)] - values_a[min(at_a, last)]
    return differences


def _place(
    values: Floats, k: int, reach: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which values rank below k, which within `reach` of it, and the order of all."""
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return rank < k, np.abs(rank - k) <= reach, order
