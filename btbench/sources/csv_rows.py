"""Rows from CSV files: columns by name, never by position."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from btbench.sources.batches import Batch
from btbench.sources.clock import Clock
from btbench.sources.containers import Advance, read_blocks
from btbench.sources.formats import Format
from btbench.sources.oddities import Intake, printable

BATCH_ROWS = 8_192
_IDS = msgspec.json.Decoder(list[str | int] | None)


class _Text(io.RawIOBase):
    """Blocks of bytes as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._rest or next(self._blocks, b"")
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        self._rest = data[count:]
        return count


def _reader(path: Path, intake: Intake, advance: Advance) -> Any:
    raw = io.BufferedReader(cast(io.RawIOBase, _Text(read_blocks(path, intake.file, advance))), 1 << 16)
    return csv.reader(io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline=""))


def sniff(path: Path, intake: Intake) -> set[str]:
    """The names in the header. Raises TraceError where a name stands there twice."""
    header = _header(_reader(path, intake, lambda _: None), intake)
    return {name for name in header if name}


def _header(reader: Any, intake: Intake) -> list[str]:
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        intake.fail(f"the header is no CSV ({error}).")
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        intake.fail(f"column {printable(twice)!r} stands twice in the header.")
    return header


def read_rows(path: Path, columns: dict[str, str], source: Format, intake: Intake, advance: Advance) -> Iterator[Batch]:
    """Batches of the columns asked for (role -> name) as far as they exist; a row of the wrong length is refused."""
    reader = _reader(path, intake, advance)
    header = _header(reader, intake)
    places = {role: header.index(name) for role, name in columns.items() if name in header}
    clock = Clock() if source.unit == "date" else None
    values: dict[str, list[Any]] = {role: [] for role in places}
    numbers: list[int] = []
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            intake.refuse(reader.line_num, "not CSV", f"{error}.")
            continue
        if fields and len(fields) != len(header):
            intake.refuse(
                reader.line_num, "wrong number of fields", f"{len(fields)} fields, where the header has {len(header)}."
            )
        elif fields:
            row = _parsed(fields, places, source, clock, reader.line_num, intake)
            if row is not None:
                numbers.append(reader.line_num)
                for role, value in row.items():
                    values[role].append(value)
        if numbers and (fields is None or len(numbers) == BATCH_ROWS):
            yield Batch(numbers, values)
            values, numbers = {role: [] for role in places}, []
        if fields is None:
            return


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)  # as some tools write whole numbers: 12.0
        if number != int(number):
            raise
        return int(number)


_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "time": (float, "a number"),
    "delay": (float, "a number"),
    "input": (_whole, "a whole number"),
    "output": (_whole, "a whole number"),
    "blocks": (lambda text: msgspec.json.encode(_IDS.decode(text)), "a JSON list of strings or integers"),
}


def _parsed(
    fields: list[str], places: dict[str, int], source: Format, clock: Clock | None, line: int, intake: Intake
) -> dict[str, Any] | None:
    """The values of one row; None where one cannot be read, which is refused."""
    row: dict[str, Any] = {}
    for role, place in places.items():
        text = fields[place]
        parse, wanted = _PARSERS.get(role, (str, ""))
        if role == "time" and clock is not None:
            parse, wanted = clock.second, "a date and time"
        try:
            row[role] = parse(text) if text.strip() else (b"null" if role == "blocks" else None)
        except (ValueError, OverflowError, msgspec.MsgspecError, RecursionError):
            intake.refuse(line, "wrong type", f"{source.column(role)!r} is {printable(text)!r}; allowed: {wanted}.")
            return None
    return row
