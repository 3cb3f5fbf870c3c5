"""Bad input: an error names file, line, what was found and what to do; with skip_bad_rows the row is counted."""

import gzip
import io
import json
import sys
from pathlib import Path

import polars as pl
import pytest
import zstandard
from trace_files import ROWS, jsonl, odd, opened, write

from btbench.errors import TraceError
from btbench.sources import open_trace
from btbench.trace_spec import TraceSpec

GOOD = b'{"arrival_s":0.5,"input_length":600,"output_length":2,"hash_ids":["a","b","c"]}\n'


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def changed(old: bytes, new: bytes) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new)


BAD_LINES = {
    "cut": (GOOD[:30], "not a JSON object (input data was truncated): {\"arrival_s\":0.5", "truncated last line"),
    "no JSON": (b"arrival 5\n", "not a JSON object (JSON is malformed", "not JSON"),
    "no object": (b"[1, 2]\n", "the row is a list; allowed: an object.", "wrong type"),
    "two in one line": (GOOD.strip() + GOOD, "not a JSON object (JSON is malformed: trailing characters", "not JSON"),
    "NaN": (changed(b"0.5", b"NaN"), "not a JSON object (JSON is malformed: invalid character", "not JSON"),
    "infinite": (changed(b"0.5", b"1e999"), "'arrival_s': number out of range", "wrong type"),
    "negative time": (changed(b"0.5", b"-0.5"), "'arrival_s' is -0.5; allowed: a number from 0", "time out of range"),
    "far time": (changed(b"0.5", b"1e300"), "'arrival_s' is 1e+300; allowed: a number from 0", "time out of range"),
    "no time": (changed(b'"arrival_s":0.5,', b""), "no 'arrival_s'", "missing time"),
    "null time": (changed(b"0.5", b"null"), "no 'arrival_s'", "missing time"),
    "no input": (changed(b'"input_length":600,', b""), "no 'input_length'", "missing input length"),
    "negative input": (changed(b"600", b"-600"), "'input_length' is -600; allowed: a whole", "length out of range"),
    "huge input": (changed(b"600", b"9" * 18), "'input_length' is 999999999999999999;", "length out of range"),
    "enormous input": (changed(b"600", b"9" * 400), "'input_length' is inf; allowed", "length out of range"),
    "broken input": (changed(b"600", b"600.5"), "'input_length' is a decimal number; allowed: a whole", "wrong type"),
    "text input": (changed(b"600", b'"600"'), "'input_length' is text; allowed: a whole number.", "wrong type"),
    "bool input": (changed(b"600", b"true"), "'input_length' is true or false; allowed: a whole number.", "wrong type"),
    "no output": (changed(b'"output_length":2,', b""), "no 'output_length'", "missing output length"),
    "negative output": (changed(b":2", b":-2"), "'output_length' is -2; allowed", "length out of range"),
    "null id": (changed(b'"b"', b"null"), "'hash_ids[1]' is null; allowed: a whole number or text.", "wrong type"),
    "broken id": (changed(b'"b"', b"1.5"), "'hash_ids[1]' is a decimal number; allowed: a whole", "wrong type"),
    "list id": (changed(b'"b"', b'["b"]'), "'hash_ids[1]' is a list; allowed: a whole number or text.", "wrong type"),
    "no list": (changed(b'["a","b","c"]', b'"abc"'), "'hash_ids' is text; allowed: a list.", "wrong type"),
    "deep list": (changed(b'"b"', b"[" * 9**5 + b"]" * 9**5), "not a JSON object (nested too deeply): {", "not JSON"),
    "deep other": (changed(b"{", b'{"x":' + b"[" * 9**4 + b"]" * 9**4 + b","), "not a JSON object (nested", "not JSON"),
    "half a pair": (changed(b'"c"', rb'"\ud800"'), r"not a JSON object (half a surrogate pair, \ud800): {", "not JSON"),
    "other half": (changed(b'"c"', rb'"\udc00"'), r"not a JSON object (half a surrogate pair, \udc00): {", "not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_line_that_cannot_be_read_is_named_or_dropped_and_counted(tmp_path: Path, name: str) -> None:
    bad, message, kind = BAD_LINES[name]
    (tmp_path / "t.jsonl").write_bytes(GOOD + b"\n" + bad)
    with pytest.raises(TraceError) as caught:
        opened(tmp_path / "t.jsonl", block_tokens=256)
    assert caught.value.message.startswith(f"{tmp_path}/t.jsonl, line 3: {message}")
    assert caught.value.hint and ("--skip-bad-rows" in caught.value.hint or "--default-output" in caught.value.hint)
    trace = opened(tmp_path / "t.jsonl", block_tokens=256, skip_bad_rows=True)
    assert (len(trace), odd(trace)) == (1, [(kind, 1, 3)])


UNREADABLE = {
    "empty": (b"", "t: the file is empty."),
    "blank": (b" \n\n", "t: nothing but blanks."),
    "empty gzip": (gzip.compress(b""), "t: nothing but blanks."),
    "cut gzip": (gzip.compress(jsonl(ROWS) * 99)[:-20], "t: the compressed file is truncated."),
    "damaged gzip": (gzip.compress(jsonl(ROWS))[:-8] + b"\1\2\3\4\5\6\7\0", "t: the compressed file is damaged"),
    "cut zstd": (zstandard.compress(jsonl(ROWS) * 99)[:-20], "t: the compressed file is truncated."),
    "damaged zstd": (zstandard.compress(jsonl(ROWS))[:9] + b"nonsense nonsense", "t: the compressed file is damaged"),
    "cut Parquet": (b"PAR1" + bytes(50), "t: the Parquet file is damaged or truncated"),
    "a web page": (b"<!DOCTYPE html>\n<html>", "t: a web page, not a trace."),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "t: a Git LFS pointer"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "t: neither text nor Parquet."),
    "binary": (b"{\0\1\2", "t: neither text nor Parquet."),
    "prose": (b"Dear reader\n", "t: neither JSON Lines nor CSV nor Parquet; it begins with 'Dear reader'."),
    "other rows": (b'{"a": 1, "b": 2}\n', "t: no known trace format has just these columns: a, b."),
    "no input": (b'{"arrival_s": 1, "hash_ids": []}\n', "t: no known trace format has just these columns"),
    "other CSV": (b"a,b\n1,2\n", "t: no known trace format has just these columns: a, b."),
    "only a header": (b"Timestamp,Request tokens,Response tokens\n", "t: no row could be read."),
    "one name twice": (b"Timestamp,Timestamp,Request tokens\n1,1,1\n", "t: column 'Timestamp' stands twice"),
    "cut document": (b'[{"arrival_s": 1,', "t: no JSON document (input data was truncated)."),
    "an empty list": (b"[]", "t: no known trace format has just these columns: none."),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data, message = UNREADABLE[name]
    monkeypatch.chdir(tmp_path)
    Path("t").write_bytes(data)
    for skip in (False, True):
        with pytest.raises(TraceError) as caught:
            open_trace(TraceSpec(source="./t", skip_bad_rows=skip), Path(), seed=1)
        assert caught.value.message.removeprefix("./").startswith(message)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    with pytest.raises(TraceError) as caught:
        open_trace(TraceSpec(source="-"), Path(), seed=1)
    assert caught.value.message.startswith(message.replace("t:", "stdin:", 1))


CSV = "Timestamp,Request tokens,Response tokens\n1,5,6\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x,5,6", "'Timestamp' is 'x'; allowed: a number."),
        ("2,5.5,6", "'Request tokens' is '5.5'; allowed: a whole number."),
        ("2,5", "2 fields, where the header has 3."),
        ("2,,6", "no 'Request tokens' (missing, null or not a number)."),
        ("nan,5,6", "no 'Timestamp' (missing, null or not a number)."),
        ("inf,5,6", "'Timestamp' is inf; allowed: a number from 0 to 1e+11."),
        ("-2,5,6", "'Timestamp' is -2.0; allowed: a number from 0 to 1e+11."),
    ],
)
def test_a_csv_row_that_cannot_be_read_is_named_or_dropped(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(f"{CSV}{line}\n")
    with pytest.raises(TraceError) as caught:
        opened(tmp_path / "t.csv")
    assert caught.value.message == f"{tmp_path}/t.csv, line 3: {message}"
    trace = opened(tmp_path / "t.csv", skip_bad_rows=True)
    assert [(count, row) for _, count, row in odd(trace)] == [(1, 3)]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("arrival_s", [0.0, float("nan")], ", row 2: no 'arrival_s' (missing, null or not a number)."),
        ("arrival_s", [0.0, float("inf")], ", row 2: 'arrival_s' is inf; allowed: a number from 0 to 1e+11."),
        ("input_length", [5, None], ", row 2: no 'input_length' (missing, null or not a number)."),
        ("input_length", [5.0, 5.5], ", row 2: 'input_length' is 5.5; allowed: a whole number from 0 to 2^53."),
        ("output_length", ["5", "6"], ": column 'output_length' holds large_string; allowed: numbers."),
        (
            "hash_ids",
            [[1.5], [2.5]],
            ": column 'hash_ids' holds large_list<element: double>; allowed: lists of strings or",
        ),
        ("hash_ids", [["a"], ["b", None]], ", row 2: 'hash_ids' holds a null; allowed: strings or integers."),
    ],
)
def test_a_parquet_file_with_odd_values_is_refused(tmp_path: Path, column: str, values: list, message: str) -> None:
    table = {"arrival_s": [0.0, 1.0], "input_length": [5, 6], "output_length": [1, 1], "hash_ids": [["a"], ["b"]]}
    pl.DataFrame({**table, column: values}, strict=False).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(TraceError) as caught:
        opened(tmp_path / "t.parquet", block_tokens=16)
    assert caught.value.message.startswith(f"{tmp_path}/t.parquet{message}")
    if ", row 2" in message:
        trace = opened(tmp_path / "t.parquet", block_tokens=16, skip_bad_rows=True)
        assert (len(trace), [(count, row) for _, count, row in odd(trace)]) == (1, [(1, 2)])


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    write(tmp_path / "conversation.jsonl", ROWS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling.jsonl").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for source, message in (
        ("convesation.jsonl", "convesation.jsonl: there is no such file.\nDid you mean 'conversation.jsonl'?"),
        ("no/where.jsonl", "no/where.jsonl: there is no such file.\nThere is no folder"),
        ("x" * 300 + ".jsonl", "there is no such file"),
        ("dangling.jsonl", "dangling.jsonl: a symbolic link that leads to no file.\nIt points to 'nowhere'."),
        ("loop", "loop: a symbolic link that leads to no file.\nIt points to 'loop'."),
        ("/dev/zero", "/dev/zero: a device, not a file.\nAllowed: a file, a folder, a pipe"),
        ("empty", "empty: the folder holds no trace files."),
        (
            "mooncake-conversatoin",
            "There is no trace called 'mooncake-conversatoin', nor a file of that name.\nDid you mean",
        ),
    ):
        with pytest.raises(TraceError) as caught:
            open_trace(TraceSpec(source=source), tmp_path, seed=1)
        assert message in str(caught.value)


def test_a_file_without_permission_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.jsonl", ROWS)

    def denied(self: Path, *args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)  # a superuser may read everything
    with pytest.raises(TraceError, match=r"t.jsonl: cannot be read: Permission denied."):
        opened(path)


def test_a_line_without_end_is_not_held_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("btbench.sources.containers.LONGEST_LINE_BYTES", 1 << 20)
    (tmp_path / "t.jsonl").write_bytes(GOOD + b'{"arrival_s": "' + b"x" * (3 << 20))
    with pytest.raises(TraceError, match="a line is longer than 1 MiB"):
        opened(tmp_path / "t.jsonl", block_tokens=256)


def test_bad_rows_are_numbered_over_all_shards(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD * 3)
    (tmp_path / "b.jsonl").write_bytes(GOOD + b"{\n" + GOOD)
    with pytest.raises(TraceError, match=r"b.jsonl, line 2: not a JSON object"):
        opened(tmp_path, block_tokens=256)
    assert odd(opened(tmp_path, block_tokens=256, skip_bad_rows=True))[0] == ("not JSON", 1, 5)


def test_columns_of_windows_must_exist(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", ROWS)
    with pytest.raises(TraceError, match=r"missing column 'job', which \[trace.windows\] names.\nFound: arrival_s"):
        opened(path, windows={"by": "job"}, block_tokens=256)
    (tmp_path / "w.json").write_text(json.dumps({"block_size": 64, "requests": []}))
    with pytest.raises(TraceError, match="weka traces have no rows with columns"):
        opened(tmp_path / "w.json", windows={"by": "job"})
