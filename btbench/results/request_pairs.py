"""The requests of two results, paired by identity where they are the same ones, and the intervals drawn from them."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from btbench.errors import OutputError
from btbench.results.bootstrap import Interval, mean_interval, percentile_interval
from btbench.results.files import REQUESTS, Result
from btbench.results.requests import DURATIONS
from btbench.results.stored import scan_requests
from btbench.results.summary import ALL

_STATISTIC = re.compile(rf"(mean|p50|p90|p95|p99)_({'|'.join(DURATIONS)})_s")
_IDENTITY = ("window", "request", "input_tokens", "output_tokens")


class RequestPairs:
    """Reads the requests of one setup and policy at a time."""

    def __init__(self, a: Result, b: Result) -> None:
        self._files = [result.folder / REQUESTS for result in (a, b) if result.folder]
        stored = [scan_requests(result) for result in (a, b)]  # damaged ones are told even where none are needed
        self._known = all(frame is not None for frame in stored)
        origins = a.provenance.trace, b.provenance.trace
        digests = [origin.digest if origin else "" for origin in origins]
        self._same_trace = bool(digests[0]) and digests[0] == digests[1]
        self._cell: tuple[str, str] | None = None
        self._frames: list[pl.DataFrame] = []
        self._reasons: dict[str, None] = {}  # in order, each once
        self.paired = False

    @property
    def notes(self) -> list[str]:
        """Why there are no intervals, or why requests are not paired."""
        return list(self._reasons)

    def interval(self, key: tuple[str, str, str], metric: str) -> Interval | None:
        """Of the difference of a statistic over requests; None for other metrics and where requests are not stored."""
        statistic = _STATISTIC.fullmatch(metric)
        if statistic is None:
            return None
        if not self._known:
            self._reasons["No intervals: requests.parquet is not beside both summaries."] = None
            return None
        setup, policy, part = key
        self._load(setup, policy)
        chosen = [frame if part == ALL else frame.filter(pl.col("part") == part) for frame in self._frames]
        if any(frame.is_empty() for frame in chosen):
            raise OutputError(f"{REQUESTS} of a result has no requests of {' '.join(key)}", "Make the result again.")
        name, duration = statistic.groups()
        a, b = (frame[duration].to_numpy() for frame in chosen)
        if name == "mean":
            return mean_interval(a, b, self.paired)
        return percentile_interval(a, b, int(name[1:]) / 100, self.paired)

    def _load(self, setup: str, policy: str) -> None:
        if self._cell == (setup, policy):
            return
        self._cell = (setup, policy)
        self._frames = [_read_requests(file, setup, policy) for file in self._files]
        one, other = (frame.select(_IDENTITY) for frame in self._frames)
        self.paired = self._same_trace and one.equals(other)
        if not self._same_trace:
            self._reasons["Unpaired: the traces differ, or are not known to be the same."] = None
        elif not self.paired:
            self._reasons[f"Unpaired: {setup} {policy} served other requests of the trace."] = None


def _read_requests(file: Path, setup: str, policy: str) -> pl.DataFrame:
    """Identity, part and durations of the requests of one setup and policy."""
    try:
        return (
            pl.scan_parquet(file)
            .filter(pl.col("setup") == setup, pl.col("policy") == policy)
            .select(*_IDENTITY, "part", **DURATIONS)
            .collect()
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise OutputError(f"{file} is damaged: {error}", "Make the result again with `btbench replay`.") from None
