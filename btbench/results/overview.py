"""Many policies on many setups in one table: who wins, by how much, and on how many of them beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from btbench.results import numbers
from btbench.results.bootstrap import LEVEL_WORDS
from btbench.results.files import Result
from btbench.results.sheets import Cell, Column, Line, Sheet, gain
from btbench.results.summary import ALL, Row
from btbench.results.words import first_seed, intervals_over


def overview_sheet(result: Result) -> Sheet:
    """A group for each part of the trace, its policies by their median reduction of mean TTFT, the best first."""
    groups = []
    for part in result.distinct_parts:
        rows = [row for row in result.rows if row.part == part]
        lines = [
            _line(policy, [row for row in rows if row.policy == policy], result.provenance.baseline)
            for policy in result.policies
        ]
        lines.sort(key=_rank)
        groups.append(("all requests" if part == ALL else part, tuple(lines)))
    baseline = result.provenance.baseline or "the baseline"
    differs = "differs"
    if any(row.reduction_reach for row in result.rows):
        differs = f"differs by more than chance, its {LEVEL_WORDS} over {intervals_over(result)} holding no 0"
    columns = ("reduced\nmedian", "least", "most", "p95\nmedian", "gap\nclosed", "lower\non", "higher\non")
    return Sheet(
        f"Against {baseline}, over {numbers.count(len(result.setups))} setups",
        tuple(map(Column, columns)),
        tuple(groups),
        "Reduced: mean TTFT, in the median, the worst and the best setup; p95 and gap closed: median. Lower, higher "
        f"on: setups where mean TTFT {differs}.{first_seed(result)}"
        + ("" if all(row.serves_all for row in result.rows) else " Left out: setups where requests were turned away."),
        names=("part", "policy"),
    )


def _rank(line: Line) -> tuple[bool, float]:
    """The best first, the baseline at 0; last those of which nothing is known."""
    return line.cells[0].text == numbers.NOTHING, -(line.cells[0].value or 0.0)


def _line(policy: str, rows: Sequence[Row], baseline: str) -> Line:
    """A policy over all setups; of the baseline, that it is it."""
    reductions = _known(rows, "mean_reduction_pct")
    if not reductions:
        first = "baseline" if policy == baseline else numbers.NOTHING
        return Line(policy, (Cell(first, "dim"), *(Cell(numbers.NOTHING, "dim"),) * 6))
    lower, higher = (sum(_is_clear(row, sign) for row in rows) for sign in (1, -1))
    return Line(
        policy,
        (
            *map(gain, (median(reductions), min(reductions), max(reductions))),
            *(gain(median(known)) if (known := _known(rows, name)) else Cell(numbers.NOTHING, "dim")
              for name in ("p95_reduction_pct", "gap_closed_pct")),
            Cell(numbers.count(lower), "", lower),
            Cell(numbers.count(higher), "", higher),
        ),
    )  # fmt: skip


def _known(rows: Sequence[Row], metric: str) -> list[float]:
    return [value for row in rows if (value := row[metric]) is not None]


def _is_clear(row: Row, sign: int) -> bool:
    """Whether mean TTFT is lower (+1) or higher (-1) than the baseline's, all of its interval where that is known."""
    reduction = row["mean_reduction_pct"]
    known = row.reduction_reach or ((reduction,) if reduction is not None else ())
    return bool(known) and all(sign * end > 0 for end in known)
