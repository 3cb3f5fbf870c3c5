"""A sweep: the summaries of one scenario with other values at some of its keys, as tables, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from btbench.results import numbers
from btbench.results.metrics import STABLE_METRICS, Metric
from btbench.results.sheets import Cell, Column, Line, Sheet
from btbench.results.summary import ALL, Row, Value

JSON, CSV, SCENARIO = "sweep.json", "sweep.csv", "scenario.toml"
OUR_FILES = (CSV, SCENARIO, JSON)
DEFAULT_METRICS = ("mean_ttft_s", "mean_reduction_pct", "p95_ttft_s", "p95_reduction_pct")


class Axis(NamedTuple):
    """A key of the scenario and the values it takes, as they stand in the file."""

    key: str
    values: tuple[Any, ...]


class Point(NamedTuple):
    """One combination of values, and the summary of its replays."""

    values: tuple[Any, ...]  # one an axis
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Sweep:
    """All points of a grid, the last key changing fastest."""

    scenario: str  # its name
    baseline: str  # the policy reductions are against, "" where it differs from point to point
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]

    def series(self, part: str) -> dict[tuple[str, str], dict[str, Row]]:
        """The rows of a part by setup and policy, then by what `label` says of their point."""
        found: dict[tuple[str, str], dict[str, Row]] = {}
        for point in self.points:
            for row in point.rows:
                if row.part == part:
                    found.setdefault((row.setup, row.policy), {})[self.label(point.values)] = row
        return found

    def label(self, values: Sequence[Any]) -> str:
        """A point in words."""
        return point_label([axis.key for axis in self.axes], values)


def point_label(keys: Sequence[str], values: Sequence[Any]) -> str:
    """copies = 4, signal_delay_s = 0.5: keys by their last parts, or whole where those are not unique."""
    ends = [key.rpartition(".")[2] for key in keys]
    names = ends if len(set(ends)) == len(ends) else keys
    return ", ".join(f"{name} = {said(value)}" for name, value in zip(names, values, strict=True))


def said(value: Any) -> str:
    """A value of a scenario for people."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def sweep_sheet(sweep: Sweep, metrics: Sequence[Metric], part: str = ALL) -> Sheet:
    """A group for each setup and policy, a line for each point."""
    series = sweep.series(part)
    setups = {setup for setup, _ in series}
    groups = []
    for (setup, policy), rows in series.items():
        columns = [_cells([row[metric.name] for row in rows.values()], metric) for metric in metrics]
        lines = tuple(Line(name, cells) for name, cells in zip(rows, zip(*columns, strict=True), strict=True))
        groups.append((policy if len(setups) == 1 else f"{setup} {policy}", lines))
    of = "" if part == ALL else f", {part}"
    gains = any(metric.unit == "%" for metric in metrics)
    against = f" Reductions and gaps are against {sweep.baseline or 'the baseline of each point'}." if gains else ""
    return Sheet(
        f"Sweep of {sweep.scenario} over {' and '.join(axis.key for axis in sweep.axes)}{of}",
        tuple(Column("\n".join(textwrap.wrap(metric.words, 12))) for metric in metrics),
        tuple(groups),
        f"Bold: the best of a policy.{against}",
        names=("policy" if len(setups) == 1 else "setup and policy", "point"),
    )


def _cells(values: Sequence[Value], metric: Metric) -> list[Cell]:
    """A metric along the points; `best` where one stands out."""
    known = [value for value in values if value is not None]
    best = {"lower": min, "higher": max}.get(metric.better) if len(set(known)) > 1 else None
    winner = best(known) if best else None
    return [
        Cell(numbers.in_unit(value, metric.unit), "best" if value is not None and value == winner else "", value)
        for value in values
    ]


def _records(sweep: Sweep) -> list[dict[str, Any]]:
    """One a point, setup, policy and part: the keys swept, then a row as in `summary.csv`."""
    names = [metric.name for metric in STABLE_METRICS]
    keys = [axis.key for axis in sweep.axes]
    return [dict(zip(keys, p.values, strict=True)) | row.as_dict(names) for p in sweep.points for row in p.rows]


def sweep_json(sweep: Sweep) -> str:
    """The whole sweep as strict JSON; without what differs from run to run."""
    told = {
        "version": 1,
        "scenario": sweep.scenario,
        "baseline": sweep.baseline,
        "keys": [axis._asdict() for axis in sweep.axes],
        "rows": _records(sweep),
    }
    return json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def sweep_csv(sweep: Sweep) -> str:
    """The rows as CSV with a head line; an empty field where there is no value."""
    text = io.StringIO()
    rows = _records(sweep)
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    keys = [axis.key for axis in sweep.axes]
    writer.writerows(row | {key: said(row[key]) for key in keys} for row in rows)
    return text.getvalue()
