"""Data sets of generated windows on disk: rows in Bursted-ART's keys, split into train and test by whole windows."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import zstandard

from btbench.errors import OutputError
from btbench.progress import Progress, silent
from btbench.sources.base_windows import BaseWindows, take_base_windows
from btbench.sources.generator import LABEL, Layout, SyntheticWindow, check_base, draw_windows, empty_split
from btbench.sources.kept_ids import KeptRow, kept_or_made
from btbench.trace_spec import GeneratorSpec

VERSION = "1"
FILE_FORMATS = ("jsonl", "jsonl.gz", "jsonl.zst", "parquet")
SESSION_BLOCKS = 8  # a base row's session is the prefix of so many blocks, as in the published set
ZSTD_LEVEL = 3
SAMPLED_ROWS = 200  # of a window, to tell the size of a set before it is written
Row = dict[str, Any]


class Written(NamedTuple):
    """One file of a data set."""

    split: str
    file: str
    rows: int
    bytes: int | None  # None where it is left to the Hub
    sha256: str | None
    windows: list[dict[str, Any]]  # of each: trace_id, source, rows, and the row of the base it starts at


class Contents:
    """The windows of a data set, drawn but not yet spelled out as rows."""

    def __init__(self, spec: GeneratorSpec, folder: Path, progress: Progress = silent) -> None:
        check_base(spec)
        self.spec = spec
        self.layout = Layout.of(spec)
        self.windows, self.splits = draw_windows(spec, self.layout)
        self.base: BaseWindows | None = take_base_windows(spec, folder, progress) if spec.base is not None else None

    def split_names(self) -> list[str]:
        """The splits that hold a window. Raises TraceError where none does."""
        wanted = ("train", "test") if self.spec.split == "all" else (self.spec.split,)
        names = [s for s in wanted if self.splits[s] or (self.base is not None and self.base.splits[s])]
        if not names:
            raise empty_split(self.spec)
        return names

    def jsonl_bytes(self) -> int:
        """About the size of all rows as plain JSON Lines, from the first window of each source."""
        names = self.split_names()
        total = 0
        if numbers := [n for name in names for n in self.splits[name]]:
            rows = list(_synthetic_rows(self.spec, self.layout, self.windows[numbers[0]], numbers[0]))
            total += len(numbers) * _sampled_bytes(rows)
        if self.base is not None and (numbers := [n for name in names for n in self.base.splits[name]]):
            total += len(numbers) * _sampled_bytes(list(_base_rows(self.base, numbers[0], self.kept)))
        return total

    def rows(self, split: str) -> Iterator[tuple[dict[str, Any], list[Row]]]:
        """Each window of a split, synthetic ones first: what it is, and its rows."""
        for number in self.splits[split]:
            synthetic = self.windows[number]
            rows = [r | {"split": split} for r in _synthetic_rows(self.spec, self.layout, synthetic, number)]
            yield {"trace_id": synthetic.name, "source": LABEL, "rows": len(rows)}, rows
        for number in self.base.splits[split] if self.base is not None else ():
            assert self.base is not None
            window = self.base.trace.windows[number]
            rows = [r | {"split": split} for r in _base_rows(self.base, number, self.kept)]
            first = int(self.base.source_rows[window.start])
            yield {"trace_id": window.name, "source": window.label, "rows": len(rows), "base_row": first}, rows

    @cached_property
    def kept(self) -> list[KeptRow]:
        """What the base rows keep of their source."""
        assert self.base is not None
        return kept_or_made(self.base.trace, self.base.located, self.base.rows, self.base.trace.name)


def _sampled_bytes(rows: list[Row]) -> int:
    sample = rows[:: max(1, len(rows) // SAMPLED_ROWS)]
    return len(msgspec.json.Encoder().encode_lines([r | {"split": "train"} for r in sample])) * len(rows) // len(sample)


def _row(source: str, window: str, number: int, at: int, request: str, arrival_s: float, **rest: Any) -> Row:
    """The keys that every row opens with."""
    return {
        "dataset_version": VERSION,
        "source": source,
        "trace_id": window,
        "source_window_index": number,
        "row_in_window": at,
        "request_id": request,
        "timestamp": arrival_s,
        "arrival_s": arrival_s,
        **rest,
    }


def _synthetic_rows(spec: GeneratorSpec, layout: Layout, window: SyntheticWindow, number: int) -> Iterator[Row]:
    jobs = [f"{window.name}:{job.kind}:{job.index}" for job in layout.jobs]
    prefixes = [[f"{name}:b{k}" for k in range(job.prefix_blocks)] for name, job in zip(jobs, layout.jobs, strict=True)]
    drawn = zip(layout.job[window.row].tolist(), layout.member[window.row].tolist(), strict=True)
    for at, ((j, member), arrival_s) in enumerate(zip(drawn, window.arrival_s.tolist(), strict=True)):
        job = layout.jobs[j]
        request = f"{jobs[j]}:r{member}"
        yield _row(
            LABEL,
            window.name,
            number,
            at,
            request,
            arrival_s,
            input_length=(job.prefix_blocks + job.suffix_blocks) * spec.block_tokens,
            output_length=job.output_tokens,
            hash_ids=prefixes[j] + [f"{request}:s{k}" for k in range(job.suffix_blocks)],
            session_id=jobs[j],
            group_id=jobs[j],
            system_prompt_hash=None,
            messages="",
            metadata={"job_kind": job.kind, "job_index": job.index, "member": member, "base_row": None},
        )


def _base_rows(base: BaseWindows, number: int, kept: list[KeptRow]) -> Iterator[Row]:
    window = base.trace.windows[number]
    for at, i in enumerate(range(window.start, window.stop)):
        ids = list(map(str, kept[i].hash_ids or ()))
        session = ids[min(len(ids), SESSION_BLOCKS) - 1] if ids else None
        yield _row(
            window.label,
            window.name,
            number,
            at,
            f"{window.name}:r{at}",
            float(base.trace.arrival_s[i]),
            input_length=int(base.trace.input_tokens[i]),
            output_length=int(base.trace.output_tokens[i]),
            hash_ids=ids,
            session_id=session,
            group_id=session,
            system_prompt_hash=kept[i].system_prompt_hash,
            messages="",
            metadata={"job_kind": "base", "job_index": None, "member": None, "base_row": int(base.source_rows[i])},
        )


def write_split(
    contents: Contents, split: str, folder: Path, file_format: str, advance: Callable[[int], None]
) -> Written:
    """One split as one file in `folder`; `advance` is told the rows of each window as they are written."""
    path = folder / f"{split}.{file_format}"
    windows: list[dict[str, Any]] = []
    writer = _parquet_file if file_format == "parquet" else _lines_file
    with path.open("wb") as file, writer(file, file_format) as write:
        for window, rows in contents.rows(split):
            write(rows)
            windows.append(window)
            advance(len(rows))
    with path.open("rb") as whole:
        digest = hashlib.file_digest(whole, "sha256").hexdigest()
    return Written(split, path.name, sum(w["rows"] for w in windows), path.stat().st_size, digest, windows)


@contextmanager
def _lines_file(file: BinaryIO, file_format: str) -> Iterator[Callable[[list[Row]], None]]:
    """Rows as JSON Lines, compressed as the format says."""
    encoder = msgspec.json.Encoder()
    if file_format.endswith(".gz"):
        with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as out:
            yield lambda rows: _write_all(out.write, encoder, rows)
    elif file_format.endswith(".zst"):
        with zstandard.ZstdCompressor(level=ZSTD_LEVEL).stream_writer(file, closefd=False) as out:
            yield lambda rows: _write_all(out.write, encoder, rows)
    else:
        yield lambda rows: _write_all(file.write, encoder, rows)


def _write_all(write: Callable[[bytes], Any], encoder: msgspec.json.Encoder, rows: list[Row]) -> None:
    write(encoder.encode_lines(rows))


@contextmanager
def _parquet_file(file: BinaryIO, file_format: str) -> Iterator[Callable[[list[Row]], None]]:
    """Rows as Parquet, one row group a window."""
    import pyarrow as pa
    import pyarrow.parquet

    text, number = pa.string(), pa.int64()
    metadata = pa.struct([("job_kind", text), ("job_index", number), ("member", number), ("base_row", number)])
    kinds = {
        **dict.fromkeys(("source_window_index", "row_in_window", "input_length", "output_length"), number),
        **dict.fromkeys(("timestamp", "arrival_s"), pa.float64()),
        "hash_ids": pa.list_(text),
        "metadata": metadata,
    }
    schema = pa.schema([(key, kinds.get(key, text)) for key in KEYS])
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as out:
        yield lambda rows: out.write_table(pa.Table.from_pylist(rows, schema), row_group_size=len(rows))


KEYS = (
    *_row("", "", 0, 0, "", 0.0),
    *("input_length", "output_length", "hash_ids", "session_id", "group_id", "system_prompt_hash"),
    *("messages", "metadata", "split"),
)


def check_target(folder: Path, force: bool) -> None:
    """Raises OutputError where a data set cannot be written to `folder`."""
    if folder.is_dir() and not force and any(folder.iterdir()):
        raise OutputError(
            f"{folder} is there already.", "Choose another folder with --out, or replace it with --force."
        )
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file.", "--out names a folder.")


@contextmanager
def new_folder(folder: Path, force: bool) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` once it is filled; on any failure nothing stays behind."""
    check_target(folder, force)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}.", "--out names another folder.") from error
    try:
        yield unfinished
        unfinished.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
