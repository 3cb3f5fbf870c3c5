"""Opening traces: every container gives the same trace; block sizes and options are as asked."""

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from trace_files import ROWS, blocks_of, jsonl, numbered, odd, opened, rows_opened, write

from btbench.errors import TraceError
from btbench.sources import open_trace
from btbench.trace import Window
from btbench.trace_spec import TraceSpec

CONTAINERS = ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst", "t.parquet", "t.json", "t.csv", "named-otherwise"]


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def as_csv(rows: list[dict]) -> list[dict]:
    return [{**row, "hash_ids": str(row["hash_ids"]).replace("'", '"')} for row in rows]


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_holds_the_same_trace(tmp_path: Path, name: str) -> None:
    trace = opened(write(tmp_path / name, as_csv(ROWS) if name == "t.csv" else ROWS), block_tokens=256)
    assert trace.arrival_s.tolist() == [0.0, 0.5, 0.75, 2.25]
    assert trace.input_tokens.tolist() == [700, 512, 10, 1000]
    assert trace.output_tokens.tolist() == [5, 9, 1, 2]
    assert numbered(blocks_of(trace)) == [[0, 1, 2], [0, 1], [], [0, 1, 3, 4]]
    assert (trace.run_blocks.tolist(), trace.tail_blocks.tolist()) == ([2], [1, 0, 0, 2])
    assert trace.windows == (Window("0", "", 0, 4),)
    assert (trace.format, trace.block_tokens, trace.has_blocks, trace.has_times) == ("btbench", 256, True, True)
    assert odd(trace) == [("null or empty hashes", 1, 4 if name == "t.csv" else 3)]  # line 1 of a CSV is its header


ids = st.one_of(
    st.lists(st.integers(-3, 5), max_size=6),
    st.lists(st.sampled_from([0, 2**20, 2**21, 2**40, -(2**63), 2**63 - 1, 10**18, 123]), max_size=4),
    st.lists(st.text('ab"\\é\n0', max_size=20), max_size=6),
)
some_rows = st.lists(
    st.tuples(st.floats(0, 1e9), st.integers(0, 2**53), st.integers(0, 2**53), ids), min_size=1, max_size=8
)


@given(some_rows, st.sampled_from(["jsonl", "gz", "zst"]))
def test_rows_come_back_as_they_were_written(tmp_path_factory, rows, container) -> None:
    path = tmp_path_factory.mktemp("t") / f"t.{container}"
    write(
        path, [dict(zip(("arrival_s", "input_length", "output_length", "hash_ids"), row, strict=True)) for row in rows]
    )
    trace = opened(path, block_tokens=16)
    rows = sorted(rows, key=lambda row: row[0])
    assert trace.arrival_s.tolist() == [row[0] for row in rows]
    assert trace.input_tokens.tolist() == [max(1, row[1]) for row in rows]
    assert trace.output_tokens.tolist() == [max(1, row[2]) for row in rows]
    assert numbered(blocks_of(trace)) == numbered([row[3] for row in rows])


one_kind = st.one_of(
    st.lists(st.lists(st.integers(-3, 5) | st.integers(-(2**63), 2**63 - 1), max_size=6), min_size=1, max_size=6),
    st.lists(st.none() | st.lists(st.text(max_size=20), max_size=6), min_size=1, max_size=6),
)


@given(one_kind)
def test_parquet_columns_come_back_as_they_were_written(tmp_path_factory, lists) -> None:
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    kind = pl.List(pl.Int64 if all(isinstance(x, int) for ids in lists for x in ids or []) else pl.String)
    table = {"arrival_s": range(len(lists)), "input_length": 5, "output_length": 1, "hash_ids": lists}
    pl.DataFrame(table, schema_overrides={"hash_ids": kind}).write_parquet(path)
    assert numbered(blocks_of(opened(path, block_tokens=16))) == numbered([ids or [] for ids in lists])


def test_ids_are_told_apart_by_type_and_every_byte(tmp_path: Path) -> None:
    long = "x" * 40
    ids = [1, "1", "01", "", "a" * 15, "a" * 16, "a" * 17, long, long[:-1] + "y", "y" + long[1:], 10**17, 2**64 - 1, -1]
    rows = [{**ROWS[0], "hash_ids": [x]} for x in ids + ids]
    assert numbered(blocks_of(rows_opened(tmp_path, rows, block_tokens=256))) == [[k] for k in range(len(ids))] * 2


def test_ids_keep_their_numbers_when_larger_ones_come(tmp_path: Path) -> None:
    lists = [[3, 1], [3, 1, 2**20 + 5], [2**40, 3], ["s", 1], [3, 1, 4]]
    rows = [{**ROWS[0], "hash_ids": x, "arrival_s": k, "pad": "x" * 2_000_000} for k, x in enumerate(lists)]
    trace = rows_opened(tmp_path, rows, block_tokens=256)  # longer than a block of lines, so each is a batch
    assert numbered(blocks_of(trace)) == numbered(lists)


def test_stdin_is_read_whatever_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (jsonl(ROWS), gzip.compress(jsonl(ROWS)), write(tmp_path / "t.parquet", ROWS).read_bytes()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        trace = open_trace(TraceSpec(source="-", block_tokens=256), tmp_path, seed=1)
        assert (trace.source, len(trace)) == ("stdin", 4)
        assert list(tmp_path.glob("btbench-*")) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(jsonl(ROWS),))
    writer.start()
    assert len(opened(tmp_path / "pipe", block_tokens=256)) == 4
    writer.join()


def test_shards_of_a_folder_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    write(tmp_path / "shards/part-2.jsonl", ROWS[2:])
    write(tmp_path / "shards/part-1.jsonl.gz", ROWS[:2])
    (tmp_path / "shards/README.md").write_text("not a trace")
    trace = opened(tmp_path / "shards", block_tokens=256)
    assert trace.name == "shards"
    assert numbered(blocks_of(trace)) == [[0, 1, 2], [0, 1], [], [0, 1, 3, 4]]
    assert odd(trace) == [("null or empty hashes", 1, 3)]


def test_several_zstd_frames_and_gzip_members_are_one_file(tmp_path: Path) -> None:
    for pack in (gzip.compress, zstandard.compress):
        (tmp_path / "t").write_bytes(pack(jsonl(ROWS[:1])) + pack(jsonl(ROWS[1:])))
        assert len(opened(tmp_path / "t", block_tokens=256)) == 4


def test_blank_lines_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(b"\xef\xbb\xbf\n" + jsonl(ROWS).replace(b"\n", b"\r\n\r\n").rstrip())
    trace = opened(tmp_path / "t.jsonl", block_tokens=256)
    assert len(trace) == 4
    assert odd(trace) == [("null or empty hashes", 1, 6)]  # its line


def test_the_block_size_is_never_guessed(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"does not tell how many tokens a block has.\n.*fit 256"):
        rows_opened(tmp_path, [row for row in ROWS if row["hash_ids"]])


def test_equal_times_keep_row_order_or_are_dealt_over_the_tick(tmp_path: Path) -> None:
    times = [0, 3, 3, 3, 6, 6, 10]
    rows = [{**ROWS[0], "arrival_s": t, "input_length": 600 + n} for n, t in enumerate(times)]
    kept = rows_opened(tmp_path, rows, block_tokens=256)
    assert (kept.arrival_s.tolist(), kept.notes) == (times, ())
    spread = rows_opened(tmp_path, rows, block_tokens=256, tie="spread")
    assert spread.arrival_s.tolist() == [0, 3, 4, 5, 6, 7.5, 10]
    assert spread.input_tokens.tolist() == kept.input_tokens.tolist()
    assert spread.notes == ("71.4% of the requests share an arrival time; dealt evenly over ticks of about 3 s",)


def test_duplicate_rows_are_kept_and_counted(tmp_path: Path) -> None:
    rows = [ROWS[0], ROWS[1], ROWS[1], {**ROWS[1], "output_length": 8}, ROWS[1]]
    trace = rows_opened(tmp_path, rows, block_tokens=256)
    assert len(trace) == 5
    assert odd(trace) == [("duplicate rows", 2, 3)]


def test_hash_lists_that_do_not_fit_the_input_are_kept_and_counted(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "arrival_s": n, "input_length": tokens} for n, tokens in enumerate([700, 512, 768, 1023, 1024])]
    trace = rows_opened(tmp_path, rows, block_tokens=256)
    assert odd(trace) == [("more blocks than the input holds", 1, 2), ("fewer blocks than the input fills", 1, 5)]
    assert trace.prompt_blocks().tolist() == [3] * 5
    fitting = rows_opened(tmp_path, [rows[0]] * 3, block_tokens=16)
    assert fitting.notes == ("blocks look like 256 tokens (100% of the rows fit), not 16",)
