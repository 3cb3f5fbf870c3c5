"""Packed traces on disk: found again, never trusted when damaged, never half-written, whoever writes at once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from trace_files import ROWS, opened, write

from btbench.sources.cache import cache_path, load, store
from btbench.sources.packing import Whole
from btbench.trace import Trace


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BTBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/traces"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [{**row, "trace_id": f"w{k % 2}", "source": "art"} for k, row in enumerate(ROWS)]
    return write(tmp_path / "t.jsonl", rows)


def same(first: Trace, second: Trace) -> None:
    for name, value in vars(first).items():
        other = getattr(second, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, other)
            assert (value.dtype, value.flags.writeable) == (other.dtype, other.flags.writeable)
        else:
            assert value == other


def no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("btbench.sources.reader._pack", lambda *a: pytest.fail("read again"))


def test_a_trace_packed_before_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(path, block_tokens=256)
    no_reading(monkeypatch)
    same(first, opened(path, block_tokens=256))
    other = path.with_name("other-name.jsonl")
    shutil.copy(path, other)
    assert opened(other, block_tokens=128).digest == first.digest  # neither name nor block size shape the packing
    opened(path, block_tokens=256, tie="spread", arrival_scale=2.0)


@pytest.mark.parametrize("change", [{"skip_bad_rows": True}, {"time_unit": "ms"}, {"windows": {"by": "source"}}])
def test_options_that_shape_the_rows_pack_anew(path: Path, monkeypatch: pytest.MonkeyPatch, change: dict) -> None:
    opened(path, block_tokens=256)
    no_reading(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="read again"):
        opened(path, block_tokens=256, **change)


def test_a_changed_file_is_another_trace(path: Path) -> None:
    first = opened(path, block_tokens=256)
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"2.25", b"2.75"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # same size, same time
    second = opened(path, block_tokens=256)
    assert first.arrival_s.max() == 2.25 and second.arrival_s.max() == 2.75


def test_a_damaged_entry_is_noticed_and_made_again(path: Path, cache: Path) -> None:
    first = opened(path, block_tokens=256)
    (entry,) = cache.iterdir()
    whole = entry.read_bytes()
    for at in range(0, len(whole), 7):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        same(first, opened(path, block_tokens=256))
    for length in (0, 1, 20, 100, len(whole) - 1):
        entry.write_bytes(whole[:length])
        same(first, opened(path, block_tokens=256))
        assert load(entry) is not None  # mended


def test_a_cache_that_cannot_be_written_is_no_error(path: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    assert len(opened(path, block_tokens=256)) == len(ROWS)


def test_nothing_is_left_of_an_entry_that_could_not_be_written(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert len(opened(path, block_tokens=256)) == len(ROWS)
    assert list(cache.iterdir()) == []


def test_several_processes_may_write_the_same_trace_at_once(path: Path, cache: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom btbench.sources import open_trace\n"
        "from btbench.trace_spec import TraceSpec\n"
        "print(open_trace(TraceSpec(source=sys.argv[1], block_tokens=256), Path(), seed=1).runs.tolist())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    command = [sys.executable, "-c", code, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    printed = {process.communicate()[0] for process in running}
    assert len(printed) == 1 and printed != {""}
    assert [p.suffix for p in cache.iterdir()] == [".trace"]


def test_entries_of_other_code_or_options_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {cache_path("xxh3_128:0", {"format": None}), cache_path("xxh3_128:0", {"format": "art"})}
    monkeypatch.setattr("btbench.sources.cache.code_digest", lambda: "other")
    paths.add(cache_path("xxh3_128:0", {"format": None}))
    assert len(paths) == 3


def test_an_empty_array_comes_back(path: Path, tmp_path: Path) -> None:
    trace = opened(write(tmp_path / "e.jsonl", [{**ROWS[0], "hash_ids": []}]))
    store(tmp_path / "x.trace", Whole(trace, np.array([1])))
    found = load(tmp_path / "x.trace")
    assert found is not None
    same(trace, found.trace)
