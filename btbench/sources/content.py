"""What a file is, told by its first bytes, and its rows whatever it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from btbench.sources import conversations, csv_rows, jsonl, parquet, weka
from btbench.sources.batches import Batch
from btbench.sources.containers import PARQUET, Advance, magic, read_blocks, read_lines
from btbench.sources.formats import Format, detect
from btbench.sources.oddities import Intake, listed, printable
from btbench.sources.spelling import BROKEN, fault
from btbench.trace_spec import TraceSpec

Kind = Literal["parquet", "lines", "document", "csv"]


class Content(NamedTuple):
    """One file about to be read."""

    format: Format
    batches: Iterator[Batch]


def kind_of(path: Path, intake: Intake) -> Kind:
    """Parquet, JSON lines, one JSON document, or CSV. Raises TraceError where it is none of them."""
    if magic(path, intake.file).startswith(PARQUET):
        return "parquet"
    head = next(read_blocks(path, intake.file, lambda _: None), b"")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first_line = text.split(b"\n", 1)[0].strip()
    if not text:
        intake.fail("nothing but blanks.", "A trace holds at least one row.")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in text[:1024]:
        intake.fail("neither text nor Parquet.", "Allowed: JSON Lines or CSV as UTF-8 (also .gz, .zst), or Parquet.")
    if text.startswith(b"version https://git-lfs"):
        intake.fail("a Git LFS pointer, not the file itself.", "`git lfs pull` brings the file.")
    if text.startswith(b"<"):
        intake.fail("a web page, not a trace.", "Download the file itself.")
    if text.startswith(b"["):
        return "document"
    if text.startswith(b"{"):
        return "document" if first_line == b"{" else "lines"
    return "csv" if b"," in first_line else _one_column(first_line, intake)


def _one_column(first_line: bytes, intake: Intake) -> Kind:
    shown = printable(first_line[:256].decode(errors="replace"))
    intake.fail(
        f"neither JSON Lines nor CSV nor Parquet; it begins with {shown!r}.",
        "Allowed: .jsonl or .csv (also .gz, .zst), .parquet.",
    )


def _document_lines(path: Path, intake: Intake, advance: Advance) -> Iterator[bytes]:
    """A whole JSON document as lines: the elements of an array, or one object."""
    text = b"".join(read_blocks(path, intake.file, advance)).removeprefix(b"\xef\xbb\xbf")
    try:
        items = msgspec.json.decode(text, type=list[msgspec.Raw] if text.lstrip().startswith(b"[") else msgspec.Raw)
    except BROKEN as error:
        intake.fail(f"no JSON document ({fault(error, text)}).")
    if isinstance(items, msgspec.Raw):
        items = [items]
    intake.unit = "element"
    for begin in range(0, len(items), jsonl.SNIFFED_ROWS):
        # a line break cannot stand within a string
        yield b"\n".join(bytes(item).replace(b"\n", b" ") for item in items[begin : begin + jsonl.SNIFFED_ROWS])


def open_file(
    path: Path, spec: TraceSpec, known: str | None, sessions: weka.Sessions, intake: Intake, advance: Advance
) -> Content:
    """The format of a file and its rows; `known` is the format as a catalogue has it.

    Raises TraceError where the format cannot be told, or lacks a column that is needed.
    """
    kind = kind_of(path, intake)
    if kind == "parquet":
        keys = parquet.sniff(path, intake)
    elif kind == "csv":
        keys = csv_rows.sniff(path, intake)
    else:
        keys = jsonl.sniff(_lines(kind, path, intake, lambda _: None), intake)
    source = detect(keys, intake.file, spec.format or known)
    if source.layout == "rows":
        columns = _columns_of(source, spec, keys, intake)
        if kind == "parquet":
            return Content(source, parquet.read_rows(path, columns, source, intake, advance))
        if kind == "csv":
            return Content(source, csv_rows.read_rows(path, columns, source, intake, advance))
        return Content(source, jsonl.read_rows(_lines(kind, path, intake, advance), columns, intake))
    wanted = {column for signature in source.signature for column in signature}
    lines = (
        parquet.json_lines(path, wanted, intake, advance) if kind == "parquet" else _lines(kind, path, intake, advance)
    )
    if spec.windows and (spec.windows.by or spec.windows.label_by):
        intake.fail(f"[trace.windows] names a column, but {source.name} traces have no rows with columns.")
    if source.layout == "conversations":
        return Content(source, conversations.read_rows(lines, intake))
    rows = weka.read_rows(lines, sessions, intake)
    first = next(rows, None)  # its session says how large blocks are, and whether ids are its own
    ids: Literal["session", "prefix"] = "session" if sessions.scope == "local" else "prefix"
    source = dataclasses.replace(source, block_tokens=sessions.block_tokens, ids=ids)
    return Content(source, rows if first is None else chain([first], rows))


def _lines(kind: Kind, path: Path, intake: Intake, advance: Advance) -> Iterator[bytes]:
    return _document_lines(path, intake, advance) if kind == "document" else read_lines(path, intake.file, advance)


def _columns_of(source: Format, spec: TraceSpec, keys: set[str], intake: Intake) -> dict[str, str]:
    """Role -> column to read. Raises TraceError where a column that is needed is not there."""
    columns = dict(source.columns)
    found = f"Found: {listed(keys)}."
    windows = spec.windows
    for role, asked in (("window", windows and windows.by), ("label", windows and windows.label_by)):
        if asked:
            if asked not in keys:
                intake.fail(f"missing column {asked!r}, which [trace.windows] names.", found)
            if asked == columns.get("blocks"):
                intake.fail(f"column {asked!r} holds lists; [trace.windows] takes a column of text or numbers.", found)
            columns[role] = asked
    for role in ("time", "input"):
        if columns[role] not in keys and not (role == "time" and "delay" in keys):
            intake.fail(f"missing column {columns[role]!r} of format {source.name!r}.", found)
    return columns
