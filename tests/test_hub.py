"""Fetching from a Hub on loopback: whole files, parts of files, and everything that goes wrong on the way."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hub_samples import art_parquet, mooncake_lines
from hub_server import Fault, HubServer, Repo

from btbench.errors import BtbenchError, NetworkError, OutputError, TraceError
from btbench.progress import silent
from btbench.sources import catalogue, open_trace
from btbench.sources.hub import Address, parse_address
from btbench.sources.store import receipt_of
from btbench.trace_spec import TraceSpec, WindowSpec

ART = "alessiotoniolo/ART-Chat-2.5M"
LINES = mooncake_lines(3_000)
AT_ONCE = {"Retry-After": "0"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("BTBENCH_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("BTBENCH_TRACES_TOML", str(tmp_path / "traces.toml"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        (tmp_path / "traces.toml").write_text("")
        server.repos["me/lines"] = Repo({"trace.jsonl": LINES, "README.md": b"# lines\n"})
        server.repos[ART] = Repo(
            {"data/train-0.parquet": art_parquet(0, 1_000), "data/train-1.parquet": art_parquet(1_000, 500)}
        )
        yield server


def fetch(source: str, **options: object) -> Path:
    """The only file of a trace."""
    return catalogue.locate(source, silent, **options).files[0]  # type: ignore[arg-type]


def failure(source: str, **options: object) -> BtbenchError:
    with pytest.raises(BtbenchError) as caught:
        fetch(source, **options)
    assert caught.value.hint
    return caught.value


def ranges(hub: HubServer, match: str = "/cdn/") -> list[str]:
    return [entry.range for entry in hub.log if match in entry.path]


@pytest.mark.parametrize("large", [True, False])
def test_a_file_arrives_whole_and_is_not_asked_for_again(hub, large):
    hub.repos["me/lines"].large = large
    located = catalogue.locate("hf:me/lines", silent)
    assert located.files[0].read_bytes() == LINES
    assert located.revision == hub.repos["me/lines"].commit
    asked = len(hub.log)
    assert located.notes == ("fetched from hf:me/lines at commit c0ffeec0ffee",)
    assert catalogue.locate("hf:me/lines", silent) == located._replace(notes=())
    assert len(hub.log) == asked
    trace = open_trace(TraceSpec(source="hf:me/lines"), Path("."), seed=1)
    assert (len(trace), trace.format, trace.revision) == (3_000, "mooncake", located.revision)


def test_progress_counts_bytes(hub):
    told = []
    catalogue.locate("hf:me/lines", lambda stage, done, total: told.append((stage, done, total)))
    assert told[-1] == ("fetching me/lines/trace.jsonl", len(LINES), len(LINES))


def test_a_new_commit_is_noticed_when_asked_for_and_an_old_one_can_be_pinned(hub):
    old = hub.repos["me/lines"].commit
    fetch("hf:me/lines")
    hub.repos["me/lines"].commit = "d" * 40
    hub.repos["me/lines"].files["trace.jsonl"] = LINES[:-1] + b" "
    assert catalogue.locate("hf:me/lines", silent).revision == old
    assert catalogue.locate("hf:me/lines", silent, refresh=True).revision == "d" * 40
    assert fetch("hf:me/lines").read_bytes() == LINES[:-1] + b" "
    assert fetch(f"hf:me/lines@{old}").read_bytes() == LINES
    assert fetch("hf:me/lines", revision=old).read_bytes() == LINES


def test_a_cut_connection_goes_on_where_it_stopped(hub):
    hub.faults = [Fault("/cdn/", cut_after=100_000), Fault("/cdn/", cut_after=50_000)]
    assert fetch("hf:me/lines").read_bytes() == LINES
    assert ranges(hub) == ["", "bytes=100000-", "bytes=150000-"]
    assert hub.sent_bytes("/cdn/") == len(LINES)


def test_a_fetch_that_gave_up_goes_on_next_time(hub):
    hub.faults = [Fault("/cdn/", cut_after=100_000), Fault("/cdn/", status=503, headers=AT_ONCE, times=9)]
    assert "answers 503" in failure("hf:me/lines").message
    assert not list(Path(os.environ["BTBENCH_CACHE"]).rglob("trace.jsonl"))
    hub.faults.clear()
    assert fetch("hf:me/lines").read_bytes() == LINES
    assert hub.sent_bytes("/cdn/") == len(LINES)


def test_a_server_without_ranges_is_read_from_the_start(hub):
    hub.ranges = False
    hub.faults = [Fault("/cdn/", cut_after=100_000)]
    assert fetch("hf:me/lines").read_bytes() == LINES


def test_rate_limits_are_waited_for_and_then_told(hub):
    hub.faults = [Fault("/revision/", 429, AT_ONCE, times=2), Fault("/cdn/", 429, AT_ONCE, times=2)]
    assert fetch("hf:me/lines").read_bytes() == LINES
    hub.faults = [Fault("/revision/", 429, AT_ONCE, times=9)]
    assert "rate-limited (429)" in failure("hf:me/lines", refresh=True).message
    hub.faults = [Fault("/revision/", 429, {"Retry-After": "3600"})]
    assert "rate-limited (429)" in failure("hf:me/lines", refresh=True).message


def test_who_may_not_read_is_told_what_to_do(hub, monkeypatch):
    repo = hub.repos["me/lines"]
    repo.gated = True
    error = failure("hf:me/lines")
    assert "is gated" in error.message
    assert "hf auth login" in str(error.hint)
    monkeypatch.setenv("HF_TOKEN", "accepted")
    assert fetch("hf:me/lines").read_bytes() == LINES
    assert [entry.token for entry in hub.log if "/resolve/" in entry.path][-1] == "Bearer accepted"
    repo.gated, repo.private = False, True
    assert fetch("hf:me/lines", refresh=True)
    monkeypatch.setenv("HF_TOKEN", "bad")
    assert "access token is refused" in failure("hf:me/lines", refresh=True).message
    monkeypatch.delenv("HF_TOKEN")
    assert "is private" in failure("hf:me/lines", refresh=True).message


def test_what_is_not_there(hub):
    assert "is not on the Hub" in failure("hf:me/nothing").message
    assert "no such revision" in failure("hf:me/lines@v9").message
    error = failure("hf:me/lines/tracce.jsonl")
    assert "tracce.jsonl" in error.message
    assert "trace.jsonl" in str(error.hint)
    assert "names no data set" in failure("hf:me").message
    error = failure("mooncake-convesation")
    assert "mooncake-conversation" in str(error.hint)
    assert "bursted-art:test" in str(failure("bursted-art:tset").hint)


def test_no_network_is_said_soon(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "no connection" in failure("hf:me/lines").message


def test_offline_uses_what_is_here(hub, monkeypatch):
    here = fetch("hf:me/lines")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = len(hub.log)
    assert fetch("hf:me/lines") == here
    assert fetch("hf:me/lines", refresh=True) == here
    assert "HF_HUB_OFFLINE" in failure("art-chat").message
    assert len(hub.log) == asked


def test_a_damaged_file_is_never_taken(hub):
    hub.faults = [Fault("/cdn/", damage=True)]
    error = failure("hf:me/lines")
    assert isinstance(error, NetworkError)
    assert "is not what its source lists" in error.message
    assert not [
        p for p in Path(os.environ["BTBENCH_CACHE"]).rglob("*") if p.name in ("trace.jsonl", "trace.jsonl.part")
    ]
    assert fetch("hf:me/lines").read_bytes() == LINES


def test_a_file_changed_on_disk_is_fetched_again(hub):
    path = fetch("hf:me/lines")
    path.write_bytes(LINES[:100])
    assert receipt_of(path) is None
    assert fetch("hf:me/lines").read_bytes() == LINES


def test_a_full_disk_is_said_before_the_fetch(hub):
    hub.repos["me/lines"].claimed_bytes = 10**16
    error = failure("hf:me/lines")
    assert isinstance(error, OutputError)
    assert "are free" in error.message
    assert not ranges(hub)


WINDOWS = WindowSpec(count=3, rows=50, start="random", seed=4)


def test_windows_of_parquet_bring_only_their_row_groups_and_columns(hub):
    whole_bytes = sum(map(len, hub.repos[ART].files.values()))
    located = catalogue.locate("art-chat", silent, WINDOWS)
    assert len(located.files) == 3
    assert "messages" not in pq.read_schema(located.files[0]).names
    # 64 KiB at the end of each file holds its footer; read once for the layout, once for the rows
    assert hub.sent_bytes("/cdn/") < 4 * 65_536 + whole_bytes / 20
    asked = len(hub.log)
    few = open_trace(TraceSpec(source="art-chat", windows=WINDOWS), Path("."), seed=1)
    assert len(hub.log) == asked
    assert few.revision == hub.repos[ART].commit

    folder = Path(os.environ["BTBENCH_CACHE"]) / "copy"
    folder.mkdir()
    for path, content in hub.repos[ART].files.items():
        (folder / path.rpartition("/")[2]).write_bytes(content)
    whole = open_trace(TraceSpec(source=str(folder), windows=WINDOWS), Path("."), seed=1)
    for field in ("arrival_s", "input_tokens", "output_tokens", "run_offsets", "runs", "run_blocks", "tail_blocks"):
        assert np.array_equal(getattr(few, field), getattr(whole, field)), field
    assert few.windows == whole.windows


def test_a_window_may_cross_files(hub):
    crossing = WindowSpec(count=1, rows=60, start=970)
    table = pq.read_table(catalogue.locate("art-chat", silent, crossing).files[0])
    assert table["timestamp_ms"].to_pylist() == [i * 297 for i in range(970, 1030)]


def test_the_whole_trace_leaves_out_the_text(hub):
    whole_bytes = sum(map(len, hub.repos[ART].files.values()))
    files = catalogue.locate("art-chat", silent).files
    assert sum(pq.read_metadata(f).num_rows for f in files) == 1_500
    assert hub.sent_bytes("/cdn/") < whole_bytes / 4
    asked = len(hub.log)
    trace = open_trace(TraceSpec(source="art-chat", windows=WINDOWS), Path("."), seed=1)
    assert len(trace) == 150
    assert len(hub.log) == asked


def test_rows_that_break_off_go_on(hub):
    hub.faults = [Fault("/cdn/", cut_after=10_000, times=3), Fault("/cdn/", 503, AT_ONCE, times=2)]
    located = catalogue.locate("art-chat", silent, WINDOWS)
    assert sum(pq.read_metadata(f).num_rows for f in located.files) == 150


def test_the_first_rows_alone(hub):
    located = catalogue.locate("art-chat", silent, rows=120)
    assert pq.read_metadata(located.files[0]).num_rows == 120
    assert fetch("hf:me/lines", rows=7).read_bytes() == b"".join(LINES.splitlines(keepends=True)[:7])
    assert fetch("hf:me/lines").read_bytes() == LINES


def test_a_changed_schema_is_told_before_rows_are_fetched(hub):
    table = pq.read_table(io.BytesIO(hub.repos[ART].files["data/train-1.parquet"]))
    changed = io.BytesIO()
    pq.write_table(table.rename_columns([n.replace("timestamp_ms", "when") for n in table.column_names]), changed)
    hub.repos[ART].files["data/train-1.parquet"] = changed.getvalue()
    error = failure("art-chat")
    assert isinstance(error, TraceError)
    assert "train-1.parquet" in error.message
    assert "timestamp_ms" in error.message


def test_configurations_of_a_card(hub):
    card = {
        "configs": [
            {"config_name": "conversation", "data_files": [{"split": "train", "path": "conversation/*.jsonl"}]},
            {"config_name": "toolagent", "data_files": "toolagent/a.jsonl"},
        ]
    }
    files = {"conversation/a.jsonl": LINES, "toolagent/a.jsonl": mooncake_lines(10)}
    hub.repos["valeriol29/mooncake-traces"] = Repo(files, card=card)
    assert fetch("mooncake-conversation").read_bytes() == LINES
    assert fetch("mooncake-toolagent").read_bytes() == mooncake_lines(10)
    assert "no configuration 'synthetic'" in failure("mooncake-synthetic").message
    error = failure("hf:valeriol29/mooncake-traces")
    assert "2 configurations" in error.message
    assert fetch("hf:valeriol29/mooncake-traces/toolagent").read_bytes() == mooncake_lines(10)


def test_splits_are_files(hub):
    hub.repos["shreybirmiwal/Bursted-ART"] = Repo({"train.jsonl": mooncake_lines(3), "test.jsonl": mooncake_lines(4)})
    assert fetch("bursted-art:test").read_bytes() == mooncake_lines(4)
    assert [f.name for f in catalogue.locate("bursted-art", silent).files] == ["train.jsonl", "test.jsonl"]


def test_a_public_address(hub, tmp_path):
    hub.files["lengths.csv"] = b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:01:51.0,10,5\r\n" * 4_000
    (tmp_path / "traces.toml").write_text(f'[azure-2023-code]\nurls = ["{hub.url}/files/lengths.csv"]\n')
    hub.faults = [Fault("/files/", cut_after=100_000), Fault("/files/", 503, AT_ONCE, times=9)]
    failure("azure-2023-code")
    hub.faults.clear()
    assert fetch("azure-2023-code").read_bytes() == hub.files["lengths.csv"]
    assert hub.sent_bytes("/files/") == len(hub.files["lengths.csv"])


def test_a_public_file_that_changed_meanwhile_is_read_from_the_start(hub, tmp_path):
    hub.files["lengths.csv"] = b"a" * 200_000
    (tmp_path / "traces.toml").write_text(f'[mine]\nurls = ["{hub.url}/files/lengths.csv"]\n')
    hub.faults = [Fault("/files/", cut_after=100_000), Fault("/files/", 503, AT_ONCE, times=9)]
    failure("mine")
    hub.faults.clear()
    hub.files["lengths.csv"] = b"b" * 200_000
    assert fetch("mine").read_bytes() == b"b" * 200_000


def test_two_processes_bring_one_copy(hub):
    hub.before = lambda entry: None
    code = (
        "from btbench.sources import catalogue\n"
        "from btbench.progress import silent\n"
        "print(catalogue.locate('hf:me/lines', silent).files[0])"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate(timeout=60)[0].strip() for process in both}
    assert len(paths) == 1
    assert Path(paths.pop()).read_bytes() == LINES
    assert hub.sent_bytes("/cdn/") == len(LINES)


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("hf:a/b", Address("a/b")),
        ("hf:a/b@v1", Address("a/b", "v1")),
        ("hf:a/b/data/x.parquet", Address("a/b", "main", "data/x.parquet")),
        ("hf:a/b@v1/data", Address("a/b", "v1", "data")),
        ("hf:a/b@refs/convert/parquet/default/train", Address("a/b", "refs/convert/parquet", "default/train")),
        ("hf:a/b@feature%2Fx/y.jsonl", Address("a/b", "feature/x", "y.jsonl")),
        ("hf://datasets/a/b/y.jsonl", Address("a/b", "main", "y.jsonl")),
    ],
)
def test_addresses(source, address):
    assert parse_address(source) == address
