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
    input_tokens: npt.NDArray[Any]  # (n,) whole numbers, at least 0
    output_tokens: npt.NDArray[Any]  # (n,) whole numbers, at least 0
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
    return np.array([0.0 if value is None else float(value) for value in values], np.float64), missing


def check_batch(
    batch: Batch, source: Format, units_per_s: float, default_output: int | None, intake: Intake
) -> Checked:
    """The rows of a batch that are in range, times in seconds; the others are refused one by one."""
    rows = np.asarray(batch.rows, np.int64)
    time, no_time = _numbers(batch.columns["time"])
    tokens, no_input = _numbers(batch.columns["input"])
    output = batch.columns.get("output")
    answer, no_output = _numbers(output) if output is not None else (np.zeros(len(rows)), np.ones(len(rows), np.bool_))
    arrival_s = time / units_per_s
    delays = batch.columns.get("delay")
    untimed = no_time if delays is None else no_time & np.array([d is None for d in delays], np.bool_)
    unanswered = no_output if default_output is None else np.zeros(len(rows), np.bool_)

    def out_of_range(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_], most: float) -> npt.NDArray[np.bool_]:
        return ~absent & ~((values >= 0) & (values <= most))

    faults = (
        (untimed, "time", time, "missing time"),
        (out_of_range(arrival_s, no_time, LATEST_S), "time", time, "time out of range"),
        (no_input, "input", tokens, "missing input length"),
        (out_of_range(tokens, no_input, LARGEST_TOKENS), "input", tokens, "length out of range"),
        (unanswered, "output", answer, "missing output length"),
        (out_of_range(answer, no_output, LARGEST_TOKENS), "output", answer, "length out of range"),
    )
    good = np.ones(len(rows), np.bool_)
    for mask, _, _, _ in faults:
        good &= ~mask
    if not good.all():
        for i in np.flatnonzero(~good).tolist():
            role, values, kind = next((r, v, k) for mask, r, v, k in faults if mask[i])
            _refuse(int(rows[i]), source.column(role), values[i], kind, units_per_s, intake)
    if no_output.any() and default_output is not None:
        answer = np.where(no_output, default_output, answer)
        intake.tally.add_where(
            "missing output length", f"taken as {default_output}", no_output & good, rows + intake.rows_before
        )
    if no_time.any():
        arrival_s = np.where(no_time, np.nan, arrival_s)
    others: dict[str, Any] = {k: v for k, v in batch.columns.items() if k not in ("time", "input", "output")}
    checked = Checked(rows, arrival_s, tokens, answer, others)
    return checked if good.all() else rows_where(checked, good)


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
    if kind.startswith("missing"):
        hint = None
        if kind == "missing output length":
            hint = "--default-output N (default_output_tokens in [trace]) gives such rows a length."
        intake.refuse(row, kind, f"no {column!r}.", hint)
        return
    most = f"{LATEST_S * units_per_s:g}" if kind == "time out of range" else "2^53"
    intake.refuse(row, kind, f"{column!r} is {value!s}; allowed: a number from 0 to {most}.")


def units_of(source: Format, asked: str | None) -> float | None:
    """Time units in a second: as asked, else as the format has it; None where it cannot be told or is a date."""
    unit = asked or source.unit
    return UNITS_PER_S.get(unit) if unit else None
