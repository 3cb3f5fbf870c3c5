"""Bootstrap intervals of the difference of a statistic between two results, over whole windows.

A resample draws windows with replacement, all their requests with them (`btbench.results.window_draws`): the same
windows of both results where they are paired, windows of each on their own where not. Nothing is approximated. A mean
follows from the sums and counts of the windows; a percentile is found by counting: the sorted values are cut into
bins, what a resample holds of each bin says which one the percentile is in, and only that one is counted through.
"""

from __future__ import annotations

import numpy as np

from btbench.results.bootstrap import Interval, interval_of
from btbench.results.window_draws import Floats, Ints, draw_windows, group_starts, resampled_means


class Windowed:
    """One value of each request, and how often each resample holds it."""

    def __init__(self, values: Floats, window: Ints, windows: int, stream: int = 0) -> None:
        """`window` tells the window of each value, 0 to windows - 1; FEWEST or more. `stream` as in draw_windows."""
        weights = draw_windows(windows, stream=stream)
        assert weights is not None, "too few windows"
        self._values = values
        self._group = (np.searchsorted(group_starts(windows), np.arange(windows), side="right") - 1)[window]
        self._weights = weights  # (RESAMPLES, groups)

    def means(self) -> Floats:
        """(RESAMPLES,) means of the resamples."""
        groups = self._weights.shape[1]
        counts = np.bincount(self._group, minlength=groups).astype(np.float64)
        sums = np.bincount(self._group, self._values, groups).astype(np.float64)
        return resampled_means(self._weights, sums, counts)

    def percentiles(self, share: float) -> Floats:
        """(RESAMPLES,) elements int(share n) of the n sorted values of the resamples."""
        values, group, edges, held = self._sort()
        before = np.cumsum(held, axis=1)
        rank = np.floor(share * before[:, -1])
        bins = (before > rank[:, None]).argmax(axis=1)
        rank -= np.take_along_axis(before - held, bins[:, None], axis=1)[:, 0]  # in the bin
        found = np.empty(len(rank))
        for k in np.unique(bins):
            of, cut = bins == k, slice(edges[k], edges[k + 1])
            up_to = np.cumsum(self._weights[of][:, group[cut]], axis=1)
            found[of] = values[cut][(up_to > rank[of, None]).argmax(axis=1)]
        return found

    def _sort(self) -> tuple[Floats, Ints, Ints, Floats]:
        """The sorted values, the group of each, where bins of them begin, and (RESAMPLES, bins) how many are held."""
        order = np.argsort(self._values, kind="stable")
        group = self._group[order]
        count, groups = int(np.sqrt(len(order))), self._weights.shape[1]  # as many bins as values in each
        edges = np.linspace(0, len(order), count + 1).astype(np.int64)
        bins = np.repeat(np.arange(count), np.diff(edges))
        table = np.bincount(bins * groups + group, minlength=count * groups).reshape(count, groups)
        held = self._weights @ table.T.astype(float)  # whole numbers: the same in whatever order they are added
        return self._values[order], group, edges, held


def mean_interval(a: Windowed, b: Windowed) -> Interval:
    """Of mean(b) - mean(a)."""
    return interval_of(b.means() - a.means())


def percentile_interval(a: Windowed, b: Windowed, share: float) -> Interval:
    """Of the difference of element int(share n) of the n sorted values."""
    return interval_of(b.percentiles(share) - a.percentiles(share))
