"""The tables of one result: an overview of many policies, TTFT, cache and copies, published values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from btbench.results import numbers
from btbench.results.bootstrap import LEVEL_WORDS
from btbench.results.files import Result
from btbench.results.overview import overview_sheet
from btbench.results.provenance import Published
from btbench.results.sheets import Cell, Column, Line, Sheet, gain, titled
from btbench.results.summary import ALL, Row, reduction_pct
from btbench.results.words import MANY, first_seed, intervals_over


def result_sheets(result: Result) -> list[Sheet]:
    """The tables of one result: TTFT of each part, cache and copies, and published values where there are any.

    An overview comes first where the result `is_large`.
    """
    sheets = [overview_sheet(result)] if is_large(result) else []
    sheets += [ttft_sheet(result, part) for part in result.distinct_parts]
    sheets.append(cluster_sheet(result))
    for part in result.parts:
        for statistic in ("mean", "p95"):
            sheet = published_sheet(result, part, statistic)
            sheets += [sheet] if sheet.groups else []
    return sheets


def is_large(result: Result) -> bool:
    """Whether so many policies are on several setups that one table over these says more than a sentence for each."""
    return len(result.policies) > MANY and len(result.setups) > 1


def _groups(
    result: Result,
    part: str,
    cells: Callable[[Row, list[Row]], Sequence[Cell]],
    last: Callable[[list[Row]], tuple[Line, ...]] = lambda rows: (),
) -> tuple[tuple[str, tuple[Line, ...]], ...]:
    """A group for each setup: a line for each policy, by its row and all rows of the setup, and those of `last`."""
    groups = []
    for setup in result.setups:
        rows = [row for row in result.rows if row.setup == setup and row.part == part]
        groups.append((setup, (*(Line(row.policy, tuple(cells(row, rows))) for row in rows), *last(rows))))
    return tuple(groups)


def _duration(row: Row, metric: str, rivals: Sequence[Row] = ()) -> Cell:
    """A time; `best` where it is the smallest of several different ones."""
    value = row[metric]
    others = [rival[metric] for rival in rivals]
    best = len(set(others)) > 1 and value == min(other for other in others if other is not None)
    return Cell(numbers.duration(value), "best" if best else "", value)


def _reduction(row: Row, metric: str, baseline: str = "") -> Cell:
    """A reduction or another gain in %; of the baseline, its name is said instead."""
    value = row[metric]
    if value is None:
        return Cell("baseline" if row.policy == baseline else numbers.NOTHING, "dim")
    return gain(value)


def _reach(row: Row) -> Cell:
    """Where the reduction of mean TTFT lies; dim where that may be none."""
    if (reach := row.reduction_reach) is None:
        return Cell(numbers.NOTHING, "dim")
    low, high = reach
    return Cell(numbers.percents(low, high), "dim" if low <= 0 <= high else "", low)


def ttft_sheet(result: Result, part: str) -> Sheet:
    """Mean and p95 TTFT, the reduction of each, and the mean split into queue, reuse and prefill; last, the floor."""
    baseline = result.provenance.baseline
    has_floor = all(row["floor_mean_ttft_s"] is not None for row in result.rows)
    has_intervals = any(row.reduction_reach for row in result.rows)

    def cells(row: Row, others: list[Row]) -> list[Cell]:
        rivals = [rival for rival in others if rival.serves_all] if row.serves_all else []
        return [
            _duration(row, "mean_ttft_s", rivals),
            _reduction(row, "mean_reduction_pct", baseline),
            *([_reach(row)] if has_intervals else []),
            *([_reduction(row, "gap_closed_pct")] if has_floor else []),
            _duration(row, "p50_ttft_s"),
            _duration(row, "p95_ttft_s", rivals),
            _reduction(row, "p95_reduction_pct"),
            _duration(row, "p99_ttft_s"),
            *(_duration(row, f"mean_{step}_s") for step in ("queue", "reuse", "prefill", "e2e")),
        ]

    columns = (
        Column("mean"),
        Column("reduced"),
        *([Column(LEVEL_WORDS, spare=True)] if has_intervals else []),
        *([Column("gap\nclosed")] if has_floor else []),
        Column("p50", spare=True),
        Column("p95"),
        Column("reduced"),
        Column("p99", spare=True),
        Column("queue", opens=titled("Mean TTFT in its steps", part, result.distinct_parts)),
        Column("reuse"),
        Column("prefill"),
        Column("end to end", spare=True),
    )
    against = f" Reduced: against {baseline}; a negative reduction is an increase." if baseline else ""
    if has_intervals:
        against += f" {LEVEL_WORDS}: of the reduction of the mean, over {intervals_over(result)}.{first_seed(result)}"
    if has_floor:
        whoever = "no policy" if all(row.serves_all for row in result.rows) else "no policy that serves all"
        against += f" Floor: no queue, and all that earlier requests brought in is in HBM; {whoever} can beat it."
        against += f" Gap closed: of what lies between {baseline or 'the baseline'} and the floor."
    return Sheet(
        titled("Time to first token (TTFT)", part, result.distinct_parts),
        columns,
        _groups(result, part, cells, lambda rows: _floor_line(rows, baseline, columns) if has_floor else ()),
        f"Mean TTFT = queue + reuse + prefill.{against}",
    )


def _floor_line(rows: Sequence[Row], baseline: str, columns: Sequence[Column]) -> tuple[Line, ...]:
    """What the mean TTFT of a setup would be at the floor, where it is prefill alone; of all requests, or no line."""
    whole = [row for row in rows if row.serves_all]
    if not whole:
        return ()
    base = next((row for row in whole if row.policy == baseline), None)
    floor_s = (base or whole[0])["floor_mean_ttft_s"]
    reduction = reduction_pct(base["mean_ttft_s"], floor_s) if base else None
    known = {name: Cell(numbers.duration(value), "dim", value) for name, value in (("queue", 0.0), ("reuse", 0.0))}
    known["mean"] = known["prefill"] = Cell(numbers.duration(floor_s), "dim", floor_s)
    known["reduced"] = Cell(numbers.percent(reduction), "dim", reduction)
    return (Line("floor", tuple(known.pop(column.name, Cell(numbers.NOTHING, "dim")) for column in columns)),)


def cluster_sheet(result: Result) -> Sheet:
    """Hit tokens by tier, how busy the replicas are, copies made, moved and never used; of the whole trace."""
    tiers = ["hbm", "ram"] + (["disk"] if any(row["disk_hit_rate"] for row in result.rows) else [])
    turns_away = any(row["rejected"] for row in result.rows)

    def cells(row: Row, rivals: list[Row]) -> list[Cell]:
        shares = ["hit_rate", *(f"{t}_hit_rate" for t in tiers)]
        shares += [f"replica_use_{kind}" for kind in ("mean", "min", "max")]
        return [
            *(Cell(numbers.share(row[name]), "", row[name]) for name in shares),
            Cell(numbers.count(row["copies"]), "", row["copies"]),
            Cell(numbers.size(row["copied_bytes"]), "", row["copied_bytes"]),
            Cell(numbers.count(row["unused_copies"]), "", row["unused_copies"]),
            *([Cell(numbers.count(row["rejected"]), "", row["rejected"])] if turns_away else []),
        ]

    names = ["hits", *(tier if tier == "disk" else tier.upper() for tier in tiers), "busy", "least", "most"]
    names += ["copies", "moved", "unused", *(["rejected"] if turns_away else [])]
    return Sheet(
        "Cache, replicas and copies",
        tuple(Column(name, name in ("least", "most")) for name in names),
        _groups(result, ALL, cells),
        "Hits: tokens found in a cache, of all input tokens, and by tier. Busy: share of the makespan a replica works."
        + (" Rejected: requests turned away; all other numbers are of the rest." if turns_away else ""),
    )


def published_sheet(result: Result, part: str, statistic: str) -> Sheet:
    """Published values of one statistic of TTFT beside ours, and the reductions that follow from them."""
    known = {(p.setup, p.policy): p for p in result.provenance.published if p.part == part}
    baseline = result.provenance.baseline
    metric = f"{statistic}_ttft_s"
    deviations = []

    def value(published: Published | None) -> float | None:
        return getattr(published, metric) if published else None

    groups = []
    for setup in result.setups:
        lines = []
        for policy in result.policies:
            row, published = result.row(setup, policy, part), value(known.get((setup, policy)))
            if row is None or published is None:
                continue
            here = row[metric]
            assert here is not None
            deviations.append(numbers.relative(here, published))
            reduction = reduction_pct(value(known.get((setup, baseline))), published) if policy != baseline else None
            cells = (
                Cell(numbers.duration(published), "", published),
                Cell(numbers.duration(here), "", here),
                Cell(
                    numbers.deviation(deviations[-1]), "good" if abs(deviations[-1]) < 1e-9 else "bad", deviations[-1]
                ),
                Cell(numbers.percent(reduction), "", reduction),
                _reduction(row, f"{statistic}_reduction_pct", baseline),
            )
            lines.append(Line(policy, cells))
        groups += [(setup, tuple(lines))] if lines else []
    columns = ("published", "here", "difference", "reduction\npublished", "reduction\nhere")
    largest = max(deviations, key=abs, default=0.0)
    note = f"Largest relative difference of {len(deviations)} values: {numbers.deviation(largest)}."
    return Sheet(
        titled(f"Published {statistic} TTFT", part, result.distinct_parts),
        tuple(Column(name) for name in columns),
        tuple(groups),
        f"{note} Source: {result.provenance.published_source}" if result.provenance.published_source else note,
    )
