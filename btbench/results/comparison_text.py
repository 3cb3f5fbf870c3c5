"""Comparisons and their gates for people: as tables and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from btbench.results import numbers
from btbench.results.bootstrap import LEVEL_WORDS
from btbench.results.comparable import first_few
from btbench.results.compare import Change, Comparison
from btbench.results.files import Result
from btbench.results.gates import Check
from btbench.results.interval_notes import interval_notes
from btbench.results.metrics import Metric
from btbench.results.sheets import Cell, Column, Line, Sheet, Tone, titled
from btbench.results.table import escape, markdown_sheets, render_sheets

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (
    Column("A"),
    Column("B"),
    Column("difference", spare=True),
    Column("B / A", spare=True),
    Column(LEVEL_WORDS),
    Column("B against A"),
)


def label(result: Result) -> str:
    """The folder of a result and its scenario."""
    return f"{result.folder or 'not stored'} ({result.name})"


def shown_parts(comparison: Comparison) -> list[str]:
    """The parts compared, less those that hold every request, where others do not."""
    hidden = set(comparison.a.parts) - set(comparison.a.distinct_parts)
    named = list(dict.fromkeys(change.part for change in comparison.changes))
    return [part for part in named if part not in hidden] or named


def comparison_sheets(comparison: Comparison, checks: Sequence[Check] = ()) -> list[Sheet]:
    """A table for each metric and part, and one for the gates where there are any."""
    parts = shown_parts(comparison)
    metrics = list(dict.fromkeys(change.metric for change in comparison.changes))
    sheets = [_sheet(comparison, metric, part, parts) for part in parts for metric in metrics]
    return sheets + ([_gate_sheet(checks)] if checks else [])


def _sheet(comparison: Comparison, metric: Metric, part: str, parts: Sequence[str]) -> Sheet:
    changes = [c for c in comparison.changes if (c.metric, c.part) == (metric, part)]
    setups = dict.fromkeys(change.setup for change in changes)
    return Sheet(
        titled(f"Comparison of {metric.words}", part, parts),
        _COLUMNS,
        tuple((setup, tuple(Line(c.policy, _cells(c)) for c in changes if c.setup == setup)) for setup in setups),
    )


def _cells(of: Change) -> tuple[Cell, ...]:
    unit = of.metric.unit
    ratio = None if numbers.in_points(unit) else of.ratio
    interval = numbers.NOTHING
    if of.interval and of.a:
        low, high = (bound / abs(of.a) * 100 for bound in of.interval)
        interval = f"{numbers.change(low).rstrip('%')} to {numbers.change(high)}"
    return (
        Cell(numbers.in_unit(of.a, unit), "", of.a),
        Cell(numbers.in_unit(of.b, unit), "", of.b),
        Cell(numbers.difference(of.difference, unit), "", of.difference),
        Cell(numbers.NOTHING if ratio is None else numbers.digits(ratio), "", ratio),
        Cell(interval, "dim", None),
        Cell(of.short_words, _tone(of), of.difference),
    )


def _tone(of: Change) -> Tone:
    if not of.difference or of.is_noise or of.metric.better == "neither":
        return ""
    return "good" if (of.difference < 0) == (of.metric.better == "lower") else "bad"


def _gate_sheet(checks: Sequence[Check]) -> Sheet:
    gates = dict.fromkeys(check.gate.text for check in checks)
    columns = (Column("A"), Column("B"), Column("change"), Column("gate"))
    groups = tuple((text, tuple(_gate_line(c) for c in checks if c.gate.text == text)) for text in gates)
    return Sheet("Gates", columns, groups, names=("fail on", "setup"))


def _gate_line(check: Check) -> Line:
    unit = check.gate.metric.unit
    cells = (
        Cell(numbers.in_unit(check.a, unit), "", check.a),
        Cell(numbers.in_unit(check.b, unit), "", check.b),
        Cell(check.change),
        Cell("FAILED", "bad") if check.failed else Cell("holds", "good"),
    )
    return Line(check.setup if check.part == "all" else f"{check.setup}, {check.part}", cells)


def _remarks(comparison: Comparison) -> list[str]:
    """What is to be known beside the numbers, a line each."""
    lines = [*comparison.notes, *interval_notes(comparison.changes)]
    few = first_few(comparison.differences, "all with --format json")
    lines += ["The scenarios differ in:"] if few else []
    return lines + [f"  {line}" for line in few]


def render_comparison(comparison: Comparison, checks: Sequence[Check], width: int) -> RenderableType:
    """The tables of a comparison for a terminal of so many columns."""
    from rich.console import Group
    from rich.text import Text

    head = f"A: {label(comparison.a)}\nB: {label(comparison.b)}"
    remarks = _remarks(comparison)
    return Group(
        Text(head, style="bold"),
        *render_sheets(comparison_sheets(comparison, checks), width),
        *([Text(), Text("\n".join(remarks))] if remarks else []),
    )


def markdown_comparison(comparison: Comparison, checks: Sequence[Check]) -> str:
    """The same in GitHub's Markdown."""
    head = f"# B against A\n\n- A: {escape(label(comparison.a))}\n- B: {escape(label(comparison.b))}\n"
    remarks = "".join(f"{'  ' if line[0] == ' ' else ''}- {escape(line.strip())}\n" for line in _remarks(comparison))
    return "\n".join([head, markdown_sheets(comparison_sheets(comparison, checks)), *([remarks] if remarks else [])])
