"""Files that CI reads: a step summary that grows, and reports that replace those before them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def step_summary() -> Path:
    """The file of GitHub Actions that tables are added to. Raises UsageError where there is none."""
    from btbench.errors import UsageError

    file = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not file:
        raise UsageError(
            "--github-summary: GITHUB_STEP_SUMMARY is not set",
            "GitHub Actions sets it; elsewhere use --format markdown.",
        )
    return Path(file)


def replace_file(file: Path, text: str) -> None:
    """Write XML whole, in place of an older one; into what is no plain file, such as a pipe, as it is.

    Raises OutputError where that fails, and where a file of another kind would be lost.
    """
    from btbench.errors import OutputError
    from btbench.results.whole import whole_file

    if file.is_file() and file.stat().st_size and not file.read_bytes()[:5].startswith(b"<?xml"):
        raise OutputError(f"{file} is no XML, and not replaced", "Choose another file.")

    if file.is_symlink() or (file.exists() and not file.is_file()):
        with _cannot_write(file):
            file.write_text(text, encoding="utf-8")
    else:
        with whole_file(file) as aside:
            aside.write_text(text, encoding="utf-8")


def append_to_file(file: Path, text: str) -> None:
    """Add to the end of a file, all or nothing."""
    size = file.stat().st_size if file.is_file() else 0
    with _cannot_write(file):
        try:
            with file.open("a", encoding="utf-8") as stream:
                stream.write(text)
        except OSError:
            if file.is_file():
                os.truncate(file, size)
            raise


@contextmanager
def _cannot_write(file: Path) -> Iterator[None]:
    from btbench.errors import OutputError

    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}", "Choose another file.") from None
