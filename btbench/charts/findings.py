"""Titles that state what a chart shows, computed from its numbers, whoever wins."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from btbench.charts.view import View
from btbench.results import numbers

SAME_PCT = 1.0  # what changes by less is said to be the same


def reduction_title(view: View) -> str:
    """What the policy with the best typical reduction of mean TTFT does to it, on all setups."""
    reductions: dict[str, list[float]] = {}
    for (_, policy), row in view.rows.items():
        value = row["mean_reduction_pct"]
        if value is not None:
            reductions.setdefault(policy, []).append(value)
    best = max(reductions, key=lambda policy: median(reductions[policy]))
    return f"{best} {_change(reductions[best])} against {view.baseline}"


def _change(reductions_pct: Sequence[float]) -> str:
    """E.g. "cuts mean TTFT by 11–70%", for the reductions on one or more setups."""
    low, high = min(reductions_pct), max(reductions_pct)
    count = len(reductions_pct)
    if max(abs(low), abs(high)) < SAME_PCT:
        return "leaves mean TTFT within 1%"
    if low >= 0:
        return f"cuts mean TTFT by {percents(low, high)}"
    if high <= 0:
        return f"lengthens mean TTFT by {percents(-high, -low)}"
    longer = sum(value < 0 for value in reductions_pct)
    return (
        f"cuts mean TTFT by up to {percents(high, high)} on {count - longer} of {count} setups and lengthens it by "
        f"up to {percents(-low, -low)} on {longer},"
    )


def percents(low: float, high: float) -> str:
    """A range in whole %, or in tenths where whole ones would say nothing: 11–70%, 0.3–4%."""
    first, last = _percent(low), _percent(high)
    return f"{last}%" if first == last else f"{first}–{last}%"


def _percent(value: float) -> str:
    return f"{value:.1f}" if 0 < value < SAME_PCT else f"{value:,.0f}"


def lowest_title(view: View, metric: str, words: str) -> str:
    """Which policy has the lowest value on the most setups."""
    wins = dict.fromkeys(view.result.policies, 0)
    setups = list(dict.fromkeys(setup for setup, _ in view.rows))
    for setup in setups:
        values = {policy: row[metric] for (other, policy), row in view.rows.items() if other == setup}
        least = min(float(value or 0) for value in values.values())
        for policy, value in values.items():
            wins[policy] += value == least
    most = max(wins.values())
    best = [policy for policy, count in wins.items() if count == most]
    if len(wins) == 1:
        return f"{words} of {best[0]}"
    if len(best) > 1:
        return f"{names(best)} have the lowest {words} equally often"
    if len(setups) == 1:
        return f"{best[0]} has the lowest {words}"
    return f"{best[0]} has the lowest {words} on {'all' if most == len(setups) else f'{most} of'} {len(setups)} setups"


def names(policies: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    *most, last = policies
    return f"{', '.join(most)} and {last}" if most else last


def duration_change(before: float, after: float) -> str:
    """E.g. "1.60 s → 665 ms"."""
    return f"{numbers.duration(before)} → {numbers.duration(after)}"
