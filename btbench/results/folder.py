"""Folders that are written whole or not at all: everything is written aside and put in place at the very end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from btbench.errors import OutputError
from btbench.results.whole import clear_up

CHARTS = "charts"  # the folder inside that holds pictures
CHART_SUFFIXES = (".png", ".svg", ".pdf", ".gif")
_ASIDE = ".btbench-"  # what a run writes, in the folder, until it is whole


def check_folder(folder: Path, files: Sequence[str], force: bool) -> None:
    """Raise OutputError where `files` and charts cannot go to `folder`; the last of the files says that it is whole.

    With `force` what is there may be replaced, but never a file that is not one of these.
    """
    other = "Choose another folder with --out."
    for ancestor in (folder, *folder.absolute().parents):
        if ancestor.is_dir():
            if not os.access(ancestor, os.W_OK | os.X_OK):
                raise OutputError(f"cannot write to {ancestor}: permission denied", other)
            break
        if os.path.lexists(ancestor):
            raise OutputError(f"{ancestor} is a file, not a folder", other)
    if not folder.is_dir():
        return
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith(_ASIDE))
    if entries and not force:
        what = "holds a result" if (folder / files[-1]).exists() else "is not empty"
        raise OutputError(f"{folder} {what} already", f"Replace it with --force. {other}")
    foreign = [str(path.relative_to(folder)) for entry in entries for path in _foreign(entry, files)]
    if foreign:
        named = ", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else "")
        raise OutputError(f"{folder} holds files that no result has, not replaced: {named}", f"Move them. {other}")


def _foreign(entry: Path, files: Sequence[str]) -> list[Path]:
    if entry.name == CHARTS and entry.is_dir() and not entry.is_symlink():
        return [path for path in sorted(entry.iterdir()) if path.suffix not in CHART_SUFFIXES or not path.is_file()]
    return [] if entry.name in files and entry.is_file() else [entry]


@contextmanager
def whole_folder(folder: Path, files: Sequence[str], force: bool = False) -> Iterator[Path]:
    """A folder to write to, whose files appear in `folder` together when the context ends; not at all where it fails.

    With `force` old files are replaced, at that moment. Raises OutputError where the folder may not be written
    (`check_folder`) or writing fails, as on a full disk.
    """
    check_folder(folder, files, force)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    aside = folder / f"{_ASIDE}{os.getpid()}"
    whole = False
    try:
        aside.mkdir(parents=True)
        yield aside
        check_folder(folder, files, force)
        _put_in_place(aside, folder, files[-1])
        whole = True
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else error
        raise OutputError(f"cannot write the result to {folder}: {problem}", "Nothing was written.") from error
    finally:
        clear_up(aside, [] if whole else made)


def _put_in_place(aside: Path, folder: Path, last: str) -> None:
    """Swap old files for new ones, `last` last; all or none."""
    old = aside / "old"
    moves = [(entry, old / entry.name) for entry in sorted(folder.iterdir()) if not entry.name.startswith(_ASIDE)]
    moves += [(entry, folder / entry.name) for entry in sorted(aside.iterdir(), key=lambda e: (e.name == last, e))]
    old.mkdir()
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except BaseException:
        for source, target in reversed(done):
            target.rename(source)
        raise
