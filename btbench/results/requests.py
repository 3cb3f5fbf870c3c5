"""Every request and every copy of a replay as rows: what `requests.parquet` and `copies.parquet` hold.

A request that the policy turned away (its replica is -1) has no times: it has no row, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from btbench.cluster.setup import Setup
from btbench.engine.run import TIERS, Run, Served
from btbench.policies.registry import Policy
from btbench.trace import Trace, Window

REQUEST_SCHEMA = pl.Schema(
    {
        "setup": pl.String,
        "policy": pl.String,
        "window": pl.String,  # its id
        "part": pl.String,  # its label, "" where it has none
        "request": pl.Int64,  # position in the window, in arrival order
        "replica": pl.Int64,  # position in the cluster
        "input_tokens": pl.Int64,
        "output_tokens": pl.Int64,
        "arrival_s": pl.Float64,
        "start_s": pl.Float64,
        "reuse_s": pl.Float64,
        "prefill_s": pl.Float64,
        "ttft_s": pl.Float64,
        "finish_s": pl.Float64,
        "hit_tokens": pl.Int64,
        "tier": pl.String,  # hbm, ram, disk, miss
    }
)

COPY_SCHEMA = pl.Schema(
    {
        "setup": pl.String,
        "policy": pl.String,
        "window": pl.String,
        "request": pl.Int64,  # at whose arrival it was asked for
        "source": pl.Int64,  # replica that held the prefix
        "target": pl.Int64,  # replica it was copied to
        "start_s": pl.Float64,
        "ready_s": pl.Float64,
        "bytes": pl.Float64,  # moved
        "used": pl.Boolean,  # a later request found it
    }
)

DURATIONS = {  # what the metrics of the summary are statistics of, from the columns of `requests.parquet`
    "ttft": pl.col("ttft_s"),
    "queue": pl.col("start_s") - pl.col("arrival_s"),
    "reuse": pl.col("reuse_s"),
    "prefill": pl.col("prefill_s"),
    "e2e": pl.col("finish_s") - pl.col("arrival_s"),
}

CHUNK_ROWS = 1 << 18  # rows turned into a frame at a time, so that millions of requests stay small in memory


@dataclass(frozen=True)
class Requests:
    """The requests of some windows of a trace that were served, and how, one entry a request, windows in order."""

    windows: tuple[Window, ...]
    window: npt.NDArray[np.int32]  # index into `windows`
    position: npt.NDArray[np.int64]  # in the window
    arrival_s: npt.NDArray[np.float64]
    input_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    floor_ttft_s: npt.NDArray[np.float64]  # what no policy can beat
    served: Served
    rejected: int  # how many more there were that the policy turned away

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def queue_s(self) -> npt.NDArray[np.float64]:
        """Wait from arrival to admission."""
        return self.served.start_s - self.arrival_s

    @property
    def ttft_s(self) -> npt.NDArray[np.float64]:
        """Time to the first token: queue wait, then reuse, then prefill, added in this order."""
        return self.queue_s + self.served.reuse_s + self.served.prefill_s

    @property
    def e2e_s(self) -> npt.NDArray[np.float64]:
        """Time from arrival to the last token."""
        return self.served.finish_s - self.arrival_s


def pool_requests(trace: Trace, windows: Sequence[Window], runs: Sequence[Run]) -> Requests:
    """The requests of `windows`, replayed as `runs` (one a window, in the same order), in one row of arrays.

    Those that were turned away are left out and counted.
    """
    sizes = [window.stop - window.start for window in windows]
    for window, size, run in zip(windows, sizes, runs, strict=True):
        if len(run.served.start_s) != size:
            raise ValueError(f"window {window.name!r} has {size} requests, its run {len(run.served.start_s)}")
    served = [_served(run) for run in runs]

    def join(columns: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.concatenate([column[kept] for column, kept in zip(columns, served, strict=True)])

    def of_trace(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return join(column[window.start : window.stop] for window in windows)

    arrival_s = of_trace(trace.arrival_s)
    return Requests(
        windows=tuple(windows),
        window=join(np.full(size, k, np.int32) for k, size in enumerate(sizes)),
        position=join(np.arange(size, dtype=np.int64) for size in sizes),
        arrival_s=arrival_s,
        input_tokens=of_trace(trace.input_tokens),
        output_tokens=of_trace(trace.output_tokens),
        floor_ttft_s=join(run.floor_ttft_s for run in runs),
        served=Served._make(map(join, zip(*(run.served for run in runs), strict=True))),
        rejected=sum(sizes) - len(arrival_s),
    )


def _served(run: Run) -> slice | npt.NDArray[np.bool_]:
    """Which requests were served: all of them, as a rule, so that nothing need be picked out."""
    served = run.served.replica >= 0
    return slice(None) if served.all() else served


def request_frames(setup: str, policy: str, requests: Requests, rows: int = CHUNK_ROWS) -> Iterator[pl.DataFrame]:
    """The requests as frames of REQUEST_SCHEMA of at most `rows` rows, in order."""
    names = pl.Series([window.name for window in requests.windows], dtype=pl.String)
    labels = pl.Series([window.label for window in requests.windows], dtype=pl.String)
    tiers = pl.Series(TIERS, dtype=pl.String)
    numbers = requests.served._asdict() | {
        "request": requests.position,
        "input_tokens": requests.input_tokens,
        "output_tokens": requests.output_tokens,
        "arrival_s": requests.arrival_s,
        "ttft_s": requests.ttft_s,
    }
    for start in range(0, len(requests), rows):
        cut = slice(start, start + rows)
        window = pl.Series(requests.window[cut])
        frame = pl.DataFrame({name: column[cut] for name, column in numbers.items()}).with_columns(
            setup=pl.lit(setup),
            policy=pl.lit(policy),
            window=names.gather(window),
            part=labels.gather(window),
            tier=tiers.gather(pl.Series(requests.served.tier[cut])),
        )
        yield frame.select(REQUEST_SCHEMA.names()).cast(REQUEST_SCHEMA)


def requests_frame(trace: Trace, setup: Setup, policy: Policy, runs: Sequence[Run]) -> pl.DataFrame:
    """One row a request of the whole trace that was served, windows in order, columns as in REQUEST_SCHEMA.

    `runs` holds one run for each window of the trace.
    """
    return pl.concat(request_frames(setup.name, policy.name, pool_requests(trace, trace.windows, runs)))


def copies_frame(trace: Trace, setup: Setup, policy: Policy, runs: Sequence[Run]) -> pl.DataFrame:
    """One row a copy, windows in order, copies in the order they were started, columns as in COPY_SCHEMA."""
    frames = [COPY_SCHEMA.to_frame()]
    for window, run in zip(trace.windows, runs, strict=True):
        copies = run.copies
        frames.append(
            pl.DataFrame(
                {
                    "setup": [setup.name] * len(copies.request),
                    "policy": [policy.name] * len(copies.request),
                    "window": [window.name] * len(copies.request),
                    "request": copies.request.astype(np.int64),
                    "source": copies.source.astype(np.int64),
                    "target": copies.target.astype(np.int64),
                    "start_s": copies.start_s,
                    "ready_s": copies.ready_s,
                    "bytes": copies.blocks * run.block_bytes,
                    "used": copies.used,
                },
                schema=COPY_SCHEMA,
            )
        )
    return pl.concat(frames)
