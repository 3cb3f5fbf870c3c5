"""The tables and the scenario beside a summary, read back only where they are what a replay wrote."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from btbench.errors import OutputError
from btbench.results.files import AGAIN, COPIES, REQUESTS, SCENARIO, Result
from btbench.results.requests import COPY_SCHEMA, REQUEST_SCHEMA
from btbench.results.summary import ALL


def scan_requests(result: Result) -> pl.LazyFrame | None:
    """The requests of REQUEST_SCHEMA; None where they are not stored.

    Raises OutputError where the file is damaged, lacks a column or a value, holds a time that is no number, or other
    requests than the summary.
    """
    frame = _scan(result, REQUESTS, REQUEST_SCHEMA)
    if frame is None:
        return None
    file = _beside(result, REQUESTS)
    counts = collect(result, REQUESTS, frame.group_by("setup", "policy").len())
    found = {(setup, policy): count for setup, policy, count in counts.iter_rows()}
    for row in result.rows:
        if row.part == ALL:
            served = int(row["requests"] or 0) - int(row["rejected"] or 0)
            stored = found.get((row.setup, row.policy), 0)
            if stored != served:
                raise OutputError(
                    f"{file} holds {stored:,} requests of {row.setup} {row.policy}; the summary tells of {served:,}",
                    AGAIN,
                )
    return frame


def scan_copies(result: Result) -> pl.LazyFrame | None:
    """The copies of COPY_SCHEMA; None where they are not stored. Raises OutputError where the file is damaged."""
    return _scan(result, COPIES, COPY_SCHEMA)


def scenario_text(folder: Path) -> str | None:
    """The scenario as it was written; None where it is not stored. Raises OutputError where it is no text."""
    file = folder / SCENARIO
    try:
        return file.read_text(encoding="utf-8") if file.is_file() else None
    except UnicodeDecodeError:
        raise OutputError(f"{file} is damaged: not UTF-8 text", AGAIN) from None


def collect(result: Result, name: str, frame: pl.LazyFrame) -> pl.DataFrame:
    """What a scan of the file `name` of a result finds. Raises OutputError where the file is damaged."""
    try:
        return frame.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _damaged(_beside(result, name), error) from None


def _beside(result: Result, name: str) -> Path:
    return (result.folder or Path()) / name


def _scan(result: Result, name: str, schema: pl.Schema) -> pl.LazyFrame | None:
    file = _beside(result, name)
    if result.folder is None or not file.is_file():
        return None
    frame = pl.scan_parquet(file)
    try:
        found = frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _damaged(file, error) from None
    for column, kind in schema.items():
        if column not in found:
            raise OutputError(f"{file} has no column {column!r}", AGAIN)
        if found[column] != kind:
            raise OutputError(f"{file}: column {column!r} is {found[column]}, not {kind}", AGAIN)
    _check_values(result, name, frame, schema)
    return frame


def _check_values(result: Result, name: str, frame: pl.LazyFrame, schema: pl.Schema) -> None:
    """Raise OutputError for values that are missing, infinite or undefined."""
    wrong = {f"column {column!r} lacks {{:,}} values": pl.col(column).is_null() for column in schema}
    for column, kind in schema.items():
        if kind.is_float():
            wrong[f"column {column!r} holds {{:,}} infinite or undefined values"] = ~pl.col(column).is_finite()
    counts = collect(result, name, frame.select(**{words: of.sum() for words, of in wrong.items()})).row(0, named=True)
    for words, count in counts.items():
        if count:
            raise OutputError(f"{_beside(result, name)}: {words.format(count)}", AGAIN)


def _damaged(file: Path, error: Exception) -> OutputError:
    return OutputError(f"{file} is damaged: {str(error).splitlines()[0]}", AGAIN)
