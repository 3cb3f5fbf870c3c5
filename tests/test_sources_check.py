"""`btbench check`: what a trace holds, told in one pass; exit statuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from trace_files import ROWS, opened, write
from typer.testing import CliRunner

from btbench.cli.app import app

FIT = [{**ROWS[0], "arrival_s": n, "hash_ids": ["a", "b", f"c{n}"]} for n in range(30)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("BTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *args, **options: CliRunner().invoke(app, ["check", *args], **options)


def checked(run: Callable[..., object], *args: str) -> dict:
    result = run(*args, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_facts_and_plan(run, tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", FIT)
    found = checked(run, "t.jsonl", "--block-tokens", "256")
    assert found["trace"] == {
        "name": "t", "format": "btbench rows", "requests": 30, "windows": 1, "span_s": 29.0,
        "mean_rate_per_s": 30 / 29, "tied_arrivals": 0, "tied_share": 0.0,
        "mean_input_tokens": 700.0, "max_input_tokens": 700, "mean_output_tokens": 5.0, "max_output_tokens": 5,
        "block_tokens": 256, "prompt_blocks": 90, "requests_with_blocks": 30, "sessions": None, "users": None,
        "digest": found["trace"]["digest"],
    }  # fmt: skip
    assert (found["oddities"], found["notes"], found["replay"]) == ([], [], ["one window of 30 requests"])


def test_oddities_are_told_with_rows_and_handling(run, tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", [*FIT[:3], {**FIT[0], "output_length": 0}])
    result = run("t.jsonl", "--block-tokens", "256")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "output below 1 1 4 raised to 1" in lines
    assert "out-of-order arrivals 1 4 sorted, ties kept in row order" in lines
    assert lines[-1] == "Replay: one window of 4 requests."
    markdown = run("t.jsonl", "--format", "markdown").stdout
    assert "| output below 1 | 1 | 4 | raised to 1 |" in markdown


def test_strict_allows_no_oddity(run, tmp_path: Path) -> None:
    write(tmp_path / "good.jsonl", FIT)
    assert run("good.jsonl", "--strict", "--block-tokens", "256").exit_code == 0
    write(tmp_path / "odd.jsonl", [*FIT, FIT[0]])
    result = run("odd.jsonl", "--strict", "--block-tokens", "256")
    assert result.exit_code == 2
    assert (
        "Error: odd.jsonl: has oddities, and --strict allows none: out-of-order arrivals, duplicate rows."
        in result.stderr
    )
    assert "duplicate rows" in result.stdout  # the table is there all the same


def test_bad_rows_are_an_error_or_counted(run, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", FIT)
    path.write_bytes(path.read_bytes() + b"{bad\n")
    result = run("t.jsonl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: t.jsonl, line 31: not a JSON object")
    found = checked(run, "t.jsonl", "--skip-bad-rows")
    assert found["oddities"] == [{"kind": "not JSON", "count": 1, "first_row": 31, "handling": "dropped"}]
    assert run("t.jsonl", "--skip-bad-rows", "--strict").exit_code == 2


def test_a_block_size_that_is_not_told_is_suggested(run, tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", FIT)
    (plan,) = checked(run, "t.jsonl")["replay"]
    assert plan == "needs the block size: block_tokens in [trace], or --block-tokens; 256 fits 100% of the rows"


def test_a_block_size_that_does_not_fit_is_suspected(run, tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", FIT)
    found = checked(run, "t.jsonl", "--block-tokens", "64")
    assert found["notes"] == ["blocks look like 256 tokens (100% of the rows fit), not 64"]
    assert [odd["kind"] for odd in found["oddities"]] == ["fewer blocks than the input fills"]


@pytest.mark.parametrize(
    ("step", "note"),
    [
        (300, []),  # ms: 3.4 requests/s
        (0.3, ["times look like s, not ms: 3.45e+03 requests/s on average; --time-unit s"]),
        (300_000, ["times look like us, not ms: 0.00345 requests/s on average; --time-unit us"]),
    ],
)
def test_a_wrong_unit_of_time_is_suspected(run, tmp_path: Path, step: float, note: list[str]) -> None:
    rows = [{"timestamp": n * step, "input_length": 700, "output_length": 5, "hash_ids": [0, n]} for n in range(30)]
    write(tmp_path / "t.jsonl", rows)
    assert checked(run, "t.jsonl")["notes"] == note


@pytest.mark.parametrize(("pairs", "told"), [(1, True), (0, False)])
def test_many_equal_times_are_told(run, tmp_path: Path, pairs: int, told: bool) -> None:
    rows = [{**FIT[0], "arrival_s": max(n, pairs), "hash_ids": [f"{n}"]} for n in range(150)]
    write(tmp_path / "t.jsonl", rows)
    note = "2 requests (1.3%) arrive at the same time as another: the clock is coarse; --tie spread deals them evenly"
    assert any(text.startswith(note) for text in checked(run, "t.jsonl", "--block-tokens", "1024")["notes"]) is told


def test_windows_and_their_parts(run, tmp_path: Path) -> None:
    labels = ["art", "synthetic", "art"]
    write(tmp_path / "t.jsonl", [{**row, "trace_id": n % 3, "source": labels[n % 3]} for n, row in enumerate(FIT[:7])])
    assert checked(run, "t.jsonl", "--block-tokens", "256")["replay"] == [
        "3 windows of 2 to 3 requests, each on a fresh cluster",
        "windows by part: 2 art, 1 synthetic",
    ]


def test_a_trace_without_times_says_that_it_cannot_be_replayed(run, tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
    write(tmp_path / "s.json", [{"conversations": turns}])
    found = checked(run, "s.json")
    assert found["replay"] == ["cannot be replayed: the trace has no times"]
    assert found["trace"]["span_s"] is None


def test_the_first_replay_does_not_read_again(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.jsonl", FIT)
    run("t.jsonl")
    monkeypatch.setattr("btbench.sources.reader._pack", lambda *a: pytest.fail("read again"))
    assert len(opened(path, block_tokens=256)) == 30


def test_stdin(run, tmp_path: Path) -> None:
    data = write(tmp_path / "t.jsonl.gz", FIT).read_bytes()
    result = run("-", "--format", "csv", input=data)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("stdin,btbench rows,30,1,29.0,")
