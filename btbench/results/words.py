"""A result in sentences: what was replayed, and what each policy did to TTFT."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import median

from btbench.results import numbers
from btbench.results.bootstrap import LEVEL_WORDS
from btbench.results.files import Result
from btbench.results.summary import ALL, Row, Value
from btbench.results.window_draws import FEWEST

MANY = 4  # policies above which a table says more than a sentence for each, see `btbench.results.overview`
ALIKE_PCT = 1.5  # differences to both sides up to here are told as one: within so many %
OVERLOADED = 30  # mean queue wait over mean prefill, from which on a cluster is taken not to keep up


def headline(result: Result) -> str:
    """One line that says what was replayed."""
    trace = result.provenance.trace
    requests = next((row["requests"] for row in result.rows if row.part == ALL), None)
    words = [result.name, f"{numbers.count(requests)} request{'s' if requests != 1 else ''}"]
    if trace is not None:
        words[1] += f" in {numbers.count(trace.windows)} window{'s' if trace.windows != 1 else ''}"
        words.append(f"trace {trace.source or trace.name}")
    return " · ".join(word for word in words if word)


def findings(result: Result) -> list[str]:
    """What each policy does to mean TTFT against the baseline, by part of the trace; then what limits its meaning."""
    baseline = result.provenance.baseline or "the baseline"
    lines = []
    for part in result.distinct_parts:
        place = "" if len(result.distinct_parts) == 1 else "all requests: " if part == ALL else f"{part}: "
        for policy in _telling(result, part):
            rows = [row for row in result.rows if (row.policy, row.part) == (policy, part)]
            rows = [row for row in rows if row["mean_reduction_pct"] is not None]
            known = [float(row["mean_reduction_pct"] or 0) for row in rows]
            if known:
                closed = [row["gap_closed_pct"] for row in rows]
                lines.append(
                    f"{place}{policy} has {_compared(known, baseline)}{_chance(result, rows)}{_closing(closed)}."
                )
        lines += [f"{place}{line}" for line in _turning_away(result, part, baseline)]
    return lines + _serving_nothing(result) + _idle(result) + _overloaded(result)


def _turning_away(result: Result, part: str, baseline: str) -> list[str]:
    """Policies that turn requests away, and what is therefore not told."""
    lines = []
    for policy in result.policies:
        rows = [row for row in result.rows if (row.policy, row.part) == (policy, part)]
        if where := [row.setup for row in rows if not row.serves_all]:
            shares = [(row["rejected"] or 0) / (row["requests"] or 1) * 100 for row in rows if not row.serves_all]
            of = "" if len(where) == len(rows) else f" on {', '.join(where)}"
            against = "others are not compared with it" if policy == baseline else f"it is not compared with {baseline}"
            lines.append(
                f"{policy} turns away {_span(shares)} of the requests{of}; its TTFT is of the rest, so {against}"
                f"{' there' if of else ''}."
            )
    return lines


def _serving_nothing(result: Result) -> list[str]:
    """Policies that turned away every request of a part, which leaves nothing to tell of them."""
    setups: dict[tuple[str, str], list[str]] = {}
    for setup, policy, part in result.provenance.nothing_served:
        if part == ALL or (setup, policy, ALL) not in result.provenance.nothing_served:
            setups.setdefault((policy, part), []).append(setup)
    return [
        f"{policy} turns away every request{'' if part == ALL else f' of part {part}'} on {', '.join(where)}, so it "
        "has no row there."
        for (policy, part), where in setups.items()
    ]


def _telling(result: Result, part: str) -> list[str]:
    """The policies to speak of: all, or of many the one with the best typical reduction and the one with the worst."""
    reductions: dict[str, list[float]] = {}
    for row in result.rows:
        if row.part == part and (reduction := row["mean_reduction_pct"]) is not None:
            reductions.setdefault(row.policy, []).append(reduction)
    if len(result.policies) <= MANY:
        return result.policies
    typical = {policy: median(known) for policy, known in reductions.items()}
    if not typical:
        return []
    return [max(typical, key=typical.__getitem__), min(typical, key=typical.__getitem__)]


def _idle(result: Result) -> list[str]:
    """Policies that were to copy but never did, and so say little about copying."""
    return [
        f"{policy} made no copies: it saw no burst of one prefix of {numbers.count(tokens)} tokens, and copies nothing "
        f"shorter (policy.{policy}.prefix_tokens), nor anything where a trace has no block ids."
        for policy, tokens in result.provenance.prefix_tokens.items()
        if not any(row["copies"] for row in result.rows if row.policy == policy)
    ]


def _overloaded(result: Result) -> list[str]:
    """Setups that cannot keep up with the trace: queues grow through a window, and waiting is most of TTFT."""
    lines = []
    for setup in result.setups:
        rows = [row for row in result.rows if (row.setup, row.part) == (setup, ALL)]
        waits = {row.policy: (row["mean_queue_s"] or 0) / (row["mean_prefill_s"] or 1) for row in rows}
        behind = [policy for policy, wait in waits.items() if wait >= OVERLOADED]
        if behind:
            whom = "" if len(behind) == len(rows) else f" behind {', '.join(behind)}"
            least, most = (numbers.count(round(pick(waits[policy] for policy in behind))) for pick in (min, max))
            times = least if least == most else f"{least} to {most}"
            lines.append(
                f"{setup} is overloaded{whom}: requests wait {times} times as long as their prefill takes, so TTFT "
                "depends on the length of the trace."
            )
    return lines


def _closing(closed: list[Value]) -> str:
    """Where a policy gains on every setup, how much of what can be gained that is."""
    known = [value for value in closed if value is not None]
    if len(known) < len(closed) or min(known) <= 0:
        return ""
    return f", closing {_span(known)} of the gap to the floor"


def intervals_over(result: Result, part: str = "") -> str:
    """What the intervals are drawn over: windows (whose number is known of the whole trace, `all`) and seeds.

    Where the trace has too few windows, seeds alone are drawn.
    """
    trace, seeds = result.provenance.trace, result.provenance.seeds
    windows = f"{numbers.count(trace.windows)} windows" if trace and part == ALL else "windows"
    over = [windows] * (trace is None or trace.windows >= FEWEST)
    return " and ".join([*over, f"{numbers.count(seeds)} seeds"] if seeds > 1 else over)


def first_seed(result: Result) -> str:
    """What a table of numbers under several seeds has to add."""
    return " All other numbers are of the first seed." if result.provenance.seeds > 1 else ""


def _chance(result: Result, rows: Sequence[Row]) -> str:
    """Whether the differences are more than other windows and seeds would make by chance."""
    known = [reach for row in rows if (reach := row.reduction_reach)]
    if len(known) < len(rows) or not any(row["mean_reduction_pct"] for row in rows):
        return ""
    if len(known) == 1:
        over = f" over {intervals_over(result)}" if result.provenance.seeds > 1 else ""  # the number is of the first
        return f" ({LEVEL_WORDS} {_reach(*known[0])}{over})"
    clear = sum(not low <= 0 <= high for low, high in known)
    return f", beyond chance on {'all' if clear == len(known) else clear or 'none'}"


def _reach(low: float, high: float) -> str:
    """An interval of a reduction in the words of the sentence it stands in: how much lower or higher."""
    if high <= 0:
        low, high = -high, -low
    elif low < 0:
        return f"{numbers.percent(-low)} higher to {numbers.percent(high)} lower"
    return numbers.percents(low, high)


def _span(values: Sequence[float]) -> str:
    low, high = (numbers.percent(value) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _compared(reductions: list[float], baseline: str) -> str:
    """How the mean TTFT of a policy stands to the baseline's, over all setups."""
    tenths = [round(reduction, 1) for reduction in reductions]
    low, high = min(tenths), max(tenths)
    if low == high == 0:
        return f"the same mean TTFT as {baseline}{_everywhere(tenths)}"
    if low > 0 or high < 0:
        span = _span([abs(low), abs(high)])
        return f"a mean TTFT {span} {'lower' if low > 0 else 'higher'} than {baseline}{_everywhere(tenths)}"
    if (furthest := max(map(abs, reductions))) <= ALIKE_PCT:
        within = ceil(round(furthest * 10, 6)) / 10  # rounded up, so that it holds
        return f"a mean TTFT within {within:g}% of {baseline}'s{_everywhere(tenths)}"
    sides = [f"{numbers.percent(-low)} higher"] * (low < 0) + [f"{numbers.percent(high)} lower"] * (high > 0)
    lower, higher = sum(tenth > 0 for tenth in tenths), sum(tenth < 0 for tenth in tenths)
    counts = [f"{word} on {count}" for word, count in (("lower", lower), ("higher", higher)) if count]
    span = f"from {sides[0]} to {sides[1]} than" if len(sides) == 2 else f"up to {sides[0]} than"
    return f"a mean TTFT {span} {baseline}: {', '.join(counts)} of {len(tenths)} setups"


def _everywhere(values: list[float]) -> str:
    return {1: "", 2: " on both setups"}.get(len(values), f" on all {len(values)} setups")
