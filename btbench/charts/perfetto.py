"""One window as a Chrome trace, for Perfetto (ui.perfetto.dev): a process a policy and replica, tracks for its work.

Google's Trace Event Format: `X` are slices of which none overlap (prefill, receiving a copy), `b` and `e` the ends of
those that do (waits in the queue, decoding, sending a copy; matched by `cat` and `id`, which are those of no other
process), `C` counters, `M` names. Times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from btbench.charts.view import View
from btbench.charts.window import Choice, Replayed, WindowView, need_window

QUEUE, PREFILL, DECODE, COPY = TRACKS = (1, 2, 3, 4)
_TRACK_NAMES = ("queue", "prefill", "decode", "copy")


def write_perfetto(view: View, choice: Choice, path: Path) -> None:
    """Write the window as `path`. Raises OutputError where the result holds no requests."""
    shown = need_window(view, choice)
    with path.open("w", encoding="utf-8") as stream:
        stream.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        separator = ""
        for frame in _events(shown):
            if len(frame):
                stream.write(separator)
                stream.write(",\n".join(frame.select(pl.struct(pl.all()).struct.json_encode()).to_series()))
                separator = ",\n"
        stream.write("\n]}\n")


def _events(shown: WindowView) -> Iterator[pl.DataFrame]:
    """Frames of events of the same shape."""
    for k, (policy, replayed) in enumerate(shown.policies.items()):
        first_pid = 1 + k * len(shown.replicas)
        yield from _names(shown, policy, first_pid)
        yield from _requests(replayed, first_pid, shown.span_s)
        yield from _copies(shown, replayed, first_pid)
        for replica in range(len(shown.replicas)):
            yield _counters(replayed, replica, first_pid + replica, shown.span_s)


def _names(shown: WindowView, policy: str, first_pid: int) -> Iterator[pl.DataFrame]:
    replicas = pl.DataFrame({"replica": shown.replicas}).with_row_index("pid", first_pid)
    name = pl.struct(name=pl.lit(f"{policy} · ") + pl.col("replica"))
    yield replicas.select(ph=pl.lit("M"), name=pl.lit("process_name"), pid="pid", args=name)
    order = pl.struct(sort_index=pl.col("pid"))
    yield replicas.select(ph=pl.lit("M"), name=pl.lit("process_sort_index"), pid="pid", args=order)
    for tid, track in zip(TRACKS, _TRACK_NAMES, strict=True):
        name = pl.struct(name=pl.lit(track))
        yield replicas.select(ph=pl.lit("M"), name=pl.lit("thread_name"), pid="pid", tid=pl.lit(tid), args=name)


def _requests(replayed: Replayed, first_pid: int, span_s: tuple[float, float]) -> Iterator[pl.DataFrame]:
    requests = pl.DataFrame(
        {
            "request": replayed.request,
            "pid": replayed.replica + first_pid,
            "arrival": replayed.arrival_s,
            "start": replayed.start_s,
            "loaded": replayed.loaded_s,
            "first": replayed.first_token_s,
            "finish": replayed.finish_s,
            "input_tokens": replayed.input_tokens,
            "hit_tokens": replayed.hit_tokens,
        }
    ).filter((pl.col("finish") >= span_s[0]) & (pl.col("arrival") <= span_s[1]))
    args = pl.struct("input_tokens", "hit_tokens", "request")
    requests = requests.with_columns(id=pl.col("request") + first_pid * (int(replayed.request[-1]) + 1))
    yield from _overlapping(requests, pl.lit("queue"), QUEUE, "arrival", "start", args)
    yield _slices(requests, pl.lit("reuse"), PREFILL, "start", "loaded", args)
    yield _slices(requests, pl.lit("prefill"), PREFILL, "loaded", "first", args)
    yield from _overlapping(requests, pl.lit("decode"), DECODE, "first", "finish", args)


def _copies(shown: WindowView, replayed: Replayed, first_pid: int) -> Iterator[pl.DataFrame]:
    copied = replayed.copied
    names = pl.Series(shown.replicas, dtype=pl.String)
    copies = pl.DataFrame(
        {
            "copy": np.arange(len(copied.source)),
            "source": names.gather(copied.source),
            "target": names.gather(copied.target),
            "sender": copied.source + first_pid,
            "receiver": copied.target + first_pid,
            "start": copied.start_s,
            "ready": copied.ready_s,
            "used": copied.used,
        }
    ).filter((pl.col("ready") >= shown.span_s[0]) & (pl.col("start") <= shown.span_s[1]))
    copies = copies.with_columns(id=pl.col("copy") + first_pid * len(copied.source))
    args = pl.struct("used", "copy")
    into, out = pl.format("copy from {}", "source"), pl.format("copy to {}", "target")
    yield _slices(copies.with_columns(pid="receiver"), into, COPY, "start", "ready", args)
    yield from _overlapping(copies.with_columns(pid="sender"), out, COPY, "start", "ready", args)


def _slices(frame: pl.DataFrame, name: pl.Expr, tid: int, begin: str, end: str, args: pl.Expr) -> pl.DataFrame:
    """Those that last longer than nothing."""
    span = {"ts": _us(begin), "dur": (_us(end) - _us(begin)).round(3)}
    lasting = frame.filter(pl.col(end) > pl.col(begin))
    return lasting.select(ph=pl.lit("X"), name=name, pid="pid", tid=pl.lit(tid), **span, args=args)


def _overlapping(
    frame: pl.DataFrame, name: pl.Expr, tid: int, begin: str, end: str, args: pl.Expr
) -> Iterator[pl.DataFrame]:
    lasting = frame.filter(pl.col(end) > pl.col(begin))
    track = {"cat": name, "name": name, "pid": pl.col("pid"), "tid": pl.lit(tid), "id": pl.col("id")}
    yield lasting.select(ph=pl.lit("b"), **track, ts=_us(begin), args=args)
    yield lasting.select(ph=pl.lit("e"), **track, ts=_us(end))


def _counters(replayed: Replayed, replica: int, pid: int, span_s: tuple[float, float]) -> pl.DataFrame:
    """Requests queued and running on one replica, at every moment at which they change."""
    here = replayed.replica == replica
    count = int(here.sum())
    moments = np.concatenate([replayed.arrival_s[here], replayed.start_s[here], replayed.finish_s[here]])
    steps = pl.DataFrame(
        {
            "moment": moments,
            "queued": np.repeat([1, -1, 0], count),
            "running": np.repeat([0, 1, -1], count),
        }
    )
    levels = (
        steps.group_by("moment")
        .agg(pl.col("queued", "running").sum())
        .sort("moment")
        .with_columns(pl.col("queued", "running").cum_sum())
        .filter(pl.col("moment").is_between(*span_s))
    )
    args = pl.struct("queued", "running")
    return levels.select(ph=pl.lit("C"), name=pl.lit("requests"), pid=pl.lit(pid), ts=_us("moment"), args=args)


def _us(moment: str) -> pl.Expr:
    return (pl.col(moment) * 1e6).round(3)
