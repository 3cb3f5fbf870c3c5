"""Rows from Parquet: only the columns needed, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from btbench.errors import TraceError
from btbench.sources.batches import Batch
from btbench.sources.containers import Advance, unreadable
from btbench.sources.oddities import Intake

BATCH_ROWS = 16_384


def _open(path: Path, intake: Intake) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False)
    except OSError as error:
        unreadable(intake.file, error)
    except pyarrow.ArrowException as error:
        raise TraceError(
            f"{intake.file}: the Parquet file is damaged or truncated ({str(error).splitlines()[0]}).",
            "Download or copy it again.",
        ) from error


def sniff(path: Path, intake: Intake) -> set[str]:
    """The names of the columns."""
    with _open(path, intake) as file:
        return set(file.schema_arrow.names)


def read_rows(path: Path, columns: dict[str, str], intake: Intake, advance: Advance) -> Iterator[Batch]:
    """Batches of the columns asked for (role -> name) as far as they exist."""
    import pyarrow

    intake.unit = "row"
    with _open(path, intake) as file:
        names = set(file.schema_arrow.names)
        present = {role: name for role, name in columns.items() if name in names}
        for role, name in present.items():
            _check_type(role, name, file.schema_arrow.field(name).type, intake)
        row = 0
        total, size = max(1, file.metadata.num_rows), path.stat().st_size
        try:
            for part in file.iter_batches(BATCH_ROWS, columns=list(present.values())):
                values = {role: _column(role, part.column(name)) for role, name in present.items()}
                for role in ("time", "input", "output"):
                    values.setdefault(role, np.full(len(part), np.nan))
                yield Batch(range(row + 1, row + len(part) + 1), values)
                row += len(part)
                advance(len(part) * size // total)
        except (pyarrow.ArrowException, OSError) as error:
            intake.fail(f"the Parquet file is damaged ({str(error).splitlines()[0]}).", "Download or copy it again.")


def _check_type(role: str, name: str, kind: Any, intake: Intake) -> None:
    """Raises TraceError where a column cannot hold what it is read for."""
    from pyarrow import types

    if role in ("time", "input", "output", "delay"):
        good = types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)
        wanted = "numbers"
    elif role == "blocks":
        inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
        good = types.is_null(kind) or (
            inner is not kind and (types.is_integer(inner) or types.is_string(inner) or types.is_large_string(inner))
        )
        wanted = "lists of strings or integers"
    else:
        good = not types.is_nested(kind)
        wanted = "text or numbers"
    if not good:
        intake.fail(f"column {name!r} holds {kind}; {wanted} are expected.")


def _column(role: str, array: Any) -> Any:
    """Numbers as a NumPy array (NaN where null), blocks as they are, the rest as Python values."""
    if role == "blocks":
        return array
    if role in ("time", "input", "output"):
        return array.to_numpy(zero_copy_only=False).astype(np.float64) if array.null_count else array.to_numpy()
    return array.to_pylist()
