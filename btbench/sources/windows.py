"""Windows cut from one long trace: `count` × `rows`, or spans of time, from a row or from random places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.errors import ScenarioError
from btbench.runs import join_runs
from btbench.trace import Trace, Window
from btbench.trace_spec import MOST_WINDOWS, WindowSpec

MOST_REQUESTS = 100_000_000  # in all windows, which may overlap; some 100 bytes each


class Cut(NamedTuple):
    """Consecutive requests of a trace in arrival order, counted from 0."""

    start: int
    stop: int  # behind the last


def window_name(cut: Cut) -> str:
    """The id of a window that is cut from a trace."""
    return f"rows {cut.start}-{cut.stop - 1}"


def cut_named(name: str) -> Cut:
    """The cut that a window's id is of."""
    start, last = name.removeprefix("rows ").split("-")
    return Cut(int(start), int(last) + 1)


def is_cut(spec: WindowSpec | None) -> bool:
    """Whether windows are to be cut, rather than the rows' own used."""
    return spec is not None and (spec.count is not None or spec.rows is not None or spec.span_s is not None)


def check_windows(spec: WindowSpec) -> None:
    """Raises ScenarioError where the keys of `[trace.windows]` contradict each other."""
    if spec.by is not None and is_cut(spec):
        raise ScenarioError(
            "[trace.windows] has both by and count, rows or span_s.",
            "Allowed: by (and label_by) for the rows' own windows, or count with rows or span_s to cut some.",
        )
    if is_cut(spec) and (spec.rows is None) == (spec.span_s is None):
        found = "neither rows nor span_s" if spec.rows is None else "both rows and span_s"
        raise ScenarioError(f"[trace.windows] has {found}.", "Allowed: one of them says how long a window is.")
    if is_cut(spec) and spec.label_by is not None:
        raise ScenarioError(
            "[trace.windows] has label_by beside count, rows or span_s.",
            "Allowed: label_by with the rows' own windows; windows that are cut have no label.",
        )
    if spec.start == "random" and spec.count is None and is_cut(spec):
        raise ScenarioError('[trace.windows] has start = "random" without count.', "Allowed: a count of windows.")


def row_cuts(spec: WindowSpec, total: int, file: str) -> Iterator[Cut]:
    """Windows of `spec.rows` rows among `total`. Raises ScenarioError where they do not fit."""
    rows = spec.rows or 0
    first = 0 if spec.start == "random" else spec.start
    room = (total - first) // rows if total >= first else 0
    count = spec.count if spec.count is not None else room
    if spec.start == "random":
        if total < rows:
            raise ScenarioError(
                f"[trace.windows] rows = {rows}, but {file} has {total} rows.", f"Allowed: 1 to {total}."
            )
        _check_size(count, count * rows, file)
        draws = random.Random(spec.seed)
        starts = [draws.randrange(total - rows + 1) for _ in range(count)]
    else:
        if not 0 < count <= room:
            wanted = f"{count} windows" if count else "a window"
            raise ScenarioError(
                f"[trace.windows] asks for {wanted} of {rows} rows from row {first}, but {file} has {total} rows.",
                f"Allowed: at most {room} windows from there."
                if room
                else f"Allowed: start + rows of at most {total}.",
            )
        _check_size(count, count * rows, file)
        starts = [first + k * rows for k in range(count)]
    return (Cut(start, start + rows) for start in starts)


def _check_size(windows: int, requests: int, file: str) -> None:
    """Raises ScenarioError where windows are more than can be held, or than anyone can mean."""
    if windows > MOST_WINDOWS:
        raise ScenarioError(
            f"[trace.windows] cuts {file} into more than {MOST_WINDOWS} windows.",
            f"Allowed: a count of at most {MOST_WINDOWS}, or longer windows.",
        )
    if requests > MOST_REQUESTS:
        raise ScenarioError(
            f"[trace.windows] takes {requests} requests from {file}, in {windows} windows.",
            f"Allowed: at most {MOST_REQUESTS} in all windows; fewer or shorter ones.",
        )


def span_cuts(spec: WindowSpec, arrival_s: npt.NDArray[np.float64], file: str) -> Iterator[Cut]:
    """Windows of the requests that arrive less than `spec.span_s` behind their first; none is empty."""
    span_s = spec.span_s or 0.0
    whole = int(
        np.searchsorted(arrival_s, arrival_s[-1] - span_s, side="right")
    )  # rows with a whole span before the end
    if whole == 0:
        raise ScenarioError(
            f"[trace.windows] span_s = {span_s:g}, but {file} spans {arrival_s[-1] - arrival_s[0]:g} s.",
            "Allowed: a shorter span.",
        )
    if arrival_s[-1] + span_s == arrival_s[-1]:
        raise ScenarioError(
            f"[trace.windows] span_s = {span_s:g} is lost in the precision of the times of {file}.",
            f"Allowed: more than {np.spacing(arrival_s[-1]):g} s.",
        )
    if spec.start == "random":
        draws = random.Random(spec.seed)
        starts = [draws.randrange(whole) for _ in range(spec.count or 1)]
    else:
        starts = []
        at = spec.start
        while at < whole and len(starts) != spec.count and len(starts) <= MOST_WINDOWS:
            starts.append(at)
            at = int(np.searchsorted(arrival_s, arrival_s[at] + span_s, side="left"))
        if not starts or (spec.count is not None and len(starts) < spec.count):
            raise ScenarioError(
                f"[trace.windows] asks for {spec.count or 1} windows of {span_s:g} s from row {spec.start}, "
                f"but {file} holds {len(starts)}.",
                "Allowed: fewer or shorter windows, or an earlier start.",
            )
    stops = np.searchsorted(arrival_s, arrival_s[starts] + span_s, side="left").tolist()
    _check_size(len(starts), sum(stops) - sum(starts), file)
    return (Cut(start, stop) for start, stop in zip(starts, stops, strict=True))


def cut_windows(trace: Trace, spec: WindowSpec) -> Trace:
    """The windows asked for as a trace; arrivals count from the first row of each.

    Raises ScenarioError where the trace is too short, or is made of several windows already.
    """
    if len(trace.windows) > 1:
        raise ScenarioError(
            f"[trace.windows] cuts one long trace, but {trace.source or trace.name} has {len(trace.windows)} windows.",
            "Leave out count, rows and span_s to use them.",
        )
    name = trace.source or trace.name
    if spec.rows is not None:
        cuts = list(row_cuts(spec, len(trace), name))
    else:
        cuts = list(span_cuts(spec, trace.arrival_s, name))
    return take_cuts(trace, cuts)


def from_first_rows(trace: Trace) -> Trace:
    """The same windows, arrivals counted from the first row of each."""
    counted = take_cuts(trace, [Cut(window.start, window.stop) for window in trace.windows])
    return counted.with_changes(windows=trace.windows)


def take_cuts(trace: Trace, cuts: list[Cut]) -> Trace:
    """The requests of some cuts, which may overlap, each a window."""
    rows = np.concatenate([np.arange(cut.start, cut.stop) for cut in cuts])
    lengths = np.array([cut.stop - cut.start for cut in cuts])
    stops = np.cumsum(lengths)
    firsts = np.repeat(trace.arrival_s[[cut.start for cut in cuts]], lengths)
    parts = [trace.runs[trace.run_offsets[cut.start] : trace.run_offsets[cut.stop]] for cut in cuts]
    counts = np.diff(trace.run_offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    used, symbols = np.unique(np.concatenate(parts), return_inverse=True)
    packed = join_runs(symbols.astype(np.int32), offsets, trace.run_blocks[used], trace.tail_blocks[rows])
    return trace.with_changes(
        arrival_s=trace.arrival_s[rows] - firsts,
        input_tokens=trace.input_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        run_offsets=packed.offsets,
        runs=packed.runs,
        run_blocks=packed.run_blocks,
        tail_blocks=packed.tail_blocks,
        windows=tuple(
            Window(window_name(cut), "", int(stop - length), int(stop))
            for cut, stop, length in zip(cuts, stops, lengths, strict=True)
        ),
        session=None if trace.session is None else trace.session[rows],
        user=None if trace.user is None else trace.user[rows],
    )
