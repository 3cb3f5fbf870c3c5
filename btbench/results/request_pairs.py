"""The requests of two results, paired by identity where they are the same ones, and the intervals drawn from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isclose
from typing import NamedTuple

import numpy as np
import polars as pl

from btbench.errors import OutputError
from btbench.results import bootstrap, window_bootstrap
from btbench.results.bootstrap import Interval
from btbench.results.files import AGAIN, REQUESTS, Result
from btbench.results.requests import DURATIONS
from btbench.results.stored import collect, scan_requests
from btbench.results.summary import ALL, Row, percentile
from btbench.results.window_bootstrap import Windowed
from btbench.results.window_draws import FEWEST, Floats

_STATISTIC = re.compile(rf"(?P<name>mean|p50|p90|p95|p99)_(?P<duration>{'|'.join(DURATIONS)})_s")
_PLACE = ("window", "request")
_IDENTITY = (*_PLACE, "input_tokens", "output_tokens")


class Drawn(NamedTuple):
    """An interval, and what it was drawn from."""

    interval: Interval  # of b - a
    paired: bool  # whether the same windows or requests were drawn in both
    windows: tuple[int, int] | None  # of A and of B, where whole ones were drawn; None where single requests were


class RequestPairs:
    """Reads the requests of one setup and policy at a time."""

    def __init__(self, a: Result, b: Result) -> None:
        self._results = a, b
        self._stored = [scan_requests(result) for result in (a, b)]  # damaged ones are told even where none are needed
        self._all_stored = all(frame is not None for frame in self._stored)
        origins = a.provenance.trace, b.provenance.trace
        digests = [origin.digest if origin else "" for origin in origins]
        self._same_trace = bool(digests[0]) and digests[0] == digests[1]
        self._cell: tuple[str, str] | None = None
        self._frames: list[pl.DataFrame] = []
        self._same_requests = self._same_windows = False
        self._reasons: dict[str, None] = {}  # in order, each once

    @property
    def notes(self) -> list[str]:
        """Why there are no intervals, or why requests are not paired."""
        return list(self._reasons)

    def check(self, row: Row, rival: Row, metric: str) -> None:
        """Raise OutputError where rows of A and B of the same key tell something else than their requests."""
        if (statistic := _STATISTIC.fullmatch(metric)) and self._all_stored:
            self._frames_of(row, rival, statistic)

    def draw(self, row: Row, rival: Row, metric: str) -> Drawn | None:
        """Check both rows, and draw the difference of a statistic over requests.

        None for other metrics, where there is no difference and where requests are not stored.
        """
        statistic = _STATISTIC.fullmatch(metric)
        if statistic is None:
            return None
        if not self._all_stored:
            self._reasons["No intervals: requests.parquet is not beside both summaries."] = None
            return None
        frames = self._frames_of(row, rival, statistic)
        if row[metric] == rival[metric]:
            return None
        names = [frame["window"].unique(maintain_order=True) for frame in frames]
        draw = self._draw_windows if min(map(len, names)) >= FEWEST else self._draw_requests
        return draw(frames, names, statistic["duration"], _share(statistic))

    def _frames_of(self, row: Row, rival: Row, statistic: re.Match[str]) -> list[pl.DataFrame]:
        """The requests of both rows, from which they follow."""
        self._load(row.setup, row.policy)
        frames = [frame if row.part == ALL else frame.filter(pl.col("part") == row.part) for frame in self._frames]
        for result, of, frame in zip(self._results, (row, rival), frames, strict=True):
            _check(result, of, statistic[0], frame[statistic["duration"]].to_numpy(), _share(statistic))
        return frames

    def _draw_windows(
        self, frames: Sequence[pl.DataFrame], names: Sequence[pl.Series], duration: str, share: float | None
    ) -> Drawn:
        paired = self._same_windows and names[0].sort().equals(names[1].sort())
        self._tell(paired)
        windowed = []
        for stream, frame in enumerate(frames):
            known = names[0 if paired else stream]
            window = frame["window"].cast(pl.Enum(known)).to_physical().to_numpy().astype(np.int64)
            windowed.append(Windowed(frame[duration].to_numpy(), window, len(known), 0 if paired else stream))
        a, b = windowed
        if share is None:
            interval = window_bootstrap.mean_interval(a, b)
        else:
            interval = window_bootstrap.percentile_interval(a, b, share)
        return Drawn(interval, paired, (len(names[0]), len(names[1])))

    def _draw_requests(
        self, frames: Sequence[pl.DataFrame], names: Sequence[pl.Series], duration: str, share: float | None
    ) -> Drawn:
        paired = self._same_requests
        self._tell(paired)
        a, b = (frame[duration].to_numpy() for frame in frames)
        if share is None:
            return Drawn(bootstrap.mean_interval(a, b, paired), paired, None)
        return Drawn(bootstrap.percentile_interval(a, b, share, paired), paired, None)

    def _tell(self, paired: bool) -> None:
        if not self._same_trace:
            self._reasons["Unpaired: the traces differ, or are not known to be the same."] = None
        elif not paired:
            self._reasons[f"Unpaired: {' '.join(self._cell or ())} served other requests of the trace."] = None

    def _load(self, setup: str, policy: str) -> None:
        if self._cell == (setup, policy):
            return
        self._cell = (setup, policy)
        self._frames = []
        for result, stored in zip(self._results, self._stored, strict=True):
            assert stored is not None
            of_cell = stored.filter(pl.col("setup") == setup, pl.col("policy") == policy)
            self._frames.append(collect(result, REQUESTS, of_cell.select(*_IDENTITY, "part", **DURATIONS)))
        one, other = (frame.select(_IDENTITY) for frame in self._frames)
        self._same_requests = self._same_trace and one.equals(other)
        self._same_windows = self._same_requests or (self._same_trace and _agree(one, other))


def _share(statistic: re.Match[str]) -> float | None:
    """Of the sorted values below a percentile; None for a mean."""
    return None if statistic["name"] == "mean" else int(statistic["name"][1:]) / 100


def _check(result: Result, row: Row, metric: str, values: Floats, share: float | None) -> None:
    """Raise OutputError where a row of the summary does not follow from its requests."""
    where = f"{result.folder} is damaged: {REQUESTS}"
    if not len(values):
        raise OutputError(f"{where} has no requests of {' '.join(row.key)}", AGAIN)
    found = float(values.mean()) if share is None else percentile(values, share)[0]
    told = row[metric]
    if told is None or not isclose(found, told, rel_tol=1e-6, abs_tol=1e-12):
        raise OutputError(
            f"{where} makes a {metric} of {found:.7g} of {' '.join(row.key)}, its summary tells {told}", AGAIN
        )


def _agree(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether the requests that both hold are the same: each may hold some that the other turned away."""
    both = one.join(other, on=_PLACE)
    return all(both[column].equals(both[f"{column}_right"]) for column in _IDENTITY[len(_PLACE) :])
