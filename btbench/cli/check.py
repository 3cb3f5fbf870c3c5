"""`btbench check`: one pass over a trace, its oddities told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from btbench.cli import completion
from btbench.cli.console import progress_bar
from btbench.cli.options import (
    BlockTokensOption,
    DebugOption,
    DefaultOutputOption,
    Format,
    FormatOfTraceOption,
    FormatOption,
    QuietOption,
    SeedOption,
    SkipBadRowsOption,
    TieOption,
    TimeUnitOption,
    reading,
)
from btbench.cli.rows import Value, print_rows

if TYPE_CHECKING:
    from btbench.sources.survey import Survey

SEED = 42  # that of a replay, so that both share what is packed


def check(
    trace: Annotated[
        str,
        typer.Argument(
            help="A file or folder, - for stdin, a catalogue name, or hf:owner/repo.",
            autocompletion=completion.trace_names,
        ),
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Any oddity makes the exit status 2.")] = False,
    trace_format: FormatOfTraceOption = None,
    block_tokens: BlockTokensOption = None,
    time_unit: TimeUnitOption = None,
    tie: TieOption = None,
    default_output: DefaultOutputOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    format: FormatOption = Format.table,
    seed: SeedOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Read a trace once and tell what it holds: format, size, oddities, and what a replay would make of them.

    What was read is kept, so a replay of the same file does not read it again.

    \b
    Examples:
      btbench check conversation_trace.jsonl.gz
      btbench check my.jsonl --strict
      cat my.jsonl | btbench check - --skip-bad-rows --format json
    """
    from btbench.errors import TraceError
    from btbench.sources import survey_trace
    from btbench.trace_spec import TraceSpec

    keys = reading(trace_format, block_tokens, time_unit, tie, default_output, skip_bad_rows)
    with progress_bar(quiet) as progress:
        found = survey_trace(
            TraceSpec.model_validate({"source": trace, **keys}),
            Path(),
            seed=SEED if seed is None else seed,
            progress=progress,
        )
    if format is Format.json:
        print(_json(found))
    else:
        _print(found, format)
    if strict and found.oddities:
        kinds = ", ".join(odd.kind for odd in found.oddities)
        raise TraceError(f"{trace}: has oddities, and --strict allows none: {kinds}.")


def _json(found: "Survey") -> str:
    tables = {
        "version": 1,
        "trace": found.facts,
        "oddities": [vars(odd) for odd in found.oddities],
        "notes": found.notes,
        "replay": found.replay,
    }
    return json.dumps(tables, indent=1, ensure_ascii=False, allow_nan=False)


def _print(found: "Survey", format: Format) -> None:
    tables: dict[str, list[dict[str, Value]]] = {"trace": [{"trace": k, "": v} for k, v in _in_words(found)]}
    if format is Format.csv:
        tables = {"trace": [found.facts]}
    if found.oddities:
        tables["oddities"] = [
            {"oddity": odd.kind, "rows": odd.count, "first_row": odd.first_row, "handling": odd.handling}
            for odd in found.oddities
        ]
    notes = [] if found.oddities else ["No oddities."]
    notes += [f"Note: {text}." for text in found.notes]
    notes += [f"Replay: {text}." for text in found.replay]
    print_rows(tables, format, notes)


def _in_words(found: "Survey") -> Iterator[tuple[str, str]]:
    from btbench.results.numbers import digits, duration, share

    facts = found.facts
    yield "format", str(facts["format"])
    yield "requests", f"{facts['requests']:,}" + (f" in {facts['windows']:,} windows" if facts["windows"] != 1 else "")
    if facts["span_s"] is not None:
        rate = facts["mean_rate_per_s"]
        yield "span", duration(facts["span_s"]) + (f", {digits(rate)} requests/s on average" if rate else "")
        yield "arrivals at equal times", f"{facts['tied_arrivals']:,} ({share(facts['tied_share'])})"
    for what in ("input", "output"):
        mean, most = facts[f"mean_{what}_tokens"], facts[f"max_{what}_tokens"]
        yield f"{what} tokens", f"{mean:,.1f} on average, at most {most:,}"
    if facts["prompt_blocks"] is None:
        yield "prompt blocks", "none in this format"
    else:
        size = f"of {facts['block_tokens']:,} tokens" if facts["block_tokens"] else "of unknown size"
        yield "prompt blocks", f"{facts['prompt_blocks']:,} {size}, in {facts['requests_with_blocks']:,} requests"
    for what in ("sessions", "users"):
        if facts[what] is not None:
            yield what, f"{facts[what]:,}"
    yield "content", str(facts["digest"])
