"""Two results side by side: what changed for each setup, policy and part, and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from btbench.errors import UsageError, nearest
from btbench.results import numbers
from btbench.results.bootstrap import Interval
from btbench.results.comparable import first_few, obstacles, scenario_differences, unknowns
from btbench.results.files import Result
from btbench.results.metrics import COUNTS, Metric, find_metric
from btbench.results.request_pairs import RequestPairs
from btbench.results.summary import ALL, Value

DEFAULT_METRICS = ("mean_ttft_s", "p95_ttft_s")


@dataclass(frozen=True)
class Change:
    """One metric of one setup, policy and part in two results."""

    setup: str
    policy: str
    part: str
    metric: Metric
    a: Value
    b: Value
    interval: Interval | None = None  # of b - a; None where there are no requests to draw from, or nothing changed
    paired: bool | None = None  # whether the same windows or requests were drawn in both; None without an interval
    windows: tuple[int, int] | None = None  # of A and of B that were drawn whole; None where requests were
    of_the_rest: bool = False  # whether A and B turned different numbers of requests away, and this is of the others

    @property
    def difference(self) -> float | None:
        """b - a."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def ratio(self) -> float | None:
        """b / a; None where a is 0."""
        return None if not self.a or self.b is None else self.b / self.a

    @property
    def is_noise(self) -> bool:
        """Whether the interval of the difference holds 0."""
        return self.interval is not None and self.interval.low <= 0 <= self.interval.high

    @property
    def short_words(self) -> str:
        """The change of B against A without the metric's name, in % of A as its interval is, and how many times it is.

        The factor is the larger over the smaller: 26.5% higher (1.27x), 47.4% lower (1.90x); from 2 on it says it
        alone: 5.50x higher. Shares and what is in % change by points: 22.9 points higher.
        """
        return "".join(self._said)

    @property
    def words(self) -> str:
        """The change of B against A in words that stand alone: 47.4% lower mean TTFT (1.90x)."""
        moved, factor = self._said
        alone = self.is_noise or self.difference is None or self.of_the_rest
        return moved if alone else f"{moved} {self.metric.words}{factor}"

    @property
    def _said(self) -> tuple[str, str]:
        """What changed, and the factor behind it where that adds something."""
        if self.a is None or self.b is None:
            return "no value", ""
        if self.of_the_rest:
            return "of other requests", ""
        if self.a == self.b:
            return "the same", ""
        if self.is_noise:
            return "no difference beyond noise", ""
        direction = "lower" if self.b < self.a else "higher"
        if numbers.in_points(self.metric.unit):
            moved = numbers.points(numbers.as_points(self.b - self.a, self.metric.unit))
            return f"{moved.lstrip('+-')} {direction}", ""
        if self.a <= 0 or self.b <= 0:
            return direction, ""
        factor = max(self.a, self.b) / min(self.a, self.b)
        if factor >= 1.995:
            return f"{numbers.digits(factor)}x {direction}", ""
        moved = numbers.change((self.b - self.a) / self.a * 100).lstrip("+-")
        return f"{moved} {direction}", f" ({factor:.2f}x)" if factor >= 1.005 else ""


@dataclass(frozen=True)
class Comparison:
    """Result B against result A."""

    a: Result
    b: Result
    changes: tuple[Change, ...]
    differences: tuple[str, ...]  # keys of the scenarios, with both values
    notes: tuple[str, ...]  # what a reader has to know


def compare_results(
    a: Result,
    b: Result,
    metrics: Sequence[str] = DEFAULT_METRICS,
    setups: Sequence[str] = (),
    parts: Sequence[str] = (),
    force: bool = False,
    gated: Sequence[str] = (),
) -> Comparison:
    """Every row that both results have, narrowed to `setups` and `parts` where given.

    What is compared, and the metrics that are `gated`, is held against the requests. Raises UsageError where the
    results are not comparable and `force` is not given, where they have no row in common, or where a name is unknown;
    OutputError where they are damaged.
    """
    differences = scenario_differences(a, b)
    if (found := obstacles(a, b)) and not force:
        listed = [f"  {line}" for line in found]
        few = first_few(differences, "all with --force --format json")
        listed += ["The scenarios differ in:", *(f"  {line}" for line in few)] if few else []
        raise UsageError(
            "\n".join(["the results are not comparable:", *listed]),
            "Compare them although these differ with --force.",
        )
    chosen = [find_metric(name) for name in dict.fromkeys(metrics)]
    _check_names("setup", setups, [*a.setups, *b.setups])
    _check_names("part", parts, [*a.parts, *b.parts])
    other = {row.key: row for row in b.rows}
    pairs = [(row, other[row.key]) for row in a.rows if row.key in other]
    pairs = [p for p in pairs if (not setups or p[0].setup in setups) and (not parts or p[0].part in parts)]
    if not pairs:
        raise UsageError(
            "the results have no setup, policy and part in common",
            f"{_held(a, 'first')}\n{_held(b, 'second')}",
        )
    requests = RequestPairs(a, b)
    changes = []
    for row, rival in pairs:
        for name in gated:
            requests.check(row, rival, name)
        for metric in chosen:
            rest = metric.name not in COUNTS and (row["rejected"] or 0) != (rival["rejected"] or 0)
            interval, paired, windows = requests.draw(row, rival, metric.name) or (None, None, None)
            a_b = row[metric.name], rival[metric.name]
            changes.append(Change(*row.key, metric, *a_b, interval, paired, windows, rest))
    notes = [f"Not comparable, compared all the same. {line}" for line in found]
    return Comparison(a, b, tuple(changes), tuple(differences), (*notes, *_notes(a, b), *requests.notes))


def _held(result: Result, which: str) -> str:
    return f"The {which} has {', '.join(result.setups)}; {', '.join(result.policies)}; {', '.join(result.parts)}."


def _check_names(noun: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    for name in wanted:
        if name not in known:
            raise UsageError(f"neither result has a {noun} {name!r}", nearest(name, list(dict.fromkeys(known))))


def _notes(a: Result, b: Result) -> list[str]:
    notes = [
        f"{letter}: {row.policy} turned away {numbers.count(row['rejected'])} of {numbers.count(row['requests'])} "
        f"requests on {row.setup}; its numbers are of the rest."
        for letter, result in (("A", a), ("B", b))
        for row in result.rows
        if row["rejected"] and row.part == ALL
    ]
    for letter, result, other in (("A", a, b), ("B", b, a)):
        if missing := unknowns(result):
            notes.append(f"{letter} does not tell its {', '.join(missing)}: not checked.")
        if alone := _alone(result, other):
            notes.append(f"In {letter} alone: {'; '.join(alone)}.")
    return notes


def _alone(result: Result, other: Result) -> list[str]:
    """The setups, policies and parts that the other does not have at all; else the rows that it does not have."""
    told, explained = [], set()
    for noun, here, there in (
        ("setup", result.setups, other.setups),
        ("policy", result.policies, other.policies),
        ("part", result.parts, other.parts),
    ):
        if names := [name for name in here if name not in there]:
            told.append(f"{noun} {', '.join(names)}")
            explained |= {(noun, name) for name in names}
    keys = {row.key for row in other.rows}
    for row in result.rows:
        named = set(zip(("setup", "policy", "part"), row.key, strict=True))
        if row.key not in keys and not named & explained:
            told.append(" ".join(row.key))
    return told if len(told) <= 6 else [*told[:5], f"{len(told) - 5} more"]
