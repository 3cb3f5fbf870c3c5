"""A result in sentences: what was replayed, and what each policy did to TTFT."""

from __future__ import annotations

from collections.abc import Sequence

from btbench.results import numbers
from btbench.results.files import Result
from btbench.results.summary import ALL, Value


def headline(result: Result) -> str:
    """One line that says what was replayed."""
    trace = result.provenance.trace
    requests = next((row["requests"] for row in result.rows if row.part == ALL), None)
    words = [result.name, f"{numbers.count(requests)} requests"]
    if trace is not None:
        words[1] += f" in {numbers.count(trace.windows)} window{'s' if trace.windows != 1 else ''}"
        words.append(f"trace {trace.source or trace.name}")
    return " · ".join(word for word in words if word)


def findings(result: Result) -> list[str]:
    """What each policy does to mean TTFT against the baseline, a sentence for each policy and part of the trace."""
    baseline = result.provenance.baseline or "the baseline"
    lines = []
    for part in result.distinct_parts:
        place = "" if len(result.distinct_parts) == 1 else "all requests: " if part == ALL else f"{part}: "
        for policy in result.policies:
            rows = [row for row in result.rows if (row.policy, row.part) == (policy, part)]
            reductions = [row["mean_reduction_pct"] for row in rows]
            known = [round(reduction, 1) for reduction in reductions if reduction is not None]
            if known:
                closed = [row["gap_closed_pct"] for row in rows]
                lines.append(f"{place}{policy} has {_compared(known)} {baseline}{_setups(known)}{_closing(closed)}.")
            if any(row["rejected"] for row in rows):
                shares = [(row["rejected"] or 0) / (row["requests"] or 1) * 100 for row in rows]
                lines.append(f"{place}{policy} turns away {_span(shares)} of the requests; its TTFT is of the rest.")
    return lines


def _closing(closed: list[Value]) -> str:
    """Where a policy gains on every setup, how much of what can be gained that is."""
    known = [value for value in closed if value is not None]
    if len(known) < len(closed) or min(known) <= 0:
        return ""
    return f", closing {_span(known)} of the gap to the floor"


def _span(values: Sequence[float]) -> str:
    low, high = (numbers.percent(value) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _compared(reductions: list[float]) -> str:
    low, high = min(reductions), max(reductions)
    if low == high == 0:
        return "the same mean TTFT as"
    if low <= 0 <= high:
        sides = [f"{numbers.percent(-low)} higher"] * (low < 0) + [f"{numbers.percent(high)} lower"] * (high > 0)
        return f"a mean TTFT from {sides[0]} to {sides[-1] if len(sides) == 2 else 'the same'} against"
    return f"a mean TTFT {_span([abs(low), abs(high)])} {'lower' if low > 0 else 'higher'} than"


def _setups(reductions: list[float]) -> str:
    count = len(reductions)
    lower, higher = sum(r > 0 for r in reductions), sum(r < 0 for r in reductions)
    if count == 1:
        return ""
    if count in (lower, higher):
        return f" on all {count} setups"
    return f": lower on {lower}, higher on {higher} of {count} setups"
