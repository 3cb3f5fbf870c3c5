"""How sure the reduction of mean TTFT is: intervals over the windows of a trace, and over seeds of the policies' draws.

A resample draws whole windows with replacement, and for each of them the seed it was replayed with; the policy and its
baseline are drawn together (B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, percentile intervals).
Requests of one burst depend on each other, those of different windows do not: an interval says what other windows of
this kind would show.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.results.bootstrap import Interval, interval_of
from btbench.results.requests import Requests
from btbench.results.window_draws import Floats, draw_windows, group_starts, resampled_means
from btbench.trace import Trace


class _Replayed(NamedTuple):
    """One setup and policy under one seed, by window."""

    ttft_s: Floats  # (windows,) sums
    requests: Floats  # (windows,) served ones


class Spread:
    """Takes what every setup and policy did in every window, once a seed, and says how far reductions reach."""

    def __init__(self, trace: Trace) -> None:
        self._labels = np.array([window.label for window in trace.windows])
        self._sizes = np.array([window.stop - window.start for window in trace.windows])
        self._seen: dict[tuple[str, str], list[_Replayed]] = {}

    def add(self, setup: str, policy: str, requests: Requests) -> None:
        """Take all windows of the trace, replayed with one more seed."""
        ttft_s = requests.ttft_s
        sums = (np.bincount(requests.window, of, len(self._labels)) for of in (ttft_s, np.ones_like(ttft_s)))
        self._seen.setdefault((setup, policy), []).append(_Replayed(*(of.astype(np.float64) for of in sums)))

    def reduction_pct(self, setup: str, policy: str, baseline: str, label: str | None) -> Interval | None:
        """Of (baseline - policy) / baseline x 100 over the windows of a label, or all.

        None where too few are known, or requests were turned away under any of the seeds.
        """
        chosen = slice(None) if label is None else self._labels == label
        of, base = (self._seen.get((setup, name), []) for name in (policy, baseline))
        if not of or len(of) != len(base):
            return None
        if any((replayed.requests[chosen] < self._sizes[chosen]).any() for replayed in (*of, *base)):
            return None
        weights = draw_windows(len(of[0].ttft_s[chosen]), len(of))
        if weights is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [_resampled_means(seeds, chosen, weights) for seeds in (of, base)]
            reductions = (1 - means[0] / means[1]) * 100
        reach = interval_of(reductions)
        return reach if np.isfinite(reach).all() else None


def _resampled_means(seeds: list[_Replayed], chosen: slice | npt.NDArray[np.bool_], weights: Floats) -> Floats:
    """(RESAMPLES,) mean TTFT of resamples of the chosen windows."""
    sums, counts = (
        np.concatenate([_grouped(replayed[k][chosen]) for replayed in seeds]) for k in range(len(_Replayed._fields))
    )
    return resampled_means(weights, sums, counts)


def _grouped(values: Floats) -> Floats:
    return np.asarray(np.add.reduceat(values, group_starts(len(values))))
