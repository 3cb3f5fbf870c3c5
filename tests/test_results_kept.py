"""The results kept in the repository are what the current code makes; each is made again with its command."""

import csv
import shutil
from pathlib import Path
from statistics import median

import pytest
from matplotlib.testing.compare import compare_images
from typer.testing import CliRunner

from btbench.cli.app import app
from btbench.engine import replay_grid
from btbench.results import numbers
from btbench.results.files import load_result, summary_csv
from btbench.results.metrics import STABLE_METRICS
from btbench.results.report import write_report
from btbench.results.summary import summary_rows
from btbench.results.table import markdown_table
from btbench.scenario import Overrides, load_scenario, load_variants, parse_setting
from btbench.sources import open_trace

KEPT = Path(__file__).parent.parent / "results"
README = KEPT.parent / "README.md"
COMMANDS = {
    "baseline": "btbench replay --out results/baseline --force",
    "routers": "btbench replay routers --force",
    "delay": (
        "btbench sweep delay --set router.signal_delay_s=0,0.001,0.003,0.01,0.03,0.1,0.3,1 --out results/delay --force"
    ),
    "copies_wait": (
        "btbench sweep routers -p sglang -p smg -p dynamo -p preble -p mooncake -p pull -p btb -p btb-dynamo "
        "--part synthetic --set engine.copies_wait=false,true --out results/copies_wait --force"
    ),
    "costs": "btbench costs --out results/costs --force",
}


def stale(name):
    return f"results/{name} is stale: make it again with `{COMMANDS[name]}`"


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    """The default scenario's result, made now with the command."""
    folder = tmp_path_factory.mktemp("kept") / "baseline"
    ended = CliRunner().invoke(app, ["replay", "--out", str(folder), "--quiet"])
    assert ended.exit_code == 0, ended.output
    return folder


def replayed(asked):
    """The summary of a scenario, replayed now."""
    trace = open_trace(asked.trace, asked.folder, seed=asked.seed)
    first, *again = (replay_grid(trace, asked.setups, asked.policies, asked.options, seed) for seed in asked.every_seed)
    return summary_rows(trace, first, asked.baseline, again)


def check(kept, rows, name):
    """Compare rows of a kept result (anything with the metrics by name) to those of now."""
    for row, current in zip(kept, rows, strict=True):
        for metric in STABLE_METRICS:
            a, b = row[metric.name], current[metric.name]
            # sums differ in the last bit from processor to processor
            assert a == b or a == pytest.approx(b, rel=1e-9, abs=1e-9), f"{stale(name)}: {current.key} {metric.name}"


def test_the_baseline_is_that_of_the_default_scenario(now):
    kept, current = load_result(KEPT / "baseline"), load_result(now)
    assert [row.key for row in kept.rows] == [row.key for row in current.rows], stale("baseline")
    check(kept.rows, current.rows, "baseline")
    assert (KEPT / "baseline" / "scenario.toml").read_text() == (now / "scenario.toml").read_text(), stale("baseline")


def test_its_charts_look_as_those_of_now(now):
    names = [path.name for path in sorted((now / "charts").iterdir())]
    assert names == [path.name for path in sorted((KEPT / "baseline" / "charts").iterdir())], stale("baseline")
    for name in names:
        pictures = [str(folder / "charts" / name) for folder in (KEPT / "baseline", now)]
        assert compare_images(*pictures, tol=6.0) is None, f"{stale('baseline')}: {name}"


def test_the_routers_are_those_of_the_scenario():
    """On one of its setups; the others would take too long."""
    kept = [row for row in load_result(KEPT / "routers").rows if row.setup == "glm45_h100x4"]
    rows = replayed(load_scenario("routers", Overrides(setups=("glm45_h100x4",))))
    assert [row.key for row in kept] == [row.key for row in rows], stale("routers")
    check(kept, rows, "routers")
    scenario = (KEPT / "routers" / "scenario.toml").read_text()
    assert scenario == load_scenario("routers").to_toml(KEPT / "routers"), stale("routers")


@pytest.mark.parametrize("name", ["baseline", "routers"])
def test_results_were_made_with_their_commands(name):
    assert load_result(KEPT / name).provenance.command == COMMANDS[name], stale(name)


@pytest.mark.parametrize(
    ("name", "scenario", "point"),
    [("delay", "delay", "router.signal_delay_s=0.03"), ("copies_wait", "routers", "engine.copies_wait=true")],
)
def test_sweeps_are_those_of_their_scenarios(name, scenario, point):
    """At one of their points, on one of their setups."""
    setting = parse_setting(point)
    at = {"setup": "glm45_h100x4", setting.key: point.partition("=")[2]}
    with (KEPT / name / "sweep.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if at.items() <= row.items()]
    policies = tuple(dict.fromkeys(row["policy"] for row in rows))
    ((_, asked),) = load_variants(scenario, [setting], Overrides(setups=("glm45_h100x4",), policies=policies))
    kept = [
        {metric.name: float(row[metric.name]) if row[metric.name] else None for metric in STABLE_METRICS}
        for row in rows
    ]
    current = replayed(asked)
    assert [(row["policy"], row["part"]) for row in rows] == [row.key[1:] for row in current], stale(name)
    check(kept, current, name)


@pytest.mark.parametrize("name", ["baseline", "routers"])
def test_the_files_say_what_the_numbers_say(name, tmp_path):
    kept = load_result(KEPT / name)
    assert (KEPT / name / "table.md").read_text() == markdown_table(kept), stale(name)
    assert (KEPT / name / "summary.csv").read_text() == summary_csv(kept.rows), stale(name)


def test_the_report_is_of_these_files(tmp_path):
    shutil.copytree(KEPT / "baseline", tmp_path / "baseline")
    assert write_report(tmp_path / "baseline").read_bytes() == (KEPT / "baseline" / "report.html").read_bytes(), stale(
        "baseline"
    )


def test_the_readme_tells_the_routers_numbers():
    """A line a policy: reduction over the setups, and on how many it is beyond chance, on bursts and on the control."""
    kept = load_result(KEPT / "routers")
    text = README.read_text()
    words = " ".join(text.replace("\\\n", " ").split())
    assert all(command in words for command in COMMANDS.values())
    for policy in kept.policies:
        cells = [f"`{policy}`"]
        for part in ("synthetic", "art-like"):
            rows = [row for row in kept.rows if (row.policy, row.part) == (policy, part)]
            if policy == kept.provenance.baseline:
                continue
            reductions = [row["mean_reduction_pct"] for row in rows]
            middle, *ends = (numbers.percent(round(of(reductions))).removesuffix(".0%") for of in (median, min, max))
            reaches = [row.reduction_reach for row in rows]
            lower, higher = sum(low > 0 for low, _ in reaches), sum(high < 0 for _, high in reaches)
            cells += [f"{middle}% ({ends[0]} to {ends[1]})", f"{lower} / {higher}"]
            closed = median(row["gap_closed_pct"] for row in rows)
            cells += [f"{closed:.0f}%"] if part == "synthetic" else []
        line = f"| {' | '.join(cells)} |"
        assert policy == kept.provenance.baseline or line in text, line
