"""The registry of metrics: one row a metric, and nothing about a metric anywhere else.

The columns of `summary.json` and `summary.csv` behind `setup`, `policy` and `part`, in this order, the rows of
`btbench list metrics` and the names a `--fail-on` gate may use all come from here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from btbench.errors import UsageError, nearest

Better = Literal["lower", "higher", "neither"]


class Metric(NamedTuple):
    """What a number of the summary is."""

    name: str
    unit: str  # of the number as stored: s, 1 (a share), %, bytes, or what is counted
    better: Better
    formula: str

    @property
    def words(self) -> str:
        """Its name in running text: mean TTFT, HBM hit rate, copied bytes."""
        if self.name in _PHRASES:
            return _PHRASES[self.name]
        plain = self.name.removesuffix("_s" if self.unit == "s" else "_pct")
        return " ".join(_WORDS.get(word, word) for word in plain.split("_"))


_WORDS = {"ttft": "TTFT", "e2e": "end to end", "hbm": "HBM", "ram": "RAM", "per": "/", "queue": "queue wait"}

_PHRASES = {
    "mean_reduction_pct": "reduction of mean TTFT",
    "p95_reduction_pct": "reduction of p95 TTFT",
    "floor_mean_ttft_s": "floor of mean TTFT",
    "gap_closed_pct": "share of the gap closed",
    "rejected": "rejected requests",
    "mean_reduction_low_pct": "reduction of mean TTFT, low end",
    "mean_reduction_high_pct": "reduction of mean TTFT, high end",
}

_TTFT = "start - arrival + reuse + prefill"
_QUEUE = "start - arrival"
_REUSE = "min(loading the cached prefix, prefilling it)"
_PREFILL = "prefill of the tokens not found in a cache"
_E2E = "finish - arrival"
_INTERVAL = "95% interval of mean_reduction_pct: 1,000 bootstrap resamples of windows, and of a seed for each"


def _p(percent: int, of: str) -> str:
    return f"p{percent} of ({of}): element int({percent / 100:.2f} n) of the sorted values"


METRICS = (
    Metric("requests", "requests", "neither", "requests replayed, all windows of the part"),
    Metric("mean_ttft_s", "s", "lower", f"mean of TTFT = {_TTFT}"),
    Metric("p50_ttft_s", "s", "lower", _p(50, _TTFT)),
    Metric("p90_ttft_s", "s", "lower", _p(90, _TTFT)),
    Metric("p95_ttft_s", "s", "lower", _p(95, _TTFT)),
    Metric("p99_ttft_s", "s", "lower", _p(99, _TTFT)),
    Metric("max_ttft_s", "s", "lower", f"largest ({_TTFT})"),
    Metric("mean_queue_s", "s", "lower", f"mean of queue wait = {_QUEUE}"),
    Metric("p95_queue_s", "s", "lower", _p(95, _QUEUE)),
    Metric("mean_reuse_s", "s", "lower", f"mean of reuse = {_REUSE}"),
    Metric("p95_reuse_s", "s", "lower", _p(95, _REUSE)),
    Metric("mean_prefill_s", "s", "lower", f"mean of prefill = {_PREFILL}"),
    Metric("p95_prefill_s", "s", "lower", _p(95, _PREFILL)),
    Metric("mean_e2e_s", "s", "lower", f"mean of end to end = {_E2E}"),
    Metric("p95_e2e_s", "s", "lower", _p(95, _E2E)),
    Metric("hit_rate", "1", "higher", "hit tokens / input tokens"),
    Metric("hbm_hit_rate", "1", "higher", "hit tokens of requests whose prefix was all in HBM / input tokens"),
    Metric("ram_hit_rate", "1", "neither", "hit tokens of requests that loaded from host RAM / input tokens"),
    Metric("disk_hit_rate", "1", "neither", "hit tokens of requests that loaded from disk / input tokens"),
    Metric("replica_use_mean", "1", "neither", "busy time / makespan of a replica, all windows; mean over replicas"),
    Metric("replica_use_min", "1", "neither", "the same, the least used replica"),
    Metric("replica_use_max", "1", "neither", "the same, the most used replica"),
    Metric("copies", "copies", "neither", "prefixes copied from replica to replica"),
    Metric("copied_bytes", "bytes", "lower", "sum over copies of their bytes"),
    Metric("unused_copies", "copies", "lower", "copies that no later request found"),
    Metric("mean_reduction_pct", "%", "higher", "(baseline - policy) / baseline x 100, of mean TTFT"),
    Metric("p95_reduction_pct", "%", "higher", "(baseline - policy) / baseline x 100, of p95 TTFT"),
    Metric("engine_s", "s", "neither", "time of one core in the compiled replay alone: no parsing, no compiling"),
    Metric("requests_per_s", "requests/s", "neither", "requests / engine time"),
    Metric(
        "floor_mean_ttft_s",
        "s",
        "neither",
        "mean TTFT with no queue, on the fastest replica, what earlier requests brought in being in HBM",
    ),
    Metric("gap_closed_pct", "%", "higher", "(baseline - policy) / (baseline - floor) x 100, of mean TTFT"),
    Metric("rejected", "requests", "lower", "requests that the policy turned away; in no number but requests"),
    Metric("mean_reduction_low_pct", "%", "higher", f"low end of the {_INTERVAL}"),
    Metric("mean_reduction_high_pct", "%", "higher", f"high end of the {_INTERVAL}"),
)

BY_NAME = {metric.name: metric for metric in METRICS}
MACHINE_METRICS = ("engine_s", "requests_per_s")  # of this machine and hour, not of the policy: never on stdout
COUNTS = ("requests", "copies", "unused_copies", "rejected")  # whole numbers
NULLABLE = (  # None where there is nothing to divide by, or requests were turned away
    "mean_reduction_pct",
    "p95_reduction_pct",
    "requests_per_s",
    "gap_closed_pct",
    "mean_reduction_low_pct",  # or too few windows to resample
    "mean_reduction_high_pct",
)
LATER = (
    "floor_mean_ttft_s",
    "gap_closed_pct",
    "rejected",
    "mean_reduction_low_pct",
    "mean_reduction_high_pct",
)  # None in results made before they were added
STABLE_METRICS = tuple(metric for metric in METRICS if metric.name not in MACHINE_METRICS)


def find_metric(name: str) -> Metric:
    """The metric of this name. Raises UsageError with the nearest spelling."""
    if name not in BY_NAME:
        raise UsageError(f"unknown metric {name!r}", nearest(name, list(BY_NAME)))
    return BY_NAME[name]
