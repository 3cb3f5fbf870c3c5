"""Opening traces: every container gives the same trace, windows and block sizes are as asked."""

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard

from btbench.errors import TraceError
from btbench.sources import open_trace
from btbench.trace import Trace, Window
from btbench.trace_spec import TraceSpec, WindowSpec

ROWS = [
    {"arrival_s": 0.0, "input_length": 700, "output_length": 5, "hash_ids": ["a", "b", "c"]},
    {"arrival_s": 0.5, "input_length": 512, "output_length": 9, "hash_ids": ["a", "b"]},
    {"arrival_s": 0.75, "input_length": 10, "output_length": 1, "hash_ids": []},
    {"arrival_s": 2.25, "input_length": 1000, "output_length": 2, "hash_ids": ["a", "b", "x", "y"]},
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BTBENCH_CACHE", str(tmp_path / "cache"))


def jsonl(rows: list[dict]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(path: Path, rows: list[dict]) -> Path:
    """A trace file; the container follows from the name."""
    if path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(jsonl(rows)))
    elif path.suffix == ".zst":
        path.write_bytes(zstandard.compress(jsonl(rows)))
    else:
        path.write_bytes(jsonl(rows))
    return path


def opened(path: Path, **spec: object) -> Trace:
    return open_trace(TraceSpec(source=str(path), **{"block_tokens": 256, **spec}), path.parent, seed=1)


def blocks_of(trace: Trace) -> list[list[int]]:
    """Every request's prompt as run ids repeated by their length, with -1 for blocks that occur nowhere else."""
    return [
        [r for r in trace.runs[a:b].tolist() for _ in range(trace.run_blocks[r])] + [-1] * int(tail)
        for a, b, tail in zip(trace.run_offsets[:-1], trace.run_offsets[1:], trace.tail_blocks, strict=True)
    ]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst", "t.parquet", "named-otherwise"])
def test_every_container_holds_the_same_trace(tmp_path: Path, name: str) -> None:
    trace = opened(write(tmp_path / name, ROWS))
    assert trace.arrival_s.tolist() == [0.0, 0.5, 0.75, 2.25]
    assert trace.input_tokens.tolist() == [700, 512, 10, 1000]
    assert trace.output_tokens.tolist() == [5, 9, 1, 2]
    assert blocks_of(trace) == [[0, 0, -1], [0, 0], [], [0, 0, -1, -1]]
    assert trace.windows == (Window("0", "", 0, 4),)
    assert (trace.format, trace.block_tokens) == ("btbench", 256)


def test_stdin_is_read_whatever_its_compression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (jsonl(ROWS), gzip.compress(jsonl(ROWS)), write(tmp_path / "t.parquet", ROWS).read_bytes()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        trace = open_trace(TraceSpec(source="-", block_tokens=256), tmp_path, seed=1)
        assert blocks_of(trace) == [[0, 0, -1], [0, 0], [], [0, 0, -1, -1]]


def test_mooncake_times_are_milliseconds_and_blocks_512_tokens(tmp_path: Path) -> None:
    rows = [
        {"timestamp": t, "input_length": 600, "output_length": 1, "hash_ids": [0, n]} for n, t in enumerate([0, 3001])
    ]
    trace = opened(write(tmp_path / "m.jsonl", rows), block_tokens=None)
    assert trace.arrival_s.tolist() == [0.0, 3001 / 1000]
    assert (trace.format, trace.block_tokens) == ("mooncake", 512)


def test_rows_of_a_window_are_put_together_and_sorted(tmp_path: Path) -> None:
    rows = [
        {**ROWS[0], "trace_id": "w1", "source": "art", "arrival_s": 2.0},
        {**ROWS[1], "trace_id": "w0", "source": "synthetic", "arrival_s": 9.0},
        {**ROWS[2], "trace_id": "w1", "source": "art", "arrival_s": 1.0},
    ]
    trace = opened(write(tmp_path / "t.jsonl", rows))
    assert trace.windows == (Window("w1", "art", 0, 2), Window("w0", "synthetic", 2, 3))
    assert trace.arrival_s.tolist() == [1.0, 2.0, 9.0]
    assert trace.input_tokens.tolist() == [10, 700, 512]
    assert [(o.kind, o.count, o.first_row) for o in trace.oddities if "order" in o.kind] == [
        ("out-of-order arrivals", 1, 3)
    ]
    one = opened(tmp_path / "t.jsonl", windows=WindowSpec(by="source", label_by="trace_id"))
    assert [(w.name, w.label) for w in one.windows] == [("art", "w1"), ("synthetic", "w0")]


def test_windows_are_cut_from_one_long_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", ROWS)
    trace = opened(path, windows=WindowSpec(count=2, rows=2, start=0), arrival_scale=2.0)
    assert [w.name for w in trace.windows] == ["rows 0-1", "rows 2-3"]
    assert trace.arrival_s.tolist() == [0.0, 1.0, 0.0, 3.0]
    assert blocks_of(trace) == [[0, 0, -1], [0, 0], [], [0, 0, -1, -1]]
    cut = [opened(path, windows=WindowSpec(count=5, rows=2, start="random", seed=3)) for _ in range(2)]
    assert cut[0].windows == cut[1].windows and len(cut[0]) == 10


def test_the_block_size_is_never_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", ROWS)
    with pytest.raises(TraceError, match="does not tell how many tokens a block has"):
        opened(path, block_tokens=None)


def test_a_trace_packed_before_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.jsonl", ROWS)
    first = opened(path)
    monkeypatch.setattr("btbench.sources.reader._pack", lambda *a: pytest.fail("parsed again"))
    second = opened(path)
    for name in ("arrival_s", "input_tokens", "output_tokens", "run_offsets", "runs", "run_blocks", "tail_blocks"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert getattr(first, name).dtype == getattr(second, name).dtype
    assert (first.windows, first.oddities, first.digest) == (second.windows, second.oddities, second.digest)
