"""`btbench generate`: what it writes, that it reads back as what was generated, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import typer
from hub_samples import art_parquet
from hub_server import HubServer, Repo
from typer.testing import CliRunner

from btbench.cli.app import app
from btbench.paths import cache_root
from btbench.sources import open_trace
from btbench.sources.generator import generate_trace
from btbench.trace import Trace
from btbench.trace_spec import GeneratorSpec, TraceSpec

SMALL: dict[str, Any] = {"windows": 4, "bursts": 2, "burst_size": 5, "decoys": 3, "prefix_tokens": 600, "background": 2}
FORMATS = ("jsonl", "jsonl.gz", "jsonl.zst", "parquet")
KEYS = (
    *("dataset_version", "source", "trace_id", "source_window_index", "row_in_window", "request_id", "timestamp"),
    *("arrival_s", "input_length", "output_length", "hash_ids", "session_id", "group_id", "system_prompt_hash"),
    *("messages", "metadata", "split"),
)
KERNELS = str(cache_root())  # as it is before a test moves it
MAIN = "from btbench.cli.app import main; main()"


def options(keys: dict[str, Any]) -> list[str]:
    return [word for key, value in keys.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def generate(*words: str, status: int = 0, **keys: Any) -> str:
    """Run the command; its output."""
    result = CliRunner().invoke(app, ["generate", *words, *options(keys)])
    assert result.exit_code == status, result.output
    return result.output


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return pl.read_ndjson(path).to_dicts()


def assert_same(one: Trace, other: Trace) -> None:
    for field in ("arrival_s", "input_tokens", "output_tokens", "run_offsets", "runs", "run_blocks", "tail_blocks"):
        assert np.array_equal(getattr(one, field), getattr(other, field)), field
    assert one.windows == other.windows
    assert one.block_tokens == other.block_tokens


def assert_same_files(one: Path, other: Path) -> list[str]:
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in other.iterdir())
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    return names


@pytest.mark.parametrize("file_format", FORMATS)
def test_it_reads_back_as_it_was_generated(tmp_path, file_format):
    generate("--out", str(tmp_path / "set"), "--file-format", file_format, **SMALL)
    for split in ("train", "test"):
        read = open_trace(TraceSpec(source=str(tmp_path / "set" / f"{split}.{file_format}")), tmp_path, seed=1)
        assert read.format == "bursted-art"
        assert_same(read, generate_trace(GeneratorSpec(**SMALL, split=split)))


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_same_options_write_the_same_bytes(tmp_path, file_format):
    for folder in ("one", "two"):
        generate("--out", str(tmp_path / folder), "--file-format", file_format, **SMALL)
    names = assert_same_files(tmp_path / "one", tmp_path / "two")
    assert names == sorted(["README.md", "dataset_info.json", f"test.{file_format}", f"train.{file_format}"])


def test_another_process_writes_the_same_bytes(tmp_path):
    keys = SMALL | {"base": "art-like", "base_windows": 2, "base_rows": 30}
    generate("--out", str(tmp_path / "one"), **keys)
    subprocess.run(
        [sys.executable, "-c", MAIN, "generate", "-o", str(tmp_path / "two"), *options(keys)],
        env={"PYTHONHASHSEED": "7", "BTBENCH_CACHE": KERNELS, "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    assert_same_files(tmp_path / "one", tmp_path / "two")


def test_rows_have_the_published_keys(tmp_path):
    generate("--out", str(tmp_path / "set"), **SMALL, base="art-like", base_windows=4, base_rows=20)
    rows = rows_of(tmp_path / "set" / "train.jsonl") + rows_of(tmp_path / "set" / "test.jsonl")
    assert all(tuple(row) == KEYS for row in rows)
    assert {row["source"] for row in rows} == {"synthetic", "art-like"}
    synthetic = next(row for row in rows if row["source"] == "synthetic" and row["metadata"]["job_kind"] == "burst")
    window, kind, job, member = synthetic["request_id"].split(":")
    assert synthetic["trace_id"] == window
    assert (kind, int(job)) == (synthetic["metadata"]["job_kind"], synthetic["metadata"]["job_index"])
    assert member == f"r{synthetic['metadata']['member']}"
    prefix = [f"{window}:burst:{job}:b{k}" for k in range(3)]
    assert synthetic["hash_ids"] == [*prefix, f"{synthetic['request_id']}:s0"]
    assert synthetic["messages"] == ""
    for row in rows:
        assert row["arrival_s"] == row["timestamp"]
        assert len(row["hash_ids"]) == -(-row["input_length"] // 256)
    first = {}
    for row in rows:
        first.setdefault(row["trace_id"], row)
        assert row["row_in_window"] == 0 or row is not first[row["trace_id"]]
    assert all(row["arrival_s"] == 0.0 for row in first.values() if row["source"] == "art-like")


def test_the_published_split(tmp_path):
    generate("--out", str(tmp_path / "set"), skip_outputs=280, burst_size=1, prefix_tokens=1, suffix_tokens=0)
    info = json.loads((tmp_path / "set" / "dataset_info.json").read_text())
    train = [window["trace_id"] for window in info["splits"]["train"]["windows"]]
    assert train == [f"synthetic_{i:05d}" for i in (1, 2, 5, 6, 15)]
    assert len(info["splits"]["test"]["windows"]) == 15
    assert info["generator"]["skip_outputs"] == 280


BASE = [
    {
        "timestamp": 1_000 + 250 * i,
        "input_length": 700,
        "output_length": 3,
        "hash_ids": [f"{i % 2:024x}", f"{i + 5:024x}", f"{i + 99:024x}"],
        "unique_input_tokens": 1,
        "system_prompt_hash": f"{i:016x}",
    }
    for i in range(30)
]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_base_rows_keep_their_hashes(tmp_path):
    base = write_lines(tmp_path / "art.jsonl", BASE)
    generate("--out", str(tmp_path / "set"), **SMALL, base=base, base_windows=4, base_rows=10)
    rows = [row for row in rows_of(tmp_path / "set" / "test.jsonl") if row["source"] == "art"]
    assert len(rows) == 30
    for row in rows:
        source = BASE[row["metadata"]["base_row"] - 1]
        assert row["hash_ids"] == source["hash_ids"]
        assert row["system_prompt_hash"] == source["system_prompt_hash"]
        assert row["session_id"] == source["hash_ids"][-1]
    starts = {row["trace_id"]: row["metadata"]["base_row"] for row in reversed(rows)}
    for row in rows:
        at = row["metadata"]["base_row"] - starts[row["trace_id"]]
        assert (row["row_in_window"], row["arrival_s"]) == (at, at / 4)
    read = open_trace(TraceSpec(source=str(tmp_path / "set" / "test.jsonl")), tmp_path, seed=1)
    spec = GeneratorSpec(**SMALL, split="test", base=str(base), base_windows=4, base_rows=10)
    generated = generate_trace(spec)
    assert np.array_equal(read.arrival_s, generated.arrival_s)
    assert [w.name for w in read.windows] == [w.name for w in generated.windows]
    assert "are kept" not in (tmp_path / "set" / "README.md").read_text()
    assert "block ids are as they are" in (tmp_path / "set" / "README.md").read_text()


def test_bases_of_other_kinds(tmp_path):
    mooncake = [{k: v for k, v in row.items() if k in ("timestamp", "input_length", "output_length")} for row in BASE]
    document = tmp_path / "mooncake.json"
    document.write_text(json.dumps([row | {"hash_ids": [0, i + 7]} for i, row in enumerate(mooncake)]))
    keys = {"base_windows": 1, "base_rows": 30, "block_tokens": 512}
    generate("--out", str(tmp_path / "a"), **SMALL, base=document, **keys)
    rows = [row for row in rows_of(tmp_path / "a" / "test.jsonl") if row["source"] == "mooncake"]
    assert [row["hash_ids"] for row in rows] == [["0", str(i + 7)] for i in range(30)]
    csv = tmp_path / "lengths.csv"
    csv.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "2023-11-16 18:15:46.6805900,10,4\n" * 30)
    generate("--out", str(tmp_path / "b"), **SMALL, base=csv, **keys)
    rows = [row for row in rows_of(tmp_path / "b" / "test.jsonl") if row["source"] == "lengths"]
    assert [(row["input_length"], row["hash_ids"], row["session_id"]) for row in rows] == [(10, [], None)] * 30


def test_ids_of_single_blocks_become_ids_of_prefixes(tmp_path):
    rows = [
        {
            "chat_id": i,
            "parent_chat_id": -1,
            "timestamp": i / 2,
            "input_length": 40,
            "output_length": 2,
            "hash_ids": ids,
        }
        for i, ids in enumerate([[1, 2, 3], [1, 2, 4], [9, 2, 3], [1, 1, 1]])
    ]
    base = write_lines(tmp_path / "bailian.jsonl", rows)
    generate("--out", str(tmp_path / "set"), **SMALL, base=base, base_windows=1, base_rows=4, block_tokens=16)
    written = [row for row in rows_of(tmp_path / "set" / "test.jsonl") if row["source"] == "bailian"]
    a, b, c, d = (row["hash_ids"] for row in written)
    assert a[:2] == b[:2]
    assert a[2] != b[2]
    assert not set(a) & set(c)
    assert d[0] == a[0]
    assert len(set(d)) == 3


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("BTBENCH_CACHE", str(tmp_path / "cache"))
        yield server


def test_base_windows_from_the_hub_bring_few_rows(hub, tmp_path):
    content = art_parquet(0, 2_000)
    hub.repos["alessiotoniolo/ART-Chat-2.5M"] = repo = Repo({"data/train.parquet": content})
    generate("--out", str(tmp_path / "set"), **SMALL, base="art-chat", base_windows=4, base_rows=40)
    assert hub.sent_bytes("/cdn/") < len(content) / 5
    table = pq.read_table(next(Path(tmp_path, "cache").rglob("*.parquet")))
    assert "messages" not in table.column_names
    info = json.loads((tmp_path / "set" / "dataset_info.json").read_text())
    assert info["base"]["revision"] == repo.commit
    whole = tmp_path / "whole.parquet"
    whole.write_bytes(content)
    generate("--out", str(tmp_path / "local"), **SMALL, base=whole, base_windows=4, base_rows=40)
    for split in ("train", "test"):
        fetched, local = (rows_of(tmp_path / folder / f"{split}.jsonl") for folder in ("set", "local"))
        assert fetched == local


def test_pushed_rows_can_be_replayed_from_the_hub(hub, tmp_path):
    environment = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "mine", "HF_HUB_DISABLE_XET": "1", "HOME": str(tmp_path)}
    words = ["--out", str(tmp_path / "set"), "--push-to-hub", "me/bursts", *options(SMALL)]
    result = subprocess.run(
        [sys.executable, "-c", MAIN, "generate", *words],
        env=environment | {"BTBENCH_CACHE": KERNELS},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "uploaded to hf:me/bursts" in result.stderr
    pushed = hub.repos["me/bursts"]
    assert {entry.token for entry in hub.log if entry.method in ("POST", "PUT") and "/put/" not in entry.path} == {
        "Bearer mine"
    }
    card = pushed.files["README.md"].decode()
    assert "art-like" not in card
    pushed.card = {"configs": [{"config_name": "default", "data_files": [{"split": "test", "path": "data/test-*"}]}]}
    read = open_trace(TraceSpec(source="hf:me/bursts"), tmp_path, seed=1)
    assert_same(read, generate_trace(GeneratorSpec(**SMALL, split="test")))


@pytest.mark.parametrize(
    "keys",
    [SMALL | {"windows": 1}, SMALL | {"windows": 2, "base": "art-like", "base_rows": 9}, SMALL | {"split": "train"}],
)
def test_the_command_on_the_card_writes_the_same_bytes(tmp_path, keys):
    generate("--out", str(tmp_path / "one"), **keys)
    card = (tmp_path / "one" / "README.md").read_text()
    (command,) = [line for line in card.splitlines() if line.startswith("btbench generate")]
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--out", str(tmp_path / "two")])
    assert result.exit_code == 0, result.output
    assert_same_files(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize("keys", [SMALL, SMALL | {"base": "art-like", "base_windows": 4, "base_rows": 200}])
def test_the_size_is_told_before_it_is_written(tmp_path, monkeypatch, keys):
    monkeypatch.setattr("btbench.cli.generate.WORTH_A_WORD_BYTES", 0)
    told = re.search(r"Note: writing about ([\d.]+) (kB|MB) to", generate("--out", str(tmp_path / "set"), **keys))
    written = sum(path.stat().st_size for path in (tmp_path / "set").glob("*.jsonl"))
    assert told and float(told.group(1)) * {"kB": 1e3, "MB": 1e6}[told.group(2)] == pytest.approx(written, rel=0.2)
    assert "writing" not in generate("--out", str(tmp_path / "quiet"), "--quiet", **keys)


def test_what_is_there_is_kept(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    assert "--force" in generate("--out", str(folder), status=2, **SMALL)
    assert [p.name for p in folder.iterdir()] == ["mine.txt"]
    assert "is a file" in generate("--out", str(folder / "mine.txt"), status=2, **SMALL)
    generate("--out", str(folder), "--force", **SMALL)
    assert not (folder / "mine.txt").exists()


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = write_lines(tmp_path / "art.jsonl", BASE)
    assert "nothing.jsonl" in generate(status=2, **SMALL, base="nothing.jsonl")
    assert "has 30" in generate(status=2, **SMALL, base=base, base_rows=31)
    assert "--decoy-size 0" in generate(status=2, decoy_size=0)
    assert "without base" in generate(status=2, base_windows=3)
    refused = generate(status=2, windows=1, split="train")
    assert "split 'train'" in refused and "--split all" in refused and "--windows 4" in refused
    assert [p.name for p in tmp_path.iterdir()] == ["art.jsonl"]


def test_every_key_of_the_generator_is_an_option_with_its_default():
    command = typer.main.get_command(app).commands["generate"]  # type: ignore[attr-defined]
    there = {option.name: option for option in command.params}
    other_here = {"windows": "20", "base_windows": "as many as --windows", "split": None, "base": None}
    for key, field in GeneratorSpec.model_fields.items():
        assert key in there, key
        expected = other_here.get(key, f"{field.default:g}" if isinstance(field.default, float) else str(field.default))
        if expected is not None:
            assert re.search(r"\[(.*)\]$", there[key].help).group(1) == expected, key  # type: ignore[union-attr]
