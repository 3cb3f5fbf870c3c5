"""Rows from Parquet: only the columns needed, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt

from btbench.sources.batches import Batch
from btbench.sources.clock import Clock
from btbench.sources.containers import Advance, unreadable
from btbench.sources.formats import Format
from btbench.sources.oddities import Intake, printable

BATCH_ROWS = 16_384


def _open(path: Path, intake: Intake) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False)
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        _damaged(error, intake)


def _damaged(error: Exception, intake: Intake) -> NoReturn:
    """What Arrow says of a file, which may be an operating-system error without a number."""
    if isinstance(error, OSError) and error.errno:
        unreadable(intake.file, error)
    what = printable((str(error).splitlines() or [""])[0].rstrip("."), 200)
    intake.fail(f"the Parquet file is damaged or truncated ({what}).", "Download or copy it again.")


def sniff(path: Path, intake: Intake) -> set[str]:
    """The names of the columns."""
    with _open(path, intake) as file:
        return set(file.schema_arrow.names)


def _parts(file: Any, names: list[str], path: Path, intake: Intake, advance: Advance) -> Iterator[Any]:
    """Record batches of some columns. Raises TraceError where the file is damaged."""
    import pyarrow

    intake.unit = "row"
    total, size = max(1, file.metadata.num_rows), path.stat().st_size
    try:
        for part in file.iter_batches(BATCH_ROWS, columns=names):
            yield part
            advance(len(part) * size // total)
    except (OSError, pyarrow.ArrowException) as error:
        _damaged(error, intake)


def read_rows(path: Path, columns: dict[str, str], source: Format, intake: Intake, advance: Advance) -> Iterator[Batch]:
    """Batches of the columns asked for (role -> name) as far as they exist."""
    with _open(path, intake) as file:
        names = set(file.schema_arrow.names)
        present = {role: name for role, name in columns.items() if name in names}
        for role, name in present.items():
            _check_type(role, name, file.schema_arrow.field(name).type, source, intake)
        clock = Clock() if source.unit == "date" else None
        row = 0
        for part in _parts(file, list(present.values()), path, intake, advance):
            values = {role: _column(role, part.column(name)) for role, name in present.items()}
            if clock is not None:
                values["time"] = _seconds(part.column(present["time"]), clock, row, intake)
            yield Batch(range(row + 1, row + len(part) + 1), values)
            row += len(part)


def json_lines(path: Path, wanted: set[str], intake: Intake, advance: Advance) -> Iterator[bytes]:
    """Rows of nested columns as JSON lines."""
    with _open(path, intake) as file:
        names = [name for name in file.schema_arrow.names if name in wanted]
        for part in _parts(file, names, path, intake, advance):
            for begin in range(0, len(part), 64):
                rows = part.slice(begin, 64).to_pylist()
                yield b"\n".join(map(msgspec.json.encode, rows)) + b"\n"


def _seconds(column: Any, clock: Clock, row: int, intake: Intake) -> npt.NDArray[np.float64]:
    """Dates and times, which may be text, as seconds from the first."""
    import pyarrow

    try:
        moments = column.cast(pyarrow.timestamp("ns")).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowException as error:
        intake.fail(f"a date among rows {row + 1} to {row + len(column)} cannot be read ({error}).")
    return clock.seconds(moments)


def _check_type(role: str, name: str, kind: Any, source: Format, intake: Intake) -> None:
    """Raises TraceError where a column cannot hold what it is read for."""
    from pyarrow import types

    if role == "time" and source.unit == "date":
        good, wanted = types.is_timestamp(kind) or types.is_string(kind) or types.is_large_string(kind), "dates"
    elif role in ("time", "input", "output", "delay"):
        good, wanted = types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind), "numbers"
    elif role == "blocks":
        inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None
        inner = inner.value_type if inner is not None and types.is_dictionary(inner) else inner
        texts = inner is not None and (types.is_string(inner) or types.is_large_string(inner) or types.is_null(inner))
        good = types.is_null(kind) or texts or (inner is not None and types.is_integer(inner))
        wanted = "lists of strings or integers"
    else:
        good, wanted = not types.is_nested(kind), "text or numbers"
    if not good:
        intake.fail(f"column {name!r} holds {kind}; allowed: {wanted}.")


def _column(role: str, array: Any) -> Any:
    """Numbers as a NumPy array (NaN where null), blocks as they are (None without any), the rest as Python values."""
    if role == "blocks":
        return None if array.null_count == len(array) else array
    if role in ("time", "input", "output"):
        return array.to_numpy(zero_copy_only=False).astype(np.float64) if array.null_count else array.to_numpy()
    return array.to_pylist()
