"""How sure the reduction of mean TTFT is: intervals over the windows of a trace, and over seeds of the policies' draws.

A resample draws whole windows with replacement, and for each of them the seed it was replayed with; the policy and its
baseline are drawn together (B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, percentile intervals).
Requests of one burst depend on each other, those of different windows do not: an interval says what other windows of
this kind would show.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.results.bootstrap import LEVEL, RESAMPLES, SEED, Interval
from btbench.results.requests import Requests
from btbench.trace import Trace

FEWEST = 5  # windows, or seeds of a trace of fewer windows, that an interval needs
MOST_DRAWN = 500  # above so many windows, neighbours are drawn together

Floats = npt.NDArray[np.float64]


class _Replayed(NamedTuple):
    """One setup and policy under one seed, by window."""

    ttft_s: Floats  # (windows,) sums
    requests: Floats  # (windows,) served ones


class Spread:
    """Takes what every setup and policy did in every window, once a seed, and says how far reductions reach."""

    def __init__(self, trace: Trace) -> None:
        self._labels = np.array([window.label for window in trace.windows])
        self._seen: dict[tuple[str, str], list[_Replayed]] = {}

    def add(self, setup: str, policy: str, requests: Requests) -> None:
        """Take all windows of the trace, replayed with one more seed."""
        ttft_s = requests.ttft_s
        sums = (np.bincount(requests.window, of, len(self._labels)) for of in (ttft_s, np.ones_like(ttft_s)))
        self._seen.setdefault((setup, policy), []).append(_Replayed(*(of.astype(np.float64) for of in sums)))

    def reduction_pct(self, setup: str, policy: str, baseline: str, label: str | None) -> Interval | None:
        """Of (baseline - policy) / baseline x 100 over the windows of a label, or all; None where too few are known."""
        chosen = slice(None) if label is None else self._labels == label
        of, base = (self._seen.get((setup, name), []) for name in (policy, baseline))
        if not of or len(of) != len(base):
            return None
        weights = _weights(len(of), len(of[0].ttft_s[chosen]))
        if weights is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [_resampled_means(seeds, chosen, weights) for seeds in (of, base)]
            reductions = (1 - means[0] / means[1]) * 100
        low, high = np.quantile(reductions, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(float(low), float(high)) if np.isfinite(low + high) else None


def _resampled_means(seeds: list[_Replayed], chosen: slice | npt.NDArray[np.bool_], weights: Floats) -> Floats:
    """(RESAMPLES,) mean TTFT of resamples of the chosen windows."""
    sums, counts = (
        np.concatenate([_grouped(replayed[k][chosen]) for replayed in seeds]) for k in range(len(_Replayed._fields))
    )
    # weights @ sums, but summed in one order on every machine
    return np.asarray((weights * sums).sum(axis=1) / (weights * counts).sum(axis=1))


def _grouped(values: Floats) -> Floats:
    if len(values) <= MOST_DRAWN:
        return values
    return np.asarray(np.add.reduceat(values, np.linspace(0, len(values), MOST_DRAWN, endpoint=False).astype(np.int64)))


@lru_cache(maxsize=4)
def _weights(seeds: int, windows: int) -> Floats | None:
    """(RESAMPLES, seeds * windows) how often a resample holds each window as replayed with each seed.

    Fewer windows than FEWEST are all taken, and the seed alone is drawn; None where there are as few seeds.
    """
    windows = min(windows, MOST_DRAWN)
    if max(windows, seeds) < FEWEST:
        return None
    rng = np.random.default_rng(SEED)
    every = np.broadcast_to(np.arange(windows), (RESAMPLES, windows))
    window = rng.integers(0, windows, (RESAMPLES, windows)) if windows >= FEWEST else every
    seed = rng.integers(0, seeds, (RESAMPLES, windows))
    resample = np.arange(RESAMPLES)[:, None]
    drawn = (resample * seeds + seed) * windows + window
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * seeds * windows)
    return counts.reshape(RESAMPLES, seeds * windows).astype(float)
