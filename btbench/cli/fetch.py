"""`btbench fetch`: bring a trace onto this machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from btbench.cli import completion
from btbench.cli.console import note, stderr
from btbench.cli.options import DebugOption, Format, FormatOption, QuietOption
from btbench.cli.rows import Value, print_rows
from btbench.progress import Progress, silent


def fetch(
    trace: Annotated[
        str,
        typer.Argument(
            help="A catalogue name (`btbench traces`), or hf:owner/repo[@revision][/path].",
            autocompletion=completion.trace_names,
        ),
    ],
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="REV", help="Branch, tag or commit on the Hub. [default: main]")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", min=1, metavar="N", help="Only the first N rows; with --windows, N rows each."),
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option("--windows", min=1, metavar="N", help="Only N windows of --rows rows, at random places."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of those places, as in [trace.windows].")] = 1,
    format: FormatOption = Format.table,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Bring a catalogue trace, or any data set of the Hugging Face Hub, onto this machine.

    Text of prompts is never fetched where it is a column of its own. A fetch that breaks off goes on when asked again.
    HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are honoured; BTBENCH_CACHE says where files are kept.

    \b
    Examples:
      btbench fetch mooncake-conversation
      btbench fetch art-chat --windows 15 --rows 1000
      btbench fetch hf:owner/repo@v1.0/data/train.parquet
    """
    from btbench.errors import UsageError
    from btbench.sources import catalogue
    from btbench.sources.store import receipt_of
    from btbench.trace_spec import WindowSpec

    if windows is not None and rows is None:
        raise UsageError(
            "--windows needs --rows, the rows of a window", "btbench fetch art-chat --windows 15 --rows 1000"
        )
    spec = WindowSpec(count=windows, rows=rows, start="random", seed=seed) if windows else None
    with _transfer_bar(quiet) as progress:
        first = rows if spec is None else None
        located = catalogue.locate(trace, progress, spec, revision=revision, rows=first, refresh=True)
    receipts = [receipt_of(path) for path in located.files]
    files: list[dict[str, Value]] = [
        {
            "file": str(path),
            "size_bytes": receipt.bytes if receipt else path.stat().st_size,
            "digest": receipt.digest if receipt else None,
            "source": receipt.source if receipt else str(path),
        }
        for path, receipt in zip(located.files, receipts, strict=True)
    ]
    notes: tuple[str, ...] = ()
    if format is Format.table:  # a terminal has no room for folders and addresses
        files = [{"file": Path(str(f["file"])).name, "size_bytes": f["size_bytes"]} for f in files]
        notes = (f"In {located.files[0].parent}",)
    print_rows({"files": files}, format, notes)
    if not quiet:
        for text in located.notes or ("was here already",):
            note(f"{trace}: {text}")


@contextmanager
def _transfer_bar(quiet: bool) -> Iterator[Progress]:
    """A bar with bytes, rate and time left."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TransferSpeedColumn(),
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
