"""One metric of a sweep, as its charts see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from btbench.charts.palette import Theme
from btbench.charts.scales import tick_duration, tick_size
from btbench.results import numbers
from btbench.results.metrics import Metric
from btbench.results.sweep import Sweep

MANY_TIMES = 20.0  # values so far apart stand on a log axis
_TICKS = {"s": tick_duration, "bytes": tick_size}  # units that span orders of magnitude


@dataclass(frozen=True)
class Field:
    """One metric of a sweep, on one page: its values by setup and policy, one a point, None where there is none."""

    sweep: Sweep
    metric: Metric
    part: str
    theme: Theme

    @property
    def values(self) -> dict[tuple[str, str], list[float | None]]:
        """Those with any value."""
        name = self.metric.name
        found = {key: [row[name] for row in rows.values()] for key, rows in self.sweep.series(self.part).items()}
        return {key: values for key, values in found.items() if any(value is not None for value in values)}

    @property
    def subtitle(self) -> str:
        """Which sweep."""
        part = "" if self.part == "all" else f", part {self.part}"
        against = f" Against {self.sweep.baseline}." if self.metric.unit == "%" and self.sweep.baseline else ""
        return f"Sweep of {self.sweep.scenario}{part}.{against}"

    def text(self, value: float | None) -> str:
        """A value as people read it."""
        return numbers.in_unit(value, self.metric.unit)

    def is_wide(self, known: Sequence[float]) -> bool:
        """Whether some values are to be seen by their magnitude."""
        return self.metric.unit in _TICKS and min(known) > 0 and max(known) / min(known) >= MANY_TIMES

    def tick(self, value: float) -> str:
        """A round value, as an axis shows it."""
        unit = self.metric.unit
        return _TICKS[unit](value) if unit in _TICKS else f"{value:g}%" if unit == "%" else f"{value:,g}"

    def span(self, values: Sequence[float | None]) -> str:
        """From the smallest to the largest of some values."""
        known = [value for value in values if value is not None]
        low, high = self.text(min(known, default=None)), self.text(max(known, default=None))
        return low if low == high else f"{low} to {high}"
