"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from btbench.cli import completion

DEBUG = "btbench.debug"  # where the context keeps --debug


class Format(StrEnum):
    """What stdout holds."""

    table = "table"
    markdown = "markdown"
    json = "json"
    csv = "csv"


class TimeUnit(StrEnum):
    """Units of a time column."""

    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


class Tie(StrEnum):
    """What becomes of equal times."""

    row = "row"
    spread = "spread"


def reading(
    trace_format: str | None,
    block_tokens: int | None,
    time_unit: TimeUnit | None,
    tie: Tie | None,
    default_output: int | None,
    skip_bad_rows: bool,
) -> dict[str, str | int | bool]:
    """The keys of `[trace]` that these options set."""
    keys = {
        "format": trace_format,
        "block_tokens": block_tokens,
        "time_unit": time_unit and time_unit.value,
        "tie": tie and tie.value,
        "default_output_tokens": default_output,
        "skip_bad_rows": skip_bad_rows or None,
    }
    return {key: value for key, value in keys.items() if value is not None}


def _remember(context: typer.Context, debug: bool) -> bool:
    context.meta[DEBUG] = debug
    return debug


FormatOption = Annotated[Format, typer.Option("--format", help="What to print on stdout.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the files.")]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Cores to use. [default: all]")
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Another seed for the draws.")]
SeedsOption = Annotated[
    int | None,
    typer.Option("--seeds", min=1, max=1000, metavar="N", help="Replay with so many seeds, for intervals over them."),
]
NoChartsOption = Annotated[bool, typer.Option("--no-charts", help="Write no charts.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a result that is there.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No notes, bar or timing on stderr.")]
# How a trace file is to be read, where it does not tell
FormatOfTraceOption = Annotated[
    str | None, typer.Option("--trace-format", metavar="NAME", help="Read the trace as this format.")
]
BlockTokensOption = Annotated[
    int | None, typer.Option("--block-tokens", min=1, metavar="N", help="Tokens of a prefix block of the trace.")
]
TimeUnitOption = Annotated[TimeUnit | None, typer.Option("--time-unit", help="Unit of the trace's times.")]
TieOption = Annotated[
    Tie | None, typer.Option("--tie", help="Equal times: in row order, or spread evenly over the clock's tick.")
]
DefaultOutputOption = Annotated[
    int | None,
    typer.Option("--default-output", min=1, metavar="N", help="Output tokens of rows that do not tell theirs."),
]
SkipBadRowsOption = Annotated[bool, typer.Option("--skip-bad-rows", help="Drop and count rows that cannot be read.")]

# What is asked: commands that replay
ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A built-in scenario (`btbench list scenarios`) or a TOML file.", autocompletion=completion.scenario_names
    ),
]
TraceOption = Annotated[
    str | None,
    typer.Option(
        "--trace",
        "-t",
        help="Replay this trace instead: a file, - for stdin, a name of `btbench traces`, hf:…",
        autocompletion=completion.trace_names,
    ),
]
SetupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--setup",
        "-s",
        metavar="NAME",
        help="Only this setup: of the scenario or the paper. Repeatable.",
        autocompletion=completion.setup_names,
    ),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME",
        help="Only this policy: of the scenario or built in. Repeatable.",
        autocompletion=completion.policy_names,
    ),
]

DebugOption = Annotated[bool, typer.Option("--debug", callback=_remember, help="Show the traceback of an error.")]
