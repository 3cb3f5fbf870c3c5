"""`--fail-on` gates: what a result may not do, checked against the result before it.

    btb.mean_ttft_s > +5%        fails where B's value is more than 5 % above A's
    btb.p95_ttft_s > 4.8         fails where B's value is above 4.8 (in the unit of the metric)
    btb.hit_rate < -2 points     fails where B's value is more than 2 points below A's: 94 % after 96.1 %

Changes of shares, and of what is in %, are in points, all others in %: 2 % of a share would be read as 2 points.
A gate that cannot be checked is an error: it never passes unseen.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import NamedTuple

from btbench.errors import GateFailed, UsageError, nearest
from btbench.results import numbers
from btbench.results.files import Result
from btbench.results.metrics import COUNTS, Metric, find_metric
from btbench.results.summary import ALL, Row

_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_GATE = re.compile(
    r"\s*(?P<policy>.+?)\.(?P<metric>\w+)\s*(?P<sign>[<>]=?)\s*(?P<limit>[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
    r"\s*(?P<of>%|points?|)\s*",
    re.IGNORECASE | re.ASCII,
)
_EXAMPLES = (
    "Write 'btb.mean_ttft_s > +5%' or 'btb.hit_rate < -2 points' for a change against the first result, "
    "'btb.p95_ttft_s > 4.8' for a value."
)


@dataclass(frozen=True)
class Gate:
    """One condition that must not come true."""

    text: str
    policy: str
    metric: Metric
    sign: str  # a key of _OPERATORS
    limit: float  # a value, or a change as `change` tells it
    relative: bool

    def broken(self, a: float | None, b: float) -> bool:
        """Whether the value `b` breaks it, after `a` (None only for a gate on the value itself)."""
        return bool(_OPERATORS[self.sign](self.change(a, b) if self.relative and a is not None else b, self.limit))

    def change(self, a: float, b: float) -> float:
        """In points where the metric is a share or in %, else (b - a) / |a| in %; from 0, no change or an infinite one.

        Rounded, so that 100 to 105 is +5 % and no more.
        """
        if numbers.in_points(self.metric.unit):
            return round(numbers.as_points(b - a, self.metric.unit), 9)
        if a == b:
            return 0.0
        return round((b - a) / abs(a) * 100, 9) if a else inf if b > 0 else -inf


class Check(NamedTuple):
    """A gate held against one setup of one result."""

    gate: Gate
    setup: str
    part: str
    result: str  # B, as it was named
    a: float | None
    b: float
    failed: bool

    @property
    def change(self) -> str:
        """+12.9%, -2.0 points."""
        if self.a is None:
            return numbers.NOTHING
        moved = self.gate.change(self.a, self.b)
        return numbers.points(moved) if numbers.in_points(self.gate.metric.unit) else numbers.change(moved)

    @property
    def words(self) -> str:
        """btb.mean_ttft_s > +5%: 70b_h100x4 of results/new went from 0.5625203 to 0.6353442 s, +12.9%."""
        unit = {"1": "", "%": " %"}.get(self.gate.metric.unit, f" {self.gate.metric.unit}")
        where = f"{self.setup if self.part == ALL else f'{self.setup}, {self.part},'} of {self.result}"
        if self.a is None:
            return f"{self.gate.text}: {where} is at {self.b:.7g}{unit}"
        return f"{self.gate.text}: {where} went from {self.a:.7g} to {self.b:.7g}{unit}, {self.change}"


def parse_gate(text: str) -> Gate:
    """A gate as written on the command line. Raises UsageError that says what is wrong with it."""
    found = _GATE.fullmatch(text)
    if found is None:
        raise UsageError(f"--fail-on {text!r} is not POLICY.METRIC, one of > >= < <=, and a number", _EXAMPLES)
    limit, of = found["limit"], found["of"]
    if bool(of) != (limit[0] in "+-") and (of or limit[0] == "+"):
        raise UsageError(
            f"--fail-on {text!r}: a change has a sign and % or points behind it, a value has neither", _EXAMPLES
        )
    if not isfinite(float(limit)):
        raise UsageError(f"--fail-on {text!r}: {limit} is beyond every number there is", _EXAMPLES)
    try:
        metric = find_metric(found["metric"])
    except UsageError as error:
        raise UsageError(f"--fail-on {text!r}: {error.message}", error.hint) from None
    unit = "points" if numbers.in_points(metric.unit) else "%"
    if of and (of == "%") != (unit == "%"):
        raise UsageError(
            f"--fail-on {text!r}: changes of {metric.name} are in {unit}",
            f"Write '{found['policy']}.{metric.name} {found['sign']} {limit}{' points' if unit == 'points' else '%'}'.",
        )
    return Gate(text.strip(), found["policy"], metric, found["sign"], float(limit), relative=bool(of))


def check_gates(
    gates: Sequence[Gate], a: Result, b: Result, setups: Sequence[str], parts: Sequence[str]
) -> list[Check]:
    """Every gate on every setup of either result (or those named) and on `all` (or the parts named).

    Raises UsageError where a result does not hold what a gate looks at, or holds it of the requests alone that a policy
    did not turn away, and no other gate counts those.
    """
    counted = {gate.policy for gate in gates if gate.metric.name == "rejected"}
    return [
        _check(gate, a, b, setup, part, gate.policy in counted)
        for gate in gates
        for setup in (setups or dict.fromkeys([*a.setups, *b.setups]))
        for part in (parts or (ALL,))
    ]


def _check(gate: Gate, a: Result, b: Result, setup: str, part: str, counted: bool) -> Check:
    value = _value(gate, b, setup, part)
    for result in [] if counted or gate.metric.name in COUNTS else [b, *([a] if gate.relative else [])]:
        row = result.row(setup, gate.policy, part)
        if row and not row.serves_all:
            raise UsageError(
                f"--fail-on {gate.text!r} cannot be checked: {gate.policy} of {_where(result)} turned away "
                f"{numbers.count(row['rejected'])} requests on {setup}, and this is of the rest",
                f"Gate those too: --fail-on '{gate.policy}.rejected > 0'.",
            )
    before = a.row(setup, gate.policy, part)
    old = before[gate.metric.name] if before else None
    if gate.relative:
        old = _value(gate, a, setup, part)
    return Check(gate, setup, part, _where(b), old, value, gate.broken(old, value))


def _value(gate: Gate, result: Result, setup: str, part: str) -> float:
    """What the gate looks at, which must be there."""
    for noun, name, known in (
        ("policy", gate.policy, result.policies),
        ("setup", setup, result.setups),
        ("part", part, result.parts),
    ):
        if name not in known:
            elsewhere = " Hold it against some setups alone with --setup." if noun == "setup" else ""
            raise UsageError(
                f"--fail-on {gate.text!r} cannot be checked: {_where(result)} has no {noun} {name!r}",
                f"{nearest(name, known)}{elsewhere}",
            )
    row: Row | None = result.row(setup, gate.policy, part)
    value = row[gate.metric.name] if row else None
    if value is None:
        raise UsageError(
            f"--fail-on {gate.text!r} cannot be checked: {_where(result)} has no {gate.metric.name} of {gate.policy} "
            f"on {setup}, {part}",
            "A reduction is known only for other policies than the baseline." if row else "Narrow it with --setup.",
        )
    return value


def _where(result: Result) -> str:
    """The folder as it was named; the scenario where it is the one the command runs in."""
    return result.name if result.folder in (None, Path()) else str(result.folder)


def raise_failed(checks: Sequence[Check]) -> None:
    """Raise GateFailed that names each gate that failed, with both values; nothing where all hold."""
    failed = [check for check in checks if check.failed]
    if failed:
        head = "a gate failed" if len(failed) == 1 else f"{len(failed)} gates failed"
        raise GateFailed("\n".join([f"{head}:", *(f"  {check.words}" for check in failed)]))
