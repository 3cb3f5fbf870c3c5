"""Windows: the rows' own, or cut from one long trace; the same for the same seed, whatever the file."""

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from trace_files import ROWS, blocks_of, numbered, odd, opened, rows_opened, write

from btbench.errors import ScenarioError, TraceError
from btbench.trace import Trace, Window
from btbench.trace_spec import MOST_WINDOWS, WindowSpec

LONG = [
    {"arrival_s": n * 0.5 + 100, "input_length": 600 + n, "output_length": 1, "hash_ids": ["a", f"b{n % 3}", f"c{n}"]}
    for n in range(40)
]


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def cut(tmp_path: Path, name: str = "t.jsonl", **windows: object) -> Trace:
    return opened(write(tmp_path / name, LONG), windows=windows, block_tokens=256)


def rows_of(trace: Trace) -> list[list[int]]:
    """The rows of each window, told by their input length."""
    return [[int(n) - 600 for n in trace.input_tokens[w.start : w.stop]] for w in trace.windows]


def test_own_windows_come_in_order_of_first_appearance(tmp_path: Path) -> None:
    rows = [
        {**ROWS[0], "trace_id": "w1", "source": "art", "arrival_s": 2.0},
        {**ROWS[1], "trace_id": 7, "source": "synthetic", "arrival_s": 9.0},
        {**ROWS[2], "trace_id": "w1", "source": "art", "arrival_s": 1.0},
    ]
    trace = rows_opened(tmp_path, rows, block_tokens=256)
    assert trace.windows == (Window("w1", "art", 0, 2), Window("7", "synthetic", 2, 3))
    assert trace.arrival_s.tolist() == [1.0, 2.0, 9.0]
    assert trace.input_tokens.tolist() == [10, 700, 512]
    assert ("out-of-order arrivals", 1, 3) in odd(trace)


def test_any_column_can_tell_windows_and_labels(tmp_path: Path) -> None:
    rows = [{**row, "day": day, "team": team} for row, day, team in zip(ROWS, [1, 2, 1, 2], "xyxz", strict=True)]
    trace = rows_opened(tmp_path, rows, block_tokens=256, windows={"by": "day", "label_by": "team"})
    assert trace.windows == (Window("1", "x", 0, 2), Window("2", "y", 2, 4))
    assert ("label differs within a window", 1, 4) in odd(trace)


@pytest.mark.parametrize("container", ["t.jsonl", "t.csv", "t.parquet", "t.json"])
@pytest.mark.parametrize("column", ["trace_id", "input_length", "output_length"])
def test_a_column_read_already_can_tell_windows_and_labels(tmp_path: Path, container: str, column: str) -> None:
    rows = [
        {"arrival_s": n / 2, "input_length": 600, "output_length": 7 + n // 2, "trace_id": "ab"[n % 2]}
        for n in range(4)
    ]
    told = [str(row[column]) for row in rows]
    windows = {"by": column, "label_by": column}
    trace = opened(write(tmp_path / container, rows), block_tokens=256, windows=windows)
    names = list(dict.fromkeys(told))
    assert [(w.name, w.label, w.stop - w.start) for w in trace.windows] == [(n, n, told.count(n)) for n in names]
    assert trace.input_tokens.tolist() == [600] * 4


def test_lists_tell_no_windows(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"column 'hash_ids' holds lists; .* takes a column of text or numbers"):
        rows_opened(tmp_path, ROWS, block_tokens=256, windows={"by": "hash_ids"})


def test_more_windows_than_can_be_held_are_refused(tmp_path: Path) -> None:
    rows = [{"arrival_s": n / 4, "input_length": 5, "output_length": 1} for n in range(MOST_WINDOWS + 2)]
    path = write(tmp_path / "t.jsonl", rows)
    for windows in ({"rows": 1}, {"span_s": 0.25}):
        with pytest.raises(ScenarioError, match=r"more than 10000 windows.\nAllowed: a count of at most 10000"):
            opened(path, windows=windows, block_tokens=256)
    with pytest.raises(ScenarioError, match=r"takes 100010000 requests .*\nAllowed: at most 100000000"):
        opened(path, windows={"rows": 10_001, "count": 10_000, "start": "random"}, block_tokens=256)
    assert len(opened(path, windows={"rows": 1, "count": MOST_WINDOWS}, block_tokens=256).windows) == MOST_WINDOWS
    with pytest.raises(ValidationError, match="less than or equal to 10000"):
        WindowSpec(count=MOST_WINDOWS + 1, rows=1)


def test_a_span_below_the_precision_of_the_times_is_refused(tmp_path: Path) -> None:
    rows = [{"arrival_s": 2.0**31 + n, "input_length": 5, "output_length": 1} for n in range(3)]
    path = write(tmp_path / "t.jsonl", rows)
    with pytest.raises(
        ScenarioError, match=r"span_s = 1e-08 is lost in the precision .*\nAllowed: more than 4.7.*e-07 s"
    ):
        opened(path, windows={"span_s": 1e-8}, block_tokens=256)
    assert len(opened(path, windows={"span_s": 1e-6}, block_tokens=256).windows) == 2


def test_rows_without_a_window_are_one_of_their_own(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "trace_id": w} for w in ("w", None, "w")]
    assert [(w.name, w.stop - w.start) for w in rows_opened(tmp_path, rows, block_tokens=256).windows] == [
        ("w", 2),
        ("none", 1),
    ]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.parquet", "t.json"])
def test_random_windows_are_the_same_whatever_the_file(tmp_path: Path, name: str) -> None:
    trace = cut(tmp_path, name, count=3, rows=5, start="random", seed=7)
    assert rows_of(trace) == [list(range(start, start + 5)) for start in (20, 9, 25)]
    assert [w.name for w in trace.windows] == ["rows 20-24", "rows 9-13", "rows 25-29"]
    assert trace.arrival_s.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0] * 3
    assert numbered(blocks_of(trace)) == numbered([LONG[n]["hash_ids"] for rows in rows_of(trace) for n in rows])


def test_overlapping_windows_hold_the_same_rows_twice(tmp_path: Path) -> None:
    trace = cut(tmp_path, count=30, rows=30, start="random")
    assert len(trace) == 900
    for window in trace.windows:
        assert numbered(blocks_of(trace.window(window))) == numbered(
            [LONG[n]["hash_ids"] for n in rows_of(trace.window(window))[0]]
        )


def test_windows_follow_each_other_from_a_row_on(tmp_path: Path) -> None:
    assert rows_of(cut(tmp_path, count=2, rows=3, start=35 - 1)) == [[34, 35, 36], [37, 38, 39]]
    assert len(cut(tmp_path, rows=15).windows) == 2  # as many as fit


def test_windows_of_time_hold_what_arrives_within_them(tmp_path: Path) -> None:
    trace = cut(tmp_path, count=2, span_s=1.5, start=4)
    assert rows_of(trace) == [[4, 5, 6], [7, 8, 9]]
    assert trace.arrival_s.tolist() == [0.0, 0.5, 1.0] * 2
    for rows in rows_of(cut(tmp_path, count=9, span_s=1.5, start="random")):
        assert len(rows) == 3
    assert len(cut(tmp_path, span_s=2.0).windows) == 9


def test_scale_multiplies_times_within_windows(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", LONG)
    trace = opened(path, windows={"count": 2, "rows": 3}, block_tokens=256, arrival_scale=2.0)
    assert trace.arrival_s.tolist() == [0.0, 1.0, 2.0] * 2
    np.testing.assert_array_equal(opened(path, block_tokens=256, arrival_scale=0.5).arrival_s[:2], [50.0, 50.25])


def test_rows_are_cut_in_order_of_arrival(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", LONG[::-1])
    assert rows_of(opened(path, windows={"count": 1, "rows": 3}, block_tokens=256)) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ({"count": 1, "rows": 41, "start": "random"}, r"rows = 41, but .* has 40 rows"),
        ({"count": 9, "rows": 5}, r"asks for 9 windows of 5 rows from row 0, but .* has 40 rows.\nAllowed: at most 8"),
        ({"count": 1, "rows": 5, "start": 36}, r"asks for 1 windows? of 5 rows from row 36"),
        ({"rows": 50}, r"asks for a window of 50 rows"),
        ({"count": 1, "span_s": 20.0}, r"span_s = 20, but .* spans 19.5 s"),
        ({"count": 9, "span_s": 5.0}, r"asks for 9 windows of 5 s from row 0, but .* holds 3"),
        ({"count": 2}, r"has neither rows nor span_s"),
        ({"rows": 2, "span_s": 1.0}, r"has both rows and span_s"),
        ({"rows": 2, "by": "x"}, r"has both by and count, rows or span_s"),
        ({"rows": 2, "label_by": "x"}, r"label_by beside"),
        ({"rows": 2, "start": "random"}, r"start = .random. without count"),
    ],
)
def test_windows_that_do_not_fit_say_what_would(tmp_path: Path, windows: dict, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        cut(tmp_path, **windows)


def test_a_trace_of_windows_is_not_cut_again(tmp_path: Path) -> None:
    rows = [{**row, "trace_id": str(n % 2)} for n, row in enumerate(LONG)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ScenarioError, match=r"cuts one long trace, but .* has 2 windows"):
        opened(tmp_path / "t.jsonl", windows={"count": 1, "rows": 2}, block_tokens=256)
