"""A result as a value, and the files it is kept in.

Versions of `summary.json`, which `load_result` reads from the first to this one:

1  `{"version": 1, "rows": […]}`, a row holding `setup`, `policy`, `part` and the metrics of the registry. Those of
   `LATER` were added at the end of a row without a new version: files without them load, and older readers pass over
   them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from btbench.errors import OutputError
from btbench.results.metrics import COUNTS, LATER, METRICS, NULLABLE, Metric
from btbench.results.provenance import Provenance
from btbench.results.summary import ALL, Row

VERSION = 1
AGAIN = "Make the result again with `btbench replay`."  # what to do where files of a result are damaged
MOST = 1e24  # beyond every number of a summary, in its unit
SUMMARY, PROVENANCE, SCENARIO = "summary.json", "provenance.json", "scenario.toml"
REQUESTS, COPIES = "requests.parquet", "copies.parquet"

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """What a replay says: the rows of the summary, and where they come from."""

    rows: tuple[Row, ...]
    provenance: Provenance
    folder: Path | None = None  # where its files are, if anywhere
    name: str = ""  # the scenario's, else the folder's

    @property
    def setups(self) -> list[str]:
        """Setups in the order of the rows."""
        return list(dict.fromkeys(row.setup for row in self.rows))

    @property
    def policies(self) -> list[str]:
        """Policies in the order of the rows."""
        return list(dict.fromkeys(row.policy for row in self.rows))

    @property
    def parts(self) -> list[str]:
        """Parts of the trace in the order of the rows, `all` first."""
        return list(dict.fromkeys(row.part for row in self.rows))

    @property
    def distinct_parts(self) -> list[str]:
        """`all`, and the parts that do not hold every request."""
        requests = {row.part: row["requests"] for row in self.rows}
        return [part for part in self.parts if part == ALL or requests[part] != requests.get(ALL)]

    def row(self, setup: str, policy: str, part: str = ALL) -> Row | None:
        """The row of this setup, policy and part, where there is one."""
        return next((row for row in self.rows if row.key == (setup, policy, part)), None)


def summary_json(rows: Sequence[Row], metrics: Sequence[Metric] = METRICS) -> str:
    """The rows as strict JSON, a field a line; `metrics` may be fewer than all."""
    return json.dumps({"version": VERSION, "rows": _flat(rows, metrics)}, indent=1, allow_nan=False) + "\n"


def summary_csv(rows: Sequence[Row], metrics: Sequence[Metric] = METRICS) -> str:
    """The rows as CSV with a head line; an empty field where there is no value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["setup", "policy", "part", *(m.name for m in metrics)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(rows, metrics))
    return text.getvalue()


def _flat(rows: Sequence[Row], metrics: Sequence[Metric]) -> list[dict[str, Any]]:
    return [row.as_dict([metric.name for metric in metrics]) for row in rows]


def _field(metric: Metric) -> tuple[Any, ...]:
    """Name and type of a metric in a row, and a default where it may be missing."""
    kind: Any = int if metric.name in COUNTS else float
    if metric.name in LATER:
        return metric.name, kind | None, None
    return metric.name, kind | None if metric.name in NULLABLE else kind


_SummaryRow = msgspec.defstruct(
    "_SummaryRow",
    [("setup", str), ("policy", str), ("part", str), *map(_field, METRICS)],
)


class _Summary(msgspec.Struct):
    version: int
    rows: list[_SummaryRow]  # type: ignore[valid-type]


class _Version(msgspec.Struct):
    version: int


def load_result(path: Path) -> Result:
    """Read a result back from its folder or its `summary.json`.

    `provenance.json` beside the summary is read where it is there. Raises OutputError where there is no result, or
    it is damaged (naming the field), or of a version that this btbench does not know.
    """
    file = path / SUMMARY if path.is_dir() else path
    hint = "Name the folder of a result of `btbench replay`, or the summary.json in it."
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        what = "holds no summary.json" if path.is_dir() else "does not exist"
        raise OutputError(f"{path} {what}", hint) from None
    except OSError as error:
        raise OutputError(f"cannot read {file}: {error.strerror}", hint) from None
    version = _decode(text, _Version, file).version
    if not 1 <= version <= VERSION:
        raise OutputError(
            f"{file} is of version {version}; this btbench reads 1 to {VERSION}", "Use a newer btbench to read it."
        )
    rows = [msgspec.structs.asdict(row) for row in _decode(text, _Summary, file).rows]
    if not rows:
        raise OutputError(f"{file} holds no rows", hint)
    _check_rows(rows, file)
    provenance = Provenance()
    if (beside := file.parent / PROVENANCE).is_file():
        provenance = _decode(beside.read_bytes(), Provenance, beside)
    return Result(
        rows=tuple(Row(row.pop("setup"), row.pop("policy"), row.pop("part"), row) for row in rows),
        provenance=provenance,
        folder=file.parent,
        name=provenance.scenario or file.parent.resolve().name,
    )


def _check_rows(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Raises OutputError for a row that is there twice, a duration or a count below zero, and what no replay makes."""
    seen: dict[tuple[str, str, str], int] = {}
    for k, row in enumerate(rows):
        key = row["setup"], row["policy"], row["part"]
        if key in seen:
            raise OutputError(f"{file} is damaged: `rows[{k}]` repeats `rows[{seen[key]}]`, {' '.join(key)}", AGAIN)
        seen[key] = k
        for name, value in row.items():
            if value is not None and (name in COUNTS or name.endswith("_s")) and value < 0:
                raise OutputError(f"{file} is damaged: below 0 ({value:g}) - at `rows[{k}].{name}`", AGAIN)
            if isinstance(value, int | float) and abs(value) > MOST:
                raise OutputError(f"{file} is damaged: too large ({value:g}) - at `rows[{k}].{name}`", AGAIN)


def _decode(text: bytes, kind: type[T], file: Path) -> T:
    """Strict JSON of this shape. msgspec names the field that is missing or of another type, and its row."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        problem = str(error).replace("Object missing", "missing").replace("$.", "").replace("$", "the top")
        raise OutputError(f"{file} is damaged: {problem}", AGAIN) from None
