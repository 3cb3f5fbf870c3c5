"""`btbench replay` from end to end: results, streams, exit statuses, and nothing half-written."""

import gzip
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from btbench.cli.app import app
from btbench.scenario import load_scenario

SCENARIO = """\
name = "small"
policies = ["cache_aware", "btb"]

[trace]
source = "generated"

[trace.generator]
bursts = 2
burst_size = 6
burst_window_s = 2.0
decoys = 3

[[setup]]
name = "one"
model = "qwen3-8b"
gpu = "h100"
gpus_per_replica = 1
replicas = 3
"""

ROW = '{"arrival_s": %s, "input_length": %s, "output_length": %s, "hash_ids": %s}\n'
ROWS = ROW % (0.0, 600, 5, "[1, 2, 3]") + ROW % (0.5, 600, 5, "[1, 2, 4]")
FROM_FILE = SCENARIO.replace('"generated"', '"trace.jsonl"\nblock_tokens = 256').replace(
    "[trace.generator]\nbursts = 2\nburst_size = 6\nburst_window_s = 2.0\ndecoys = 3\n", ""
)
RESULT_FILES = {"requests.parquet", "summary.json", "summary.csv", "table.md", "scenario.toml", "provenance.json"}

Replay = Callable[..., Result]


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replay:
    """Runs `btbench replay` in a folder that holds small.toml, trace.jsonl and from_file.toml, without charts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("small.toml").write_text(SCENARIO)
    Path("from_file.toml").write_text(FROM_FILE)
    Path("trace.jsonl").write_text(ROWS)
    return lambda *args: CliRunner().invoke(app, ["replay", *args, "--no-charts"])


def command(*args: str, **variables: str) -> list[str]:
    return ["env", *(f"{k}={v}" for k, v in variables.items()), sys.executable, "-m", "btbench", "replay", *args]


# What a replay yields


def test_a_replay_prints_its_table_and_leaves_a_result(replay: Replay) -> None:
    result = replay("small.toml")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"\s*btb +\d", line) for line in lines)
    assert "baseline" in result.stdout
    assert {path.name for path in Path("results/small").iterdir()} >= RESULT_FILES
    frame = pl.read_parquet("results/small/requests.parquet")
    assert len(frame) == 2 * (2 * 6 + 3)
    assert (frame["finish_s"] > frame["arrival_s"]).all()
    assert re.search(r"30 requests replayed in \S+ s \(engine \S+ s\); result in results/small\n", result.stderr)


def test_the_scenario_of_a_result_replays_to_the_same(replay: Replay) -> None:
    first = replay("from_file.toml", "--format", "csv")
    assert first.exit_code == 0, first.output
    assert load_scenario("results/small/scenario.toml").setups == load_scenario("from_file.toml").setups
    again = replay("results/small/scenario.toml", "--format", "csv", "-o", "again")
    assert (again.exit_code, again.stdout) == (0, first.stdout)


def test_formats_on_stdout(replay: Replay) -> None:
    markdown = replay("small.toml", "--format", "markdown", "-q")
    assert markdown.stdout == Path("results/small/table.md").read_text()
    assert markdown.stderr == ""
    rows = json.loads(replay("small.toml", "--format", "json", "--force").stdout)["rows"]
    assert [(row["setup"], row["policy"]) for row in rows if row["part"] == "all"] == [
        ("one", "cache_aware"),
        ("one", "btb"),
    ]
    assert "engine_s" not in rows[0]
    csv = replay("small.toml", "--format", "csv", "--force").stdout.splitlines()
    assert csv[0].startswith("setup,policy,part,requests,mean_ttft_s")
    assert len(csv) == 1 + sum(row["part"] == "all" for row in rows)  # one part, told once


def test_the_same_bytes_whatever_jobs_and_hash_seed(replay: Replay) -> None:
    runs = []
    for jobs, hash_seed in (("1", "1"), ("2", "2")):
        args = ["small.toml", "-o", f"out{jobs}", "-j", jobs, "--no-charts"]
        runs.append(subprocess.run(command(*args, PYTHONHASHSEED=hash_seed), capture_output=True, check=True).stdout)
    assert runs[0] == runs[1]
    for name in ("requests.parquet", "copies.parquet", "table.md", "scenario.toml"):
        assert Path("out1", name).read_bytes() == Path("out2", name).read_bytes()


def test_narrowing_and_overriding(replay: Replay) -> None:
    args = ["--setup", "70b_h100x4", "--policy", "random", "--policy", "round_robin", "--seed", "5"]
    result = replay("--trace", "trace.jsonl", "--block-tokens", "256", *args, "--format", "csv")
    assert result.exit_code == 0, result.output
    assert [line.split(",")[:2] for line in result.stdout.splitlines()[1:]] == [
        ["70b_h100x4", "random"],
        ["70b_h100x4", "round_robin"],
    ]
    assert "Note: the baseline cache_aware is not among the policies; reductions are against random" in result.stderr
    resolved = tomllib.loads(Path("results/trace/scenario.toml").read_text())
    assert (resolved["name"], resolved["seed"], resolved["trace"]["source"]) == ("trace", 5, "../../trace.jsonl")


def test_a_trace_from_stdin(replay: Replay, tmp_path: Path) -> None:
    args = ["from_file.toml", "--trace", "-", "--block-tokens", "256", "--format", "csv", "--no-charts", "-q"]
    done = subprocess.run(command(*args), input=ROWS.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    from_file = replay("from_file.toml", "--format", "csv").stdout
    assert done.stdout.decode() == from_file


def test_a_file_name_that_is_no_utf_8(replay: Replay, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "odd") + b"\xff.jsonl"
    try:
        Path(os.fsdecode(path)).write_text(ROWS)
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    done = replay("quickstart", "-p", "btb", "--block-tokens", "256", "-t", os.fsdecode(path), "-o", "odd")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("odd/provenance.json").read_text(encoding="utf-8"))["trace"]["name"] == "odd\ufffd"
    assert tomllib.loads(Path("odd/scenario.toml").read_text(encoding="utf-8"))["trace"]["source"].endswith(
        "odd\ufffd.jsonl"
    )


def test_oddities_are_told(replay: Replay) -> None:
    rows = ROW % (5.0, 600, 5, "[1]") + ROW % (1.0, 600, 0, "[]") + ROW % (2.0, 100, 1, "[7, 8, 9]")
    Path("trace.jsonl").write_text(rows)
    result = replay("from_file.toml")
    assert result.exit_code == 0, result.output
    for kind in ("out-of-order arrivals", "output below 1", "more blocks than the input holds"):
        assert re.search(f"Note: trace: {kind}: [12] rows?, first row [123]; ", result.stderr)
    assert pl.read_parquet("results/small/requests.parquet").height == 2 * 3
    assert "Note" not in replay("from_file.toml", "--force", "-q").stderr


def test_a_btb_that_never_copies_is_told(replay: Replay) -> None:
    said = " ".join(replay("from_file.toml").stdout.split())
    assert "btb made no copies: it saw no burst of one prefix of 65,536 tokens" in said
    assert "made no copies" not in replay("small.toml", "-o", "other").stdout


# Bad input


def bad_traces() -> dict[str, tuple[bytes | None, list[str]]]:
    """Content of trace.jsonl, and what the message must hold."""
    row = ROWS.encode()
    return {
        "missing": (None, ["trace.jsonl"]),
        "empty": (b"", ["trace.jsonl", "empty"]),
        "truncated gzip": (gzip.compress(row * 50)[:60], ["trace.jsonl", "truncated"]),
        "bad JSON": (row + b'{"arrival_s": 1,\n', ["trace.jsonl, line 3", "JSON"]),
        "no object": (row + b"17\n", ["trace.jsonl, line 3"]),
        "missing column": (b'{"arrival_s": 0, "output_length": 1}\n', ["trace.jsonl", "input_length"]),
        "missing value": (row + b'{"arrival_s": 9, "hash_ids": []}\n', ["trace.jsonl, line 3", "input_length"]),
        "negative time": (row + (ROW % (-1.0, 6, 5, "[1]")).encode(), ["trace.jsonl, line 3", "arrival_s", "-1"]),
        "negative tokens": (row + (ROW % (1.0, -6, 5, "[1]")).encode(), ["trace.jsonl, line 3", "input_length", "-6"]),
        "NaN": (row + (ROW % ("NaN", 6, 5, "[1]")).encode(), ["trace.jsonl, line 3"]),
        "infinite": (row + (ROW % ("1e999", 6, 5, "[1]")).encode(), ["trace.jsonl, line 3", "arrival_s"]),
        "text for a number": (row + (ROW % ('"x"', 6, 5, "[1]")).encode(), ["trace.jsonl, line 3", "arrival_s"]),
        "too large a request": (row + (ROW % (1.0, 9_000_000, 5, "[1]")).encode(), ["'one'", "9,000,005", "room for"]),
    }


@pytest.mark.parametrize("kind", sorted(bad_traces()))
def test_a_bad_trace_is_status_2_and_leaves_nothing(replay: Replay, tmp_path: Path, kind: str) -> None:
    content, fragments = bad_traces()[kind]
    Path("trace.jsonl").unlink()
    if content is not None:
        Path("trace.jsonl").write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    result = replay("from_file.toml")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    error = result.stderr[result.stderr.index("Error: ") :]
    assert "Traceback" not in error and len(error.splitlines()) <= 4
    for fragment in fragments:
        assert fragment in error
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("old", "new", "fragments"),
    [
        ('model = "qwen3-8b"', 'model = "kimi-k2"', ["'one'", "kimi-k2", "node0", "420.0 GB short"]),
        ('gpu = "h100"', 'gpu = "h10"', ["small.toml, line 16", "Did you mean 'h100'?"]),
        ('"btb"]', '"btbb"]', ["small.toml, line 2", "Did you mean 'btb'?"]),
        ("bursts = 2", "burst = 2", ["small.toml, line 8", "Did you mean 'bursts'?"]),
        ("replicas = 3", "replicas = 0", ["small.toml, line 18", "from 1"]),
        ("[[setup]]", "[policy.btb]\nprefix_blocks = 0\n[[setup]]", ["small.toml, line 14", "at least 1"]),
    ],
)
def test_a_bad_scenario_is_status_2_and_leaves_nothing(
    replay: Replay, tmp_path: Path, old: str, new: str, fragments: list[str]
) -> None:
    assert old in SCENARIO
    Path("small.toml").write_text(SCENARIO.replace(old, new))
    before = sorted(tmp_path.rglob("*"))
    result = replay("small.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    for fragment in fragments:
        assert fragment in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_result_is_not_overwritten_without_force(replay: Replay) -> None:
    replay("small.toml")
    Path("trace.jsonl").unlink()  # the folder is looked at before the trace
    result = replay("from_file.toml")
    assert result.exit_code == 2
    assert "results/small" in result.stderr and "--force" in result.stderr
    assert replay("small.toml", "--force").exit_code == 0


def test_an_output_that_is_a_file(replay: Replay) -> None:
    for out in ("trace.jsonl", "trace.jsonl/inside"):
        result = replay("small.toml", "-o", out)
        assert result.exit_code == 2
        assert "trace.jsonl is a file" in result.stderr
    assert Path("trace.jsonl").read_text() == ROWS


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_that_cannot_be_written(replay: Replay, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    result = replay("small.toml", "-o", str(locked / "out"))
    assert result.exit_code == 2
    assert "permission denied" in result.stderr


def test_a_full_disk_leaves_nothing(replay: Replay) -> None:
    replay("small.toml", "-o", "first")  # so that kernels are compiled
    done = subprocess.run(
        command("small.toml", "-o", "out", "--no-charts", "-q"),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert done.returncode == 2, done.stderr
    assert "cannot write the result to out" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not Path("out").exists()


# Charts


def test_charts_are_of_the_formats_and_the_page_asked_for(replay: Replay) -> None:
    asked = ["replay", "small.toml", "--charts", "svg", "--theme", "dark", "-q"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    names = {path.name for path in Path("results/small/charts").iterdir()}
    assert {"reduction-dark.png", "reduction-dark.svg"} <= names and all("-dark." in name for name in names)
    wrong = CliRunner().invoke(app, ["replay", "small.toml", "--charts", "gif", "-o", "other"])
    assert wrong.exit_code == 2 and "no such chart format: 'gif'" in wrong.stderr and not Path("other").exists()
    idle = replay("small.toml", "--charts", "svg", "-o", "other")  # with --no-charts
    assert idle.exit_code == 2 and "--no-charts" in idle.stderr


# Seeds


def test_more_seeds_give_intervals_and_change_nothing_else(replay: Replay) -> None:
    asked = ("small.toml", "-p", "cache_aware", "-p", "random")
    assert replay(*asked, "-o", "one").exit_code == 0
    told = replay(*asked, "-o", "five", "--seeds", "5", "-j", "2")
    assert "(95% interval" in " ".join(told.stdout.split())
    assert "150 requests replayed" in told.stderr  # 15 × 2 policies × 5 seeds
    assert replay(*asked, "-o", "again", "--seeds", "5", "-j", "1").stdout == told.stdout
    ends = ("mean_reduction_low_pct", "mean_reduction_high_pct")
    one, five = (rows_without_times(Path(folder)) for folder in ("one", "five"))
    random = next(row for row in five if row["policy"] == "random")
    assert random[ends[0]] < random["mean_reduction_pct"] < random[ends[1]]
    assert one == [row | dict.fromkeys(ends) for row in five]
    assert Path("one/requests.parquet").read_bytes() == Path("five/requests.parquet").read_bytes()
    assert json.loads(Path("five/provenance.json").read_text())["seeds"] == 5
    assert load_scenario("five/scenario.toml").seeds == 5
    wrong = replay("small.toml", "--seeds", "0")
    assert wrong.exit_code == 2 and "--seeds" in wrong.stderr


def rows_without_times(folder: Path) -> list[dict[str, object]]:
    rows = json.loads((folder / "summary.json").read_text())["rows"]
    return [{key: value for key, value in row.items() if key not in ("engine_s", "requests_per_s")} for row in rows]


# Streams and signals


def test_ctrl_c_ends_at_once_with_130(replay: Replay, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    process = subprocess.Popen(
        command("from_file.toml", "--trace", "-", "--no-charts"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin and process.stderr
    process.stdin.write(ROWS.encode() * 2000)  # more than a pipe holds: it is being read once this returns
    process.stdin.flush()
    time.sleep(0.5)  # until it waits for more
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert process.stderr.read().decode().endswith("Error: interrupted\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_bar_only_on_a_terminal(replay: Replay) -> None:
    plain = subprocess.run(command("small.toml", "--no-charts"), capture_output=True, check=True)
    assert b"\r" not in plain.stderr and b"\x1b" not in plain.stderr
    ours, theirs = pty.openpty()
    shown = b""
    process = subprocess.Popen(
        command("small.toml", "--no-charts", "--force", TERM="xterm-256color"), stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 0
    assert process.stdout and process.stdout.read() == plain.stdout
    assert b"replaying" in shown and b"\x1b[" in shown
