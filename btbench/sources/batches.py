"""Batch: some rows of a trace by column, checked and in seconds, on their way into a packed trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.sources.formats import UNITS_PER_S, Format
from btbench.sources.oddities import Intake

LARGEST_TOKENS = 2**53  # the largest count that float64 arithmetic keeps exact
LATEST_S = 1e11  # year 5138 for times since 1970


class Batch(NamedTuple):
    """Rows as read: values by role (`btbench.sources.formats.ROLES`), not yet checked."""

    rows: Sequence[int]  # 1-based line or row numbers
    columns: dict[str, Any]  # role -> list or array, one entry a row; `blocks` may be an Arrow list array


@dataclass
class Checked:
    """n rows whose numbers are in range."""

    rows: npt.NDArray[np.int64]  # (n,)
    arrival_s: npt.NDArray[np.float64]  # (n,) NaN where a row has no time of its own
    input_tokens: npt.NDArray[Any]  # (n,) int64, at least 0
    output_tokens: npt.NDArray[Any]  # (n,) int64, at least 0
    columns: dict[str, Any]  # the other roles


def _numbers(values: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Values as numbers (int64 where they all are), and where there is none."""
    if isinstance(values, np.ndarray):
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
        return values, missing
    try:
        array = np.array(values)
        if array.dtype.kind in "if":
            return array, np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), np.bool_)
    except (OverflowError, ValueError):
        pass
    missing = np.array([value is None for value in values], np.bool_)
    return np.array([_as_float(value) for value in values], np.float64), missing


def _as_float(value: Any) -> float:
    try:
        return 0.0 if value is None else float(value)
    except OverflowError:  # an integer of more than 308 digits
        return np.inf


def check_batch(batch: Batch, source: Format, unit: str, default_output: int | None, intake: Intake) -> Checked:
    """The rows of a batch that are in range, times in seconds; the others are refused one by one."""
    rows = np.asarray(batch.rows, np.int64)
    units_per_s = UNITS_PER_S.get(unit, 1.0)
    earliest = -LATEST_S if unit == "date" else 0.0  # dates count from the first row, which need not be the earliest
    nothing = [None] * len(rows)
    time, no_time = _numbers(batch.columns.get("time", nothing))
    tokens, no_input = _numbers(batch.columns.get("input", nothing))
    answer, no_output = _numbers(batch.columns.get("output", nothing))
    delays = batch.columns.get("delay", nothing)
    untimed = no_time if delays.count(None) == len(delays) else no_time & np.array([d is None for d in delays])
    faults = (
        (untimed, "time", time, "missing time"),
        (~no_time & ~_between(time, earliest * units_per_s, LATEST_S * units_per_s), "time", time, "time out of range"),
        (no_input, "input", tokens, "missing input length"),
        (~no_input & ~_is_length(tokens), "input", tokens, "length out of range"),
        (no_output & (default_output is None), "output", answer, "missing output length"),
        (~no_output & ~_is_length(answer), "output", answer, "length out of range"),
    )
    good = ~np.logical_or.reduce([mask for mask, *_ in faults])
    for i in np.flatnonzero(~good).tolist():
        role, values, kind = next((r, v, k) for mask, r, v, k in faults if mask[i])
        _refuse(int(rows[i]), source.column(role), values[i], kind, units_per_s, intake)
    if source.drops_failures:
        failed = good & (tokens == 0) & (answer == 0)
        intake.tally.add_where("failed requests (no tokens)", "dropped", failed, rows + intake.rows_before)
        good &= ~failed
    if default_output is not None:
        answer = np.where(no_output, default_output, answer)
        handling = f"taken as {default_output}"
        intake.tally.add_where("missing output length", handling, no_output & good, rows + intake.rows_before)
    arrival_s = np.where(no_time, np.nan, time / units_per_s)
    others = {k: v for k, v in batch.columns.items() if k not in ("time", "input", "output")}
    checked = Checked(rows, arrival_s, tokens, answer, others)
    checked = checked if good.all() else rows_where(checked, good)
    checked.input_tokens = checked.input_tokens.astype(np.int64, copy=False)
    checked.output_tokens = checked.output_tokens.astype(np.int64, copy=False)
    return checked


def _between(values: npt.NDArray[Any], least: float, most: float) -> npt.NDArray[np.bool_]:
    return (values >= least) & (values <= most)


def _is_length(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return _between(values, 0, LARGEST_TOKENS) & (values == np.floor(values))


def rows_where(rows: Checked, good: npt.NDArray[np.bool_]) -> Checked:
    """The rows of a mask."""

    def pick(values: Any) -> Any:
        return list(compress(values, good.tolist())) if isinstance(values, list) else values.filter(good)

    return Checked(
        rows.rows[good],
        rows.arrival_s[good],
        rows.input_tokens[good],
        rows.output_tokens[good],
        {role: pick(values) for role, values in rows.columns.items()},
    )


def _refuse(row: int, column: str, value: Any, kind: str, units_per_s: float, intake: Intake) -> None:
    if kind == "missing output length":
        hint = "--default-output N (default_output_tokens in [trace]) gives such rows a length."
        intake.refuse(row, kind, f"no {column!r}.", hint)
    elif kind.startswith("missing"):
        intake.refuse(row, kind, f"no {column!r} (missing, null or not a number).")
    elif kind == "time out of range":
        intake.refuse(row, kind, f"{column!r} is {value!s}; allowed: a number from 0 to {LATEST_S * units_per_s:g}.")
    else:
        intake.refuse(row, kind, f"{column!r} is {value!s}; allowed: a whole number from 0 to 2^53.")
