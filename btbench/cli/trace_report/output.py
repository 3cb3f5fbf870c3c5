"""Analyses on stdout, in each format, and as a folder of files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from btbench.analysis.audit import VERSION, TraceAnalysis
from btbench.cli.trace_report.burst_sheets import burst_sheets, fanout_matrix
from btbench.cli.trace_report.load_sheets import load_sheets, side_by_side
from btbench.cli.trace_report.sheet import Sheet, escape, markdown, render
from btbench.cli.trace_report.words import answer, facts

if TYPE_CHECKING:
    from rich.console import Console


def print_screen(analyses: Sequence[TraceAnalysis], details: bool, console: Console) -> None:
    """The answer first, on one screen; with `details` every table."""
    if len(analyses) > 1:
        for part in render(side_by_side(analyses), console.width)[1:]:
            console.print(part)
    for number, analysis in enumerate(analyses):
        if len(analyses) > 1 and not details:
            break
        if number or len(analyses) > 1:
            console.print()
        _print_one(analysis, details, console)


def _print_one(a: TraceAnalysis, details: bool, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    colour = "" if a.deep_sync is None else "bold red" if a.deep_sync.present else "bold green"
    console.print(Text(answer(a), style=colour))
    console.print()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    for fact in facts(a):
        table.add_row(Text(fact.about, style="cyan"), Text(fact.text))
    console.print(table)
    sheets = [fanout_matrix(a)] if a.fanout else []
    for sheet in [*sheets, *(burst_sheets(a) + load_sheets(a) if details else [])]:
        for part in render(sheet, console.width):
            console.print(part)


def markdown_text(analyses: Sequence[TraceAnalysis], charts: Sequence[Sequence[str]] = ()) -> str:
    """A report in Markdown. `charts` are file names: those of all traces together first, then those of each."""
    parts = ["# Trace analysis\n"]
    if len(analyses) > 1:
        parts.append(markdown(side_by_side(analyses)))
    parts += [_images(charts[0])] if charts else []
    for number, a in enumerate(analyses):
        parts.append(f"# {escape(a.name)}\n\n**{escape(answer(a))}**\n")
        parts.append("\n".join(f"- {fact.about}: {escape(fact.text)}" for fact in facts(a)) + "\n")
        parts += [_images(charts[number + 1])] if charts else []
        parts += [markdown(sheet) for sheet in _all_sheets(a)]
        parts += [f"## Oddities\n\n{chr(10).join(_oddities(a))}\n"] if a.oddities or a.notes else []
    return "\n".join(parts)


def _all_sheets(a: TraceAnalysis) -> list[Sheet]:
    return burst_sheets(a) + load_sheets(a)


def _images(names: Sequence[str]) -> str:
    return "\n\n".join(f"![{name.rsplit('.', 1)[0]}](charts/{name})" for name in names) + "\n"


def _oddities(a: TraceAnalysis) -> list[str]:
    return [f"- {escape(str(odd))}" for odd in (*a.oddities, *a.notes)]


def json_text(analyses: Sequence[TraceAnalysis]) -> str:
    """The whole value, as the module `btbench.analysis.audit` describes it."""
    document = {"version": VERSION, "traces": list(analyses)}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def csv_text(analyses: Sequence[TraceAnalysis]) -> str:
    """The cells of the fan-out, a line each; a trace without any has one line that says why."""
    rows = [row for analysis in analyses for row in _csv_rows(analysis)]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _csv_rows(a: TraceAnalysis) -> Iterator[dict[str, Any]]:
    about = {"trace": a.name, "requests": a.requests, "block_tokens": a.block_tokens, "fanout_why": a.fanout_why}
    for cell in a.fanout or ():
        yield about | dict(_flat(asdict(cell)))
    if not a.fanout:
        yield about


def _flat(tree: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}_")
        else:
            yield f"{before}{key}", value
