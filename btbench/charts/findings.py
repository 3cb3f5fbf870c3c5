"""Titles that state what a chart shows, computed from its numbers, whoever wins."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from btbench.charts.view import View
from btbench.results import numbers
from btbench.results.summary import ALL

SAME_PCT = 1.0  # what changes by less is said to be the same
ALIKE = 1.001  # ratio up to which values are taken to be equal


def reduction_title(view: View) -> str:
    """What the policy with the best typical reduction of mean TTFT does to it, on all setups."""
    best = best_policy(view)
    values = _reductions(view)[best]
    where = "" if view.part == ALL else f"{view.part}: "
    if max(map(abs, values)) < SAME_PCT:
        return f"{where}{best} stays within 1% of the mean TTFT of {view.baseline}"
    return f"{where}{best} {_change(values)} against {view.baseline}"


def best_policy(view: View) -> str:
    """The policy with the best typical (median over setups) reduction of mean TTFT; "" where there is none."""
    reductions = _reductions(view)
    return max(reductions, key=lambda policy: median(reductions[policy]), default="")


def _reductions(view: View) -> dict[str, list[float]]:
    """Reductions of mean TTFT of each policy, one a setup, in %."""
    reductions: dict[str, list[float]] = {}
    for (_, policy), row in view.rows.items():
        value = row["mean_reduction_pct"]
        if value is not None:
            reductions.setdefault(policy, []).append(value)
    return reductions


def _change(reductions_pct: Sequence[float]) -> str:
    """E.g. "cuts mean TTFT by 11–70%", for the reductions on one or more setups."""
    low, high = min(reductions_pct), max(reductions_pct)
    count = len(reductions_pct)
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
    return f"{value:.1f}" if 0.05 <= value < SAME_PCT else f"{value:,.0f}"


def tenths(values_pct: Sequence[float]) -> str:
    """A range with one decimal: 95.9–96.5%."""
    low, high = (numbers.percent(value) for value in (min(values_pct), max(values_pct)))
    return high if low == high else f"{low[:-1]}–{high}"


def all_alike(view: View, metric: str) -> bool:
    """Whether all policies have the same value (alike to a thousandth) on each setup."""
    values: dict[str, list[float]] = {}
    for (setup, _), row in view.rows.items():
        values.setdefault(setup, []).append(float(row[metric] or 0))
    return all(max(of) <= min(of) * ALIKE for of in values.values())


def lowest_title(view: View, metric: str, words: str) -> str:
    """Which policies have the lowest value (alike to a thousandth) on the most setups."""
    wins = dict.fromkeys(view.result.policies, 0)
    setups = list(dict.fromkeys(setup for setup, _ in view.rows))
    for setup in setups:
        values = {policy: float(row[metric] or 0) for (other, policy), row in view.rows.items() if other == setup}
        least = min(values.values())
        for policy, value in values.items():
            wins[policy] += value <= least * ALIKE
    most = max(wins.values())
    best = [policy for policy, count in wins.items() if count == most]
    if len(wins) == 1:
        told_s = sorted(float(row[metric] or 0) for row in view.rows.values())
        told = dict.fromkeys(map(numbers.duration, (told_s[0], told_s[-1])))
        return f"Under {best[0]}, {words} is {' to '.join(told)}"
    if len(best) == len(wins):
        return f"All policies have the same {words}" if most == len(setups) else f"No policy stands out in {words}"
    return f"{names(best)} {'has' if len(best) == 1 else 'have'} the lowest {words}{_on(most, len(setups), len(best))}"


def _on(count: int, setups: int, policies: int) -> str:
    """On which setups: nothing where there is one, " on all 6 setups", " on 5 of 6 setups"."""
    if setups == 1:
        return ""
    if count == setups:
        return " on both setups" if setups == 2 else f" on all {setups} setups"
    return f" on {count} of {setups} setups{' each' if policies > 1 else ''}"


def names(policies: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    *most, last = policies
    return f"{', '.join(most)} and {last}" if most else last
