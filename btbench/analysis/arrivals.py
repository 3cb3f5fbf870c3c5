"""When requests arrive: rate, peaks, how bunched they are, and timestamps that many of them share.

Windows of a trace stand for themselves: their spans add up, gaps and counts of all of them are pooled, and a peak is
the largest of any.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from btbench.analysis.statistics import Distribution, distribution
from btbench.jit import kernel
from btbench.trace import Trace

DISPERSION_WINDOWS_S = (1.0, 10.0, 60.0, 600.0)
RATE_BINS = 120  # at most, over the whole trace
_NICE_S = (0.001, 0.01, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0)
TICKED_SHARE = 0.1  # of requests that share a timestamp, from which on the clock is said to tick


@dataclass(frozen=True)
class Peak:
    """The most requests within any window of this length."""

    window_s: float
    max_requests: int
    peak_to_mean: float | None  # against mean rate × window


@dataclass(frozen=True)
class Dispersion:
    """Variance over mean of the requests in each whole bin of this length: 1 for a Poisson process."""

    window_s: float
    bins: int
    index: float


@dataclass(frozen=True)
class Rate:
    """Requests by bins of time, windows of the trace laid end to end."""

    bin_s: float
    requests: list[int]


@dataclass(frozen=True)
class Ticks:
    """How coarse the clock is. Requests on one timestamp arrive at once in a replay, whatever they did in life."""

    distinct_times: int
    requests_sharing: int  # requests whose arrival time another one has too
    largest: int  # requests on one timestamp
    median_step_s: float | None  # between neighbouring distinct times
    ticked: bool  # at least a tenth of the requests share


@dataclass(frozen=True)
class Arrivals:
    """Everything about arrival times alone."""

    gaps_s: Distribution | None  # between neighbouring requests
    gap_variation: float | None  # standard deviation over mean of the gaps: 1 for a Poisson process
    dispersion: list[Dispersion]
    rate: Rate


@kernel
def _most_within(arrival_s, window_s):  # type: ignore[no-untyped-def]
    most = 0
    left = 0
    for right in range(len(arrival_s)):
        while arrival_s[right] - arrival_s[left] > window_s:
            left += 1
        most = max(most, right - left + 1)
    return most


def each_window(trace: Trace) -> list[npt.NDArray[np.float64]]:
    """The arrival times of each window that has requests."""
    return [trace.arrival_s[w.start : w.stop] for w in trace.windows if w.stop > w.start]


def total_span_s(trace: Trace) -> float:
    """Last less first arrival, added up over the windows."""
    return float(sum(times[-1] - times[0] for times in each_window(trace)))


def arrival_peaks(trace: Trace, windows_s: tuple[float, ...]) -> list[Peak]:
    """The largest number of requests within any window of each length."""
    span = total_span_s(trace)
    peaks = []
    for window_s in windows_s:
        most = max((int(_most_within(times, window_s)) for times in each_window(trace)), default=0)
        mean = len(trace) / span * window_s if span > 0 else 0.0
        peaks.append(Peak(window_s, most, most / mean if mean else None))
    return peaks


def find_ticks(trace: Trace) -> Ticks:
    """How many requests share their timestamps."""
    sizes, steps = [], []
    for times in each_window(trace):
        distinct, counts = np.unique(times, return_counts=True)
        sizes.append(counts)
        steps.append(np.diff(distinct))
    size = np.concatenate([*sizes, np.empty(0, np.int64)]).astype(np.int64)
    step = np.concatenate([*steps, np.empty(0)])
    sharing = int(size[size > 1].sum())
    return Ticks(
        distinct_times=len(size),
        requests_sharing=sharing,
        largest=int(size.max(initial=0)),
        median_step_s=round(float(np.median(step)), 9) if len(step) else None,
        ticked=sharing > 0 and sharing >= TICKED_SHARE * len(trace),
    )


def _dispersion(trace: Trace, window_s: float) -> Dispersion | None:
    bins = 0
    some = []  # requests of each bin that has any: most of a long trace may be empty
    for times in each_window(trace):
        whole = int((times[-1] - times[0]) / window_s)  # the rest behind the last whole bin is left out
        numbers = ((times - times[0]) / window_s).astype(np.int64)
        some.append(np.unique(numbers[numbers < whole], return_counts=True)[1])
        bins += whole
    counts = np.concatenate(some) if some else np.empty(0)
    if bins < 2 or len(counts) == 0:
        return None
    mean = counts.sum() / bins
    return Dispersion(window_s, bins, float(((counts.astype(np.float64) ** 2).sum() / bins - mean**2) / mean))


def _rate(trace: Trace) -> Rate:
    spans = [float(times[-1] - times[0]) for times in each_window(trace)]
    wanted = sum(spans) / RATE_BINS
    bin_s = next((nice for nice in _NICE_S if nice >= wanted), wanted)
    starts = np.concatenate([[0.0], np.cumsum(spans)])
    laid = [times - times[0] + start for times, start in zip(each_window(trace), starts, strict=False)]
    numbers = (np.concatenate([*laid, np.empty(0)]) / bin_s).astype(np.int64)
    return Rate(bin_s, np.bincount(numbers).tolist())


def measure_arrivals(trace: Trace) -> Arrivals:
    """Gaps, dispersion and rate of a trace with times."""
    gaps = np.concatenate([*(np.diff(times) for times in each_window(trace)), np.empty(0)])
    mean = float(gaps.mean()) if len(gaps) else 0.0
    found = [_dispersion(trace, window_s) for window_s in DISPERSION_WINDOWS_S]
    return Arrivals(
        gaps_s=distribution(gaps),
        gap_variation=float(gaps.std()) / mean if mean else None,
        dispersion=[one for one in found if one is not None],
        rate=_rate(trace),
    )
