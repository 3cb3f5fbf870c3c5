"""Block ids as their source spells them, for rows that go into a data set of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from btbench.sources import containers
from btbench.sources.content import kind_of
from btbench.sources.formats import FORMATS
from btbench.sources.oddities import Intake, Tally
from btbench.sources.resolve import Located
from btbench.trace import Trace

BLOCKS, SYSTEM = "hash_ids", "system_prompt_hash"


class KeptRow(msgspec.Struct):
    """What a row keeps of its source."""

    hash_ids: list[str | int] | None = None
    system_prompt_hash: str | None = None


def are_kept(trace: Trace, located: Located | None) -> bool:
    """Whether ids stand for whole prefixes in rows of their own, so that they may be kept as they are."""
    source = next((f for f in FORMATS if f.name == trace.format), None)
    whole = source is not None and source.ids == "prefix" and source.layout == "rows"
    return located is not None and trace.has_blocks and whole


def kept_rows(located: Located, rows: npt.NDArray[np.int64]) -> list[KeptRow]:
    """The rows of some numbers (1-based over all files, as `Whole.row`), in that order."""
    readers = {"parquet": _from_parquet, "lines": _from_lines, "document": _from_document}
    wanted = np.unique(rows)
    found: dict[int, KeptRow] = {}
    before = 0
    for file in located.files:
        last = 0
        read = readers[kind_of(file, Intake(located.source, False, Tally()))]
        for number, row in read(file, wanted - before):
            last = number
            if row is not None:
                found[before + number] = row
        before += last
    return [found[number] for number in rows.tolist()]


def _from_parquet(file: Path, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[int, KeptRow | None]]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as parquet:
        names = [name for name in (BLOCKS, SYSTEM) if name in parquet.schema_arrow.names]
        total = parquet.metadata.num_rows
        here = wanted[(wanted >= 1) & (wanted <= total)]
        if len(here):
            table = parquet.read(columns=names).take(here - 1)
            for number, row in zip(here.tolist(), table.to_pylist(), strict=True):
                yield number, KeptRow(**row)
        yield total, None


def _from_lines(file: Path, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[int, KeptRow | None]]:
    decoder = msgspec.json.Decoder(KeptRow)
    line = last = 0
    for block in containers.read_lines(file, str(file), lambda count: None):
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        low, high = np.searchsorted(wanted, [line + 1, line + len(lines) + 1])
        for number in wanted[low:high].tolist():
            yield number, decoder.decode(lines[number - line - 1])
        last = next((line + k for k in range(len(lines), 0, -1) if lines[k - 1].strip()), last)
        line += len(lines)
    yield last, None


def _from_document(file: Path, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[int, KeptRow | None]]:
    text = b"".join(containers.read_blocks(file, str(file), lambda count: None))
    rows = msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf"), type=list[msgspec.Raw])
    for number in wanted[(wanted >= 1) & (wanted <= len(rows))].tolist():
        yield number, msgspec.json.decode(rows[number - 1], type=KeptRow)
    yield len(rows), None


def made_ids(trace: Trace, label: str) -> Iterable[list[str]]:
    """Ids for the blocks of each request of a trace that spells none: equal where the whole prefix is."""
    spelled = [[f"{label}:{run}:b{k}" for k in range(blocks)] for run, blocks in enumerate(trace.run_blocks.tolist())]
    offsets, runs, tails = trace.run_offsets.tolist(), trace.runs.tolist(), trace.tail_blocks.tolist()
    for i, tail in enumerate(tails):
        ids: list[str] = []
        for run in runs[offsets[i] : offsets[i + 1]]:
            ids += spelled[run]
        yield ids + [f"{label}:r{i}:t{k}" for k in range(tail)]


def kept_or_made(trace: Trace, located: Located | None, rows: npt.NDArray[np.int64], label: str) -> list[KeptRow]:
    """What the rows of a data set keep of their source, with ids made where they cannot be kept."""
    if located is not None and are_kept(trace, located):
        return kept_rows(located, rows)
    return [KeptRow(_as_any(ids)) for ids in made_ids(trace, label)]


def _as_any(ids: list[str]) -> Any:
    return ids
