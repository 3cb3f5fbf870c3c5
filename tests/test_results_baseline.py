"""The result kept in the repository is what the current code makes; made again with MAKE_AGAIN."""

import shutil
from pathlib import Path

import pytest

from btbench.engine import replay_grid
from btbench.results.files import load_result, summary_csv
from btbench.results.metrics import STABLE_METRICS
from btbench.results.report import write_report
from btbench.results.summary import summary_rows
from btbench.results.table import markdown_table
from btbench.scenario import load_scenario
from btbench.sources import open_trace

BASELINE = Path(__file__).parent.parent / "results" / "baseline"
MAKE_AGAIN = "btbench replay --out results/baseline --force"
STALE = f"results/baseline is stale: make it again with `{MAKE_AGAIN}`"


def test_the_numbers_are_those_of_the_default_scenario():
    asked = load_scenario("default")
    trace = open_trace(asked.trace, asked.folder, seed=asked.seed)
    replays = replay_grid(trace, asked.setups, asked.policies, asked.options, asked.seed)
    rows = summary_rows(trace, replays, asked.baseline)
    kept = load_result(BASELINE)
    assert [row.key for row in kept.rows] == [row.key for row in rows], STALE
    for row, current in zip(kept.rows, rows, strict=True):
        for metric in STABLE_METRICS:
            a, b = row[metric.name], current[metric.name]
            # sums differ in the last bit from processor to processor
            assert a == b or a == pytest.approx(b, rel=1e-12), f"{STALE}: {row.key} {metric.name}"
    assert (BASELINE / "scenario.toml").read_text() == asked.to_toml(BASELINE), STALE
    assert kept.provenance.command == MAKE_AGAIN, STALE


def test_the_files_say_what_the_numbers_say(tmp_path):
    kept = load_result(BASELINE)
    assert (BASELINE / "table.md").read_text() == markdown_table(kept), STALE
    assert (BASELINE / "summary.csv").read_text() == summary_csv(kept.rows), STALE
    shutil.copytree(BASELINE, tmp_path / "baseline")
    assert write_report(tmp_path / "baseline").read_bytes() == (BASELINE / "report.html").read_bytes(), STALE
