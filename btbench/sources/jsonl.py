"""Rows from JSON Lines: only the columns needed are decoded, in blocks of lines, at the speed of the library."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import msgspec

from btbench.sources.batches import Batch
from btbench.sources.containers import numbered_lines
from btbench.sources.oddities import Intake, printable
from btbench.sources.spelling import BROKEN, fault, in_words

SNIFFED_ROWS = 64
_SCALAR = str | int | float | bool | None
_NULL = msgspec.Raw(b"null")
_TYPES: dict[str, Any] = {
    "time": float | None,
    "input": int | None,
    "output": int | None,
    "blocks": msgspec.Raw,
    "delay": float | None,
}


def _problem(line: bytes, error: Exception) -> str:
    """What is wrong with a line, in words."""
    if isinstance(error, msgspec.ValidationError):
        return in_words(error)
    shown = printable(line.strip()[:256].decode(errors="replace"))
    return f"not a JSON object ({fault(error, line)}): {shown}"


def sniff(blocks: Iterator[bytes], intake: Intake) -> set[str]:
    """The keys of the first rows. Raises TraceError where the first is no JSON object and bad rows are not skipped."""
    keys: set[str] = set()
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for number, line in numbered_lines(blocks):
        try:
            keys.update(decoder.decode(line))
        except BROKEN as error:
            if not intake.skip and not keys:
                intake.refuse(number, "not JSON", _problem(line, error))
        if number >= SNIFFED_ROWS and keys:
            break
    return keys


def read_rows(blocks: Iterator[bytes], columns: dict[str, str], intake: Intake) -> Iterator[Batch]:
    """Batches of the columns asked for (role -> key); a line that cannot be decoded is refused."""
    fields: dict[str, str] = {}  # key -> the first role that reads it, which settles its type
    for role, key in columns.items():
        fields.setdefault(key, role)
    row_type = msgspec.defstruct(
        "Row",
        [(role, _TYPES.get(role, _SCALAR), _NULL if role == "blocks" else None) for role in fields.values()],
        rename={role: key for key, role in fields.items()},
        gc=False,
    )
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(row_type)
    getters = {role: attrgetter(fields[key]) for role, key in columns.items()}
    line = 0
    for block in blocks:
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        numbers: list[int] | range = range(line + 1, line + lines + 1)
        has_blanks = b"\n\n" in block or block.startswith(b"\n")
        try:
            rows = [] if has_blanks else decoder.decode_lines(block)
        except BROKEN:
            rows = []
        if len(rows) != lines:  # blank lines, or one that is not one row
            numbers, rows = _decode_singly(block, line, decoder, intake)
        line += lines
        if rows:
            yield Batch(numbers, {role: list(map(get, rows)) for role, get in getters.items()})


def _decode_singly(
    block: bytes, line: int, decoder: msgspec.json.Decoder[Any], intake: Intake
) -> tuple[list[int], list[Any]]:
    numbers, rows = [], []
    texts = block.split(b"\n")
    for number, text in enumerate(texts, line + 1):
        if not text.strip():
            continue
        try:
            rows.append(decoder.decode(text))
        except msgspec.ValidationError as error:
            intake.refuse(number, "wrong type", _problem(text, error))
        except BROKEN as error:
            is_cut = text is texts[-1] and "truncated" in fault(
                error, text
            )  # only the last line of a file has no line end
            intake.refuse(number, "truncated last line" if is_cut else "not JSON", _problem(text, error))
        else:
            numbers.append(number)
    return numbers, rows
