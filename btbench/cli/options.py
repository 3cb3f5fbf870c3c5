"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DEBUG = "btbench.debug"  # where the context keeps --debug


class Format(StrEnum):
    """What stdout holds."""

    table = "table"
    markdown = "markdown"
    json = "json"
    csv = "csv"


def _remember(context: typer.Context, debug: bool) -> bool:
    context.meta[DEBUG] = debug
    return debug


FormatOption = Annotated[Format, typer.Option("--format", help="What to print on stdout.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the files.")]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Cores to use. [default: all]")
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Another seed for the draws.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a result that is there.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No notes, bar or timing on stderr.")]
DebugOption = Annotated[bool, typer.Option("--debug", callback=_remember, help="Show the traceback of an error.")]
