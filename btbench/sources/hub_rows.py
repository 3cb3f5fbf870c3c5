"""Parts of Parquet files on the Hub: the columns a trace needs and the rows asked for, nothing else crosses the net.

The footers say where each column of each row group lies; they are read once a commit and remembered. Every slice of
rows becomes a small Parquet file of its own on this machine, whole or absent, so that a fetch that breaks off goes on.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import xxhash
from huggingface_hub.utils import build_hf_headers

from btbench.errors import TraceError
from btbench.progress import Progress, silent
from btbench.sources.formats import FORMATS, detect
from btbench.sources.hub import RemoteFile, Snapshot, fetch_file
from btbench.sources.patience import Patience
from btbench.sources.resolve import COMPRESSIONS, Located
from btbench.sources.store import keep, receipt_of, write_whole
from btbench.sources.transport import RangeFile, stream_lines
from btbench.sources.windows import Cut, row_cuts, window_name
from btbench.trace_spec import WindowSpec

CONTENT = frozenset({"messages", "text_input", "conversation", "conversations"})  # text of prompts: never read
EXTRA = frozenset({"system_prompt_hash"})
COLUMNS = (
    frozenset(column for f in FORMATS for column in f.columns.values())
    | frozenset(column for f in FORMATS for signature in f.signature for column in signature)
    | EXTRA
) - CONTENT
SLICE_BYTES = 64_000_000  # a whole trace is brought in slices of about this size
CONNECTIONS = 8  # footers read at a time
WORTH_IT = 0.5  # parts of files are read where they are less than this share of the whole
WINDOW = "trace_id"  # column that names the window of a fetched row


class Group(msgspec.Struct, frozen=True):
    """A row group of a file."""

    rows: int
    wanted_bytes: int  # of the columns a trace needs


class Layout(msgspec.Struct, frozen=True):
    """What the footer of a Parquet file says."""

    path: str
    file_bytes: int
    columns: tuple[str, ...]  # those a trace needs, in file order
    all_columns: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return sum(group.rows for group in self.groups)

    @property
    def wanted_bytes(self) -> int:
        """Bytes of the columns a trace needs."""
        return sum(group.wanted_bytes for group in self.groups)


class Slice(NamedTuple):
    """Consecutive rows of all files together, counted from 0; a window where it has a name."""

    start: int
    stop: int  # behind the last
    window: str = ""


class _Piece(NamedTuple):
    """Rows of one row group."""

    file: Layout
    group: int
    first: int
    stop: int


class Shards:
    """The remote Parquet files of a trace, opened once each; tells how many bytes were read."""

    def __init__(self, snapshot: Snapshot, what: str, progress: Progress, total_bytes: int = 0) -> None:
        self.snapshot = snapshot
        self.patience = Patience(what, progress)
        self.progress = progress
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self._open: dict[str, Any] = {}

    def open(self, path: str, size: int) -> Any:
        """The pyarrow reader of a file. Raises NetworkError or TraceError."""
        import pyarrow
        import pyarrow.parquet

        if path not in self._open:
            source = RangeFile(self.snapshot.url(path), build_hf_headers(), size, self.patience, self._advance)
            try:
                self._open[path] = pyarrow.parquet.ParquetFile(source, pre_buffer=True)
            except pyarrow.ArrowInvalid as error:
                reason = str(error).splitlines()[0]
                raise TraceError(f"{self.snapshot.repo}/{path} is no readable Parquet file ({reason}).") from error
        return self._open[path]

    def _advance(self, count: int) -> None:
        self.done_bytes += count
        self.progress(
            f"fetching rows of {self.patience.what}", min(self.done_bytes, self.total_bytes), self.total_bytes
        )


def read_layouts(snapshot: Snapshot, files: list[RemoteFile], what: str, progress: Progress) -> list[Layout]:
    """The layout of each file, from its footer."""
    known = _known_layouts(snapshot, files)
    if known is not None:
        return known
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        jobs = [pool.submit(_read_layout, snapshot, file, what) for file in files]
        layouts = []
        for count, job in enumerate(jobs, 1):
            layouts.append(job.result())
            progress(f"reading where the rows of {what} lie", count, len(files))
    write_whole(_layouts_path(snapshot, files), msgspec.json.encode(layouts))
    return layouts


def _layouts_path(snapshot: Snapshot, files: list[RemoteFile]) -> Path:
    key = xxhash.xxh3_64_hexdigest(msgspec.json.encode([sorted(COLUMNS), files]))
    return snapshot.folder / f"{key}.layout.json"


def _known_layouts(snapshot: Snapshot, files: list[RemoteFile]) -> list[Layout] | None:
    """The layouts of a commit's files, where they were read before."""
    try:
        return msgspec.json.decode(_layouts_path(snapshot, files).read_bytes(), type=list[Layout])
    except (OSError, msgspec.MsgspecError):
        return None


def share_here(snapshot: Snapshot, files: list[RemoteFile]) -> str:
    """How much of some files is on this machine: "yes", "parts" or "no"."""
    layouts = _known_layouts(snapshot, files)
    if is_here(snapshot.folder / file.path for file in files) or (
        layouts and is_here(_slice_paths(snapshot, layouts, list(whole_slices(layouts))))
    ):
        return "yes"
    return "parts" if any(snapshot.folder.rglob("*.receipt.json")) else "no"


def _read_layout(snapshot: Snapshot, file: RemoteFile, what: str) -> Layout:
    parquet = Shards(snapshot, what, silent).open(file.path, file.bytes)
    meta = parquet.metadata
    names = tuple(parquet.schema_arrow.names)
    wanted = tuple(name for name in names if name in COLUMNS)
    groups = []
    for g in range(meta.num_row_groups):
        group = meta.row_group(g)
        columns = [group.column(c) for c in range(group.num_columns)]
        size = sum(c.total_compressed_size for c in columns if c.path_in_schema.split(".")[0] in wanted)
        groups.append(Group(group.num_rows, size))
    return Layout(file.path, file.bytes, wanted, names, tuple(groups))


def whole_slices(layouts: list[Layout]) -> Iterator[Slice]:
    """All rows, in slices of whole row groups of about `SLICE_BYTES`."""
    start = stop = size = 0
    for layout in layouts:
        for group in layout.groups:
            stop += group.rows
            size += group.wanted_bytes
            if size >= SLICE_BYTES:
                yield Slice(start, stop)
                start, size = stop, 0
        if stop > start:
            yield Slice(start, stop)
            start, size = stop, 0


def _pieces(layouts: list[Layout], rows: Slice) -> Iterator[_Piece]:
    """Which rows of which row groups a slice is made of."""
    before = 0
    for layout in layouts:
        for number, group in enumerate(layout.groups):
            first, stop = max(rows.start - before, 0), min(rows.stop - before, group.rows)
            if first < stop:
                yield _Piece(layout, number, first, stop)
            before += group.rows


def _slice_paths(snapshot: Snapshot, layouts: list[Layout], slices: list[Slice]) -> tuple[Path, ...]:
    """Where the slices are kept."""
    key = xxhash.xxh3_64_hexdigest(msgspec.json.encode([layouts, slices]))
    return tuple(snapshot.folder / f"rows-{key}" / f"{i:05d}.parquet" for i in range(len(slices)))


def fetch_slices(
    snapshot: Snapshot, layouts: list[Layout], slices: list[Slice], what: str, progress: Progress
) -> tuple[Path, ...]:
    """Each slice as a local Parquet file, in order. Raises NetworkError, TraceError or OutputError."""
    targets = _slice_paths(snapshot, layouts, slices)
    missing = [(path, rows) for path, rows in zip(targets, slices, strict=True) if receipt_of(path) is None]
    wanted = sum(p.file.groups[p.group].wanted_bytes for _, rows in missing for p in _pieces(layouts, rows))
    shards = Shards(snapshot, what, progress, wanted)
    for path, rows in missing:

        def write(part: io.BufferedRandom, rows: Slice = rows) -> None:
            part.truncate(0)
            _write_slice(part, shards, list(_pieces(layouts, rows)), rows.window)

        keep(path, what, f"hf:{snapshot.repo}@{snapshot.commit} rows {rows.start}-{rows.stop - 1}", write, progress)
    return targets


def _write_slice(part: io.BufferedRandom, shards: Shards, pieces: list[_Piece], window: str) -> None:
    """Read the pieces of a slice and write them as one Parquet file."""
    import pyarrow
    import pyarrow.parquet

    tables = []
    for piece in pieces:
        parquet = shards.open(piece.file.path, piece.file.file_bytes)
        table = parquet.read_row_group(piece.group, columns=list(piece.file.columns), use_threads=False)
        tables.append(table.slice(piece.first, piece.stop - piece.first))
    table = pyarrow.concat_tables(tables)
    if window:
        table = table.append_column(WINDOW, pyarrow.array([window] * len(table)))
    pyarrow.parquet.write_table(table, part, compression="zstd")


def bring(
    located: Located, snapshot: Snapshot, files: list[RemoteFile], windows: WindowSpec | None, progress: Progress
) -> Located:
    """The files of a trace on this machine, as little of them as serves: windows, needed columns, or all."""
    what = located.source
    here = tuple(snapshot.folder / file.path for file in files)
    if not is_here(here) and all(file.path.endswith(".parquet") for file in files):
        layouts = read_layouts(snapshot, files, what, progress)
        for layout in layouts:
            detect(layout.all_columns, f"{snapshot.repo}/{layout.path}", located.format)
        whole = list(whole_slices(layouts))
        if is_here(_slice_paths(snapshot, layouts, whole)):
            return located._replace(files=_slice_paths(snapshot, layouts, whole))
        cuts = _few_cuts(windows, sum(layout.rows for layout in layouts), what)
        if cuts:
            slices = [Slice(cut.start, cut.stop, window_name(cut)) for cut in cuts]
            here = fetch_slices(snapshot, layouts, slices, what, progress)
            return located._replace(files=here, windows=WindowSpec(by=WINDOW))
        if sum(layout.wanted_bytes for layout in layouts) < WORTH_IT * sum(file.bytes for file in files):
            return located._replace(files=fetch_slices(snapshot, layouts, whole, what, progress))
    total = sum(file.bytes for file in files)
    before = 0
    for file in files:
        fetch_file(snapshot, file, progress, before, total)
        before += file.bytes
    return located._replace(files=here)


def is_here(paths: Iterable[Path]) -> bool:
    """Whether all of these files are on this machine, whole."""
    return all(receipt_of(path) for path in paths)


def first_rows(located: Located, snapshot: Snapshot, files: list[RemoteFile], rows: int, progress: Progress) -> Located:
    """The first rows of a trace alone, as files of their own: Parquet by row groups, text by its first lines."""
    what = located.source
    if files[0].path.endswith(".parquet"):
        layouts = read_layouts(snapshot, files, what, progress)
        slices = [Slice(0, min(rows, sum(layout.rows for layout in layouts)))]
        return located._replace(files=fetch_slices(snapshot, layouts, slices, what, progress))
    file = files[0]
    if file.path.endswith(COMPRESSIONS[1:]):
        raise TraceError(
            f"{what}: {file.path} is compressed; its first rows cannot be fetched alone.", "Leave out --rows."
        )
    path = snapshot.folder / f"{Path(file.path).with_suffix('')}.first-{rows}{Path(file.path).suffix}"
    lines = rows + (path.suffix == ".csv")

    def write(part: io.BufferedRandom) -> None:
        progress(f"fetching the first {rows} rows of {what}", 0, 0)
        stream_lines(part, snapshot.url(file.path), build_hf_headers(), lines, Patience(what, progress))

    keep(path, what, f"{snapshot.url(file.path)} (first {rows} rows)", write, progress)
    return located._replace(files=(path,))


def _few_cuts(windows: WindowSpec | None, total: int, what: str) -> list[Cut]:
    """Windows cut by rows, where they are different ones and cover a small part of a trace.

    Rows are taken to be in arrival order, as every trace of this kind on the Hub has them.
    """
    if windows is None or windows.rows is None:
        return []
    cuts = list(row_cuts(windows, total, what))
    few = len(set(cuts)) == len(cuts) and len(cuts) * windows.rows < WORTH_IT * total
    return cuts if few else []
