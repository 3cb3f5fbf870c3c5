"""How long drawing takes: the default result in under 4 s, a million requests in under 10 s and 1.5 GB.

pytest tests/benchmarks/bench_charts.py -s
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from btbench.engine import replay_grid
from btbench.results.files import REQUESTS, SUMMARY
from btbench.results.writer import write_result
from btbench.scenario import Scenario, load_scenario
from btbench.sources import open_trace

MILLION = 1_000_000


def write_replay(scenario: Scenario, folder: Path) -> Path:
    trace = open_trace(scenario.trace, scenario.folder, seed=scenario.seed)
    with write_result(folder, trace, scenario.baseline) as writer:
        for cell in replay_grid(trace, scenario.setups, scenario.policies, scenario.options, scenario.seed):
            writer.add(*cell)
        writer.finish(scenario=scenario.name, scenario_toml=scenario.to_toml(folder), seed=scenario.seed, command="")
    return folder


def draw_in_a_process(folder: Path) -> tuple[float, float]:
    """Seconds to draw (after imports), and the largest memory of the process in GB."""
    code = (
        "import resource, sys, time\nfrom pathlib import Path\nfrom btbench.charts.draw import draw_result\n"
        "started = time.perf_counter()\ndraw_result(Path(sys.argv[1]))\n"
        "print(time.perf_counter() - started, time.process_time())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], check=True, stdout=subprocess.PIPE, text=True)
    took_s, cpu_s, memory_gb = map(float, done.stdout.split())
    print(f"\n{folder.name}: {took_s:.2f} s, {memory_gb:.2f} GB; {cpu_s:.2f} s of CPU, imports included")
    return took_s, memory_gb


def test_the_default_result(tmp_path: Path) -> None:
    took_s, _ = draw_in_a_process(write_replay(load_scenario("default"), tmp_path / "default"))
    assert took_s < 4


@pytest.mark.parametrize("windows", [1, 250])
def test_a_million_requests(tmp_path: Path, windows: int) -> None:
    """The quickstart's files, its requests replaced by a million for each of three policies, in one window or many."""
    folder = write_replay(load_scenario("quickstart"), tmp_path / f"{windows} windows")
    few = pl.read_parquet(folder / REQUESTS)
    rng = np.random.default_rng(0)
    with_policy = []
    for (policy,), rows in few.partition_by("policy", as_dict=True, maintain_order=True).items():
        arrival_s = pl.Series(np.sort(rng.uniform(0, 1e5, MILLION)))
        many = rows.sample(MILLION, with_replacement=True, seed=1).with_columns(
            policy=pl.lit(policy),
            window=pl.Series(np.arange(MILLION) * windows // MILLION).cast(pl.String),
            request=pl.int_range(MILLION),
            finish_s=pl.lit(arrival_s) + pl.col("finish_s") - pl.col("arrival_s"),
            start_s=pl.lit(arrival_s) + pl.col("start_s") - pl.col("arrival_s"),
            arrival_s=arrival_s,
        )
        with_policy.append(many.select(few.columns))
    pl.concat(with_policy).write_parquet(folder / REQUESTS)
    summary = json.loads((folder / SUMMARY).read_text())
    for row in summary["rows"]:
        row["requests"] = MILLION
    (folder / SUMMARY).write_text(json.dumps(summary))
    took_s, memory_gb = draw_in_a_process(folder)
    assert took_s < 10
    assert memory_gb < 1.5
