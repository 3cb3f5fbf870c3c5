"""Files that appear whole or not at all: written aside, renamed at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from btbench.errors import OutputError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to that becomes `path` when the context ends, and is removed where it fails.

    Raises OutputError where it cannot be written.
    """
    with whole_files(path.parent, path) as aside:
        yield aside / path.name


@contextmanager
def whole_files(folder: Path, named: Path | None = None) -> Iterator[Path]:
    """A folder to write to, whose files are put into `folder` beside what is there when the context ends.

    Where it fails none of them is, and no folder stays that was not there. Raises OutputError, which names `folder`
    or `named`, where they cannot be written.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    aside = folder / f".btbench-{os.getpid()}"
    try:
        aside.mkdir(parents=True)
        yield aside
        for entry in sorted(aside.iterdir()):
            entry.replace(folder / entry.name)
    except OSError as error:
        raise OutputError(
            f"cannot write {named or folder}: {error.strerror or error}", "Choose another place."
        ) from None
    finally:
        clear_up(aside, made)


def clear_up(aside: Path, made: Sequence[Path]) -> None:
    """Remove a folder aside, and those of `made` that are empty, whatever comes in between, such as a second Ctrl-C."""
    try:
        _clear_up(aside, made)
    except KeyboardInterrupt:
        _clear_up(aside, made)
        raise


def _clear_up(aside: Path, made: Sequence[Path]) -> None:
    shutil.rmtree(aside, ignore_errors=True)
    for path in made:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
