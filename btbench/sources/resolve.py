"""From what a user names to files on this machine."""

from __future__ import annotations

import os
import stat
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from btbench.errors import TraceError
from btbench.paths import printable_name
from btbench.progress import Progress
from btbench.trace_spec import WindowSpec

COMPRESSIONS = ("", ".gz", ".zst")
SUFFIXES = (*(kind + c for kind in (".jsonl", ".ndjson", ".csv", ".json") for c in COMPRESSIONS), ".parquet")


class Located(NamedTuple):
    """The files of one trace, in order, and what is known of them before they are read."""

    files: tuple[Path, ...]
    name: str  # of the trace
    source: str  # as the user named it
    format: str | None = None  # where a catalogue knows it
    revision: str = ""  # commit of a Hub repository
    windows: WindowSpec | None = None  # where only the windows asked for were fetched: how to tell them apart
    notes: tuple[str, ...] = ()  # e.g. that it was fetched


def is_file_name(source: str) -> bool:
    """Whether a name can only be meant as a file: a path, or a known ending."""
    return "/" in source or "\\" in source or source.endswith(SUFFIXES)


def trace_name(path: Path) -> str:
    """A file's name without its endings."""
    name = path.name
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def locate_path(source: str, path: Path) -> Located:
    """A local file, or a folder of shards. Raises TraceError where there is none."""
    if not path.is_dir():
        _check_kind(source, path)
        return Located((path,), printable_name(trace_name(path)), printable_name(source))
    try:
        entries = _files(path, "*") or _files(path, "**/*")
    except OSError as error:
        raise TraceError(f"{source}: the folder cannot be read: {error.strerror}.") from error
    for kinds in ((".parquet",), (".jsonl", ".ndjson"), (".csv",), (".json",)):
        endings = tuple(kind + c for kind in kinds for c in COMPRESSIONS)
        shards = tuple(p for p in entries if p.name.endswith(endings))
        if shards:
            return Located(shards, printable_name(path.resolve().name), printable_name(source))
    raise TraceError(
        f"{source}: the folder holds no trace files.",
        f"Expected files ending in {', '.join(SUFFIXES)}.",
    )


def _files(folder: Path, pattern: str) -> list[Path]:
    """Files of a folder by name, hidden ones and those that begin with _ (as tools mark their own) left out."""
    next(folder.iterdir(), None)  # tells an unreadable folder from an empty one
    found = (p for p in folder.glob(pattern) if p.is_file() and not p.name.startswith((".", "_")))
    return sorted(p for p in found if p.name.endswith(SUFFIXES))


def locate(source: str, base: Path, progress: Progress, windows: WindowSpec | None = None) -> Located:
    """The files a name stands for, fetched where they are not here, as far as `windows` needs them.

    Raises TraceError or NetworkError.
    """
    if source == "-":
        return Located((), "stdin", source)
    path = base / Path(source).expanduser()
    if source.startswith("hf:") or (not is_file_name(source) and not os.path.lexists(path)):
        from btbench.sources import catalogue

        return catalogue.locate(source, progress, windows)
    if not os.path.lexists(path):
        raise TraceError(f"{source}: there is no such file.", _near(path))
    return locate_path(source, path)


def _check_kind(source: str, path: Path) -> None:
    """Raises TraceError for what has no end, or no content; a pipe may be a process substitution of the shell."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if path.is_symlink():
            hint = f"It points to {os.readlink(path)!r}."
            raise TraceError(f"{source}: a symbolic link that leads to no file.", hint) from error
        return  # reading it says why not
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise TraceError(f"{source}: {kind}, not a file.", "Allowed: a file, a folder, a pipe, or - for stdin.")


def _near(path: Path) -> str:
    """The nearest name in the same folder."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"There is no folder {path.parent}."
    close = get_close_matches(path.name, sorted(names), n=1, cutoff=0.5)
    return f"Did you mean {close[0]!r}? Looked in {path.parent}." if close else f"Looked in {path.parent}."
