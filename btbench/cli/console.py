"""What a command says beside its result, all on stderr: errors, notes, how far it is."""

import os
import re
import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from btbench.errors import BtbenchError
from btbench.progress import Progress, silent

if TYPE_CHECKING:
    from rich.console import Console


@cache
def stderr() -> "Console":
    """The one console on stderr, so that notes and a bar do not write over each other."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@cache
def stdout() -> "Console":
    """The console for results. Not as wide as some terminal that happens to be near when it is written to a file."""
    from rich.console import Console

    class Stdout(Console):
        def on_broken_pipe(self) -> None:
            raise  # to where all of them are caught

        def print(self, *objects: Any, **options: Any) -> None:
            try:
                self._print(*objects, **options)
            except BrokenPipeError:
                raise
            except OSError as error:  # which knows no file
                raise OSError(error.errno, error.strerror, "cannot write to stdout") from None

        def _print(self, *objects: Any, **options: Any) -> None:
            if self.is_terminal:
                super().print(*objects, **options)
            else:  # tables are padded to their width: no file or pipe needs that
                with self.capture() as text:
                    super().print(*objects, **options)
                self.file.write(re.sub(r" +$", "", text.get(), flags=re.MULTILINE))
                self.file.flush()

    width = None
    if not sys.stdout.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdigit() and int(columns) else 80
    return Stdout(width=width, highlight=False, markup=False)


def say(text: str, label: str = "", style: str = "") -> None:
    """Lines on stderr, exactly as they are; on a terminal broken between words, never inside one."""
    from rich.text import Text

    console = stderr()
    lines = f"{label}{text}".splitlines()
    if console.is_terminal:
        lines = [part for line in lines for part in wrap(line, console.width)]
    told = Text("\n".join(lines))
    told.stylize(style, 0, len(label))
    console.print(told, soft_wrap=True)


def wrap(line: str, width: int) -> list[str]:
    """A text in lines, broken between words, never inside one."""
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]


def note(text: str) -> None:
    """Something a user should know, though the work goes on."""
    say(text, "Note: ", "yellow")


def print_error(error: BaseException) -> None:
    """What went wrong, in a few lines."""
    say(_in_words(error), "Error: ", "bold red")


def _in_words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "not enough memory\nTry fewer requests at once ([trace.windows]), or fewer --jobs."
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    assert isinstance(error, BtbenchError | OSError), error
    return str(error)


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Progress]:
    """A callback that draws how far long work is; where stderr is no terminal it draws nothing."""
    if hasattr(signal, "siginterrupt"):  # Polars has waits go on after Ctrl-C; they are to end
        signal.siginterrupt(signal.SIGINT, True)
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=stderr(), transient=True) as bars:
        task = bars.add_task("", total=None)
        shown = ""

        def show(stage: str, done: float, total: float) -> None:
            nonlocal shown
            if stage != shown:
                shown = stage
                bars.reset(task, description=stage, total=total or None)
            bars.update(task, completed=done, total=total or None)

        yield show
