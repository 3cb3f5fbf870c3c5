"""What a chart is drawn from: a stored result, and how it is to be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from btbench.charts.marks import Mark, policy_marks
from btbench.charts.palette import Theme, themed
from btbench.errors import BtbenchError, UsageError, nearest
from btbench.results import numbers
from btbench.results.files import SCENARIO, Result, load_result
from btbench.results.stored import scan_copies, scan_requests, scenario_text
from btbench.results.summary import ALL, Row
from btbench.results.words import headline
from btbench.scenario import Scenario, load_scenario


@dataclass(frozen=True)
class View:
    """One part of a result on one page. What needs a file that is not there is None."""

    result: Result
    theme: Theme
    part: str = ALL
    scenario: Scenario | None = None

    def __post_init__(self) -> None:
        """Raises OutputError where a file of the result is damaged: before anything is drawn."""
        if self.result.folder is not None:
            scenario_text(self.folder)
        _ = self._requests, self._copies

    @property
    def folder(self) -> Path:
        """Where the result is stored."""
        assert self.result.folder is not None
        return self.result.folder

    @cached_property
    def rows(self) -> dict[tuple[str, str], Row]:
        """The rows of the part by setup and policy, in the result's order."""
        return {(row.setup, row.policy): row for row in self.result.rows if row.part == self.part}

    @cached_property
    def marks(self) -> Mapping[str, Mark]:
        """The mark of each policy of the result."""
        return policy_marks(self.result.policies, self.theme)

    @property
    def baseline(self) -> str:
        """The policy reductions are against, "" where that is not known."""
        return self.result.provenance.baseline

    def requests(self) -> pl.LazyFrame | None:
        """The requests of the part, columns as in REQUEST_SCHEMA; read only where and as far as they are used."""
        frame = self._requests
        return frame if frame is None or self.part == ALL else frame.filter(pl.col("part") == self.part)

    def copies(self) -> pl.LazyFrame | None:
        """The copies of the part, columns as in COPY_SCHEMA."""
        copies, requests = self._copies, self.requests()
        if copies is None or requests is None or self.part == ALL:
            return copies
        return copies.join(requests.select("window").unique(), on="window", how="semi")

    @cached_property
    def _requests(self) -> pl.LazyFrame | None:
        return scan_requests(self.result)

    @cached_property
    def _copies(self) -> pl.LazyFrame | None:
        return scan_copies(self.result)

    @property
    def subtitle(self) -> str:
        """Which requests: scenario, how many, trace."""
        if self.part == ALL:
            return headline(self.result)
        requests = next((row["requests"] for row in self.rows.values()), None)
        return f"{headline(self.result)} · of these {numbers.count(requests)} of part {self.part}"


@contextmanager
def open_view(folder: Path, theme: str = "light", part: str = ALL) -> Iterator[View]:
    """A stored result, to be drawn in this theme inside the context."""
    result = load_result(folder)
    if part not in result.parts:
        raise UsageError(f"no such part of the trace: {part!r}", nearest(part, result.parts))
    with themed(theme) as page:
        yield View(result, page, part, _scenario(result.folder or folder))


def _scenario(folder: Path) -> Scenario | None:
    """The scenario of a result, where its file is there and this version reads it."""
    try:
        return load_scenario(folder / SCENARIO)
    except BtbenchError:
        return None
