"""`btbench replay` against the answers of the published simulator: every request of every case."""

import json
import os
import tomllib
from pathlib import Path

import polars as pl
import pytest
from cases import GOLDEN, folder_of
from typer.testing import CliRunner

from btbench.cli.app import app

KEYS = ["setup", "policy", "window", "request"]
TIMES = ["arrival_s", "start_s", "reuse_s", "prefill_s", "ttft_s", "finish_s"]
EXACT = ["replica", "hit_tokens", "tier"]

CONFORMANCE = folder_of("BTBENCH_CONFORMANCE")
TRACES = folder_of("BTBENCH_TRACES")
DEFAULT = Path(__file__).parents[1] / "scenarios" / "default.toml"
SMALL = sorted(GOLDEN.iterdir())
LARGE = [
    folder
    for folder in sorted(CONFORMANCE.iterdir() if CONFORMANCE else [])
    if (folder / "expected.parquet").exists() and not (GOLDEN / folder.name).exists()
]
needs_cases = pytest.mark.skipif(not LARGE, reason="BTBENCH_CONFORMANCE does not point to the larger cases")
needs_traces = pytest.mark.skipif(not TRACES, reason="BTBENCH_TRACES does not point to real traces")


def replay(out: Path, *arguments: str | Path) -> Path:
    """Run the command; the result folder."""
    done = CliRunner().invoke(app, ["replay", *map(str, arguments), "--out", str(out), "--no-charts", "--quiet"])
    assert done.exit_code == 0, done.output
    return out


def read_expected(folder: Path) -> pl.DataFrame:
    """The right answers of a case; one window is called "0"."""
    expected = pl.read_parquet(folder / "expected.parquet")
    return expected if "window" in expected.columns else expected.with_columns(window=pl.lit("0"))


def assert_agrees(requests: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Same requests, same replica, hit tokens and tier; times within 1e-9 × max(1, value)."""
    both = expected.join(requests, on=KEYS, how="full", suffix="_here", coalesce=True)
    assert len(expected) == len(requests) == len(both)
    off = [pl.col(name).ne_missing(pl.col(f"{name}_here")) for name in EXACT]
    off += [
        ~((pl.col(name) - pl.col(f"{name}_here")).abs() <= 1e-9 * pl.max_horizontal(1.0, pl.col(name).abs()))
        for name in TIMES
    ]
    wrong = both.filter(pl.any_horizontal(pl.any_horizontal(off).fill_null(True)))
    assert wrong.is_empty(), f"{len(wrong)} of {len(both)} requests differ, the first: {wrong.row(0, named=True)}"


@pytest.mark.parametrize("folder", SMALL, ids=lambda folder: folder.name)
def test_golden_cases(folder, tmp_path):
    assert len(SMALL) == 6
    out = replay(tmp_path / "result", folder / "scenario.toml")
    assert_agrees(pl.read_parquet(out / "requests.parquet"), read_expected(folder))


@needs_cases
@pytest.mark.parametrize("folder", LARGE, ids=lambda folder: folder.name)
def test_larger_cases(folder, tmp_path):
    out = replay(tmp_path / "result", folder / "scenario.toml")
    assert_agrees(pl.read_parquet(out / "requests.parquet"), read_expected(folder))


@needs_cases
@needs_traces
def test_the_real_mooncake_trace_in_milliseconds_is_the_case_in_seconds(tmp_path):
    trace = TRACES / "mooncake" / "conversation_trace.jsonl.gz"
    policies = ["least_load", "cache_aware"]
    named = [word for policy in policies for word in ("--policy", policy)]
    out = replay(tmp_path / "result", "--trace", trace, "--setup", "70b_h100x4", *named)
    expected = read_expected(CONFORMANCE / "mooncake-conversation")
    same = expected.filter(pl.col("setup") == "70b_h100x4", pl.col("policy").is_in(policies))
    assert_agrees(pl.read_parquet(out / "requests.parquet"), same)


def test_the_default_scenario_has_the_published_means(tmp_path):
    published = tomllib.loads(DEFAULT.read_text())["published"]
    assert {(row["setup"], row["policy"]) for row in published} == {
        (setup, policy)
        for setup in (
            "70b_h100x4",
            "qwen3_8b_h100x4",
            "glm45_h100x4",
            "glm52_h100x8",
            "kimi_k2_h100x8",
            "dense1t_b300x4",
        )
        for policy in ("cache_aware", "btb")
    }
    out = replay(tmp_path / "result", "default", "--policy", "cache_aware", "--policy", "btb")
    rows = json.loads((out / "summary.json").read_text())["rows"]
    means = {(r["setup"], r["policy"]): r["mean_ttft_s"] for r in rows if r["part"] == "synthetic"}
    requests = {(r["part"], r["requests"]) for r in rows}
    assert requests == {("all", 76_800), ("synthetic", 61_800), ("art-like", 15_000)}
    for row in published:
        here = means[row["setup"], row["policy"]]
        assert here == pytest.approx(row["mean_ttft_s"], rel=1e-9), row


def test_reference_data_is_found_where_it_is_said_to_be():
    """A variable that points nowhere would skip everything it is for, silently."""
    for variable in ("BTBENCH_CONFORMANCE", "BTBENCH_TRACES"):
        value = os.environ.get(variable)
        assert value is None or Path(value).is_dir(), f"{variable}={value}"
