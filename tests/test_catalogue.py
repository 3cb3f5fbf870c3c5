"""The catalogue, its changes by a user, and the commands that show it and fetch from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_samples import mooncake_lines
from hub_server import HubServer, Repo
from typer.testing import CliRunner

from btbench.cli.app import app
from btbench.errors import TraceError
from btbench.progress import silent
from btbench.sources import catalogue, open_trace
from btbench.sources.catalogue import entries, locate, parse_name
from btbench.trace_spec import TraceSpec

NAMED = [
    *("art-chat", "bursted-art", "art-like", "mooncake-conversation", "mooncake-toolagent", "mooncake-synthetic"),
    *(
        "mooncake-arxiv",
        "qwen-bailian-a",
        "qwen-bailian-b",
        "qwen-bailian-thinking",
        "qwen-bailian-coder",
        "burstgpt-1",
    ),
    *("burstgpt-2", "burstgpt-3", "azure-2023-code", "azure-2023-conv", "weka-cc", "lmsys-chat-1m", "sharegpt"),
]


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's traces.toml, empty at first."""
    path = tmp_path / "traces.toml"
    path.write_text("")
    monkeypatch.setenv("BTBENCH_TRACES_TOML", str(path))
    monkeypatch.setenv("BTBENCH_CACHE", str(tmp_path / "cache"))
    return path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def run(*words: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr


def test_what_is_named_has_a_source_and_says_what_it_is():
    assert list(entries()) == NAMED
    for name, entry in entries().items():
        assert entry.source, name
        assert entry.about, name
        if entry.repo is None and not entry.generated:
            assert all(url.startswith("https://") for url in entry.urls), name
        if entry.why_not is None:
            assert entry.format, name
            assert entry.ids, name
            assert entry.time_unit, name
            assert (entry.ids == "none") == (entry.block_tokens is None), name


@pytest.mark.parametrize("name", ["lmsys-chat-1m", "sharegpt"])
def test_conversations_say_why_they_cannot_be_replayed(name):
    with pytest.raises(TraceError, match="no timestamps"):
        locate(name, silent)


def test_a_user_moves_a_repository_and_adds_a_file(mine, hub, tmp_path):
    hub.repos["elsewhere/mooncake"] = Repo({"all/conversation.jsonl": mooncake_lines(5)})
    mine.write_text(
        '[mooncake-conversation]\nrepo = "elsewhere/mooncake"\nfiles = ["all/*.jsonl"]\n'
        '[at-home]\npath = "home.jsonl"\nformat = "mooncake"\n'
    )
    (tmp_path / "home.jsonl").write_bytes(mooncake_lines(7))
    assert entries()["mooncake-conversation"].rows == 12_031  # what is known of the trace stays
    assert locate("mooncake-conversation", silent).files[0].read_bytes() == mooncake_lines(5)
    trace = open_trace(TraceSpec(source="at-home"), Path("."), seed=1)
    assert (len(trace), trace.name) == (7, "at-home")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[art-chat]\nrepositry = "a/b"\n', "unknown key 'repositry'"),
        ("[art-chat]\nrows = -1\n", "rows = -1"),
        ('[new]\nabout = "x"\n', r"\[new\] has no source"),
        ('[new]\nrepo = "a/b"\nformat = "cvs"\n', "format = 'cvs'"),
        ("repo = 3\n", "outside a table"),
        ("[art-chat\n", "not TOML"),
    ],
)
def test_a_fault_in_the_users_file_is_named(mine, text, message):
    mine.write_text(text)
    with pytest.raises(TraceError, match=message) as caught:
        entries()
    assert str(mine) in caught.value.message


def test_a_file_that_is_named_but_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("BTBENCH_TRACES_TOML", str(tmp_path / "nowhere.toml"))
    with pytest.raises(TraceError, match=r"nowhere\.toml: cannot be read"):
        entries()


def test_names():
    named = parse_name("bursted-art:test@v2")
    assert (named.split, named.revision) == ("test", "v2")
    assert parse_name("bursted-art:test@v2", "v3").revision == "v3"
    assert parse_name("art-chat").revision == "main"
    with pytest.raises(TraceError, match="no split"):
        parse_name("art-chat:test")


def test_traces_lists_everything(hub):
    text = run("traces")
    for name in NAMED:
        assert name in text
    rows = json.loads(run("traces", "--format", "json"))["traces"]
    assert [row["name"].partition(":")[0] for row in rows] == NAMED
    assert {row["here"] for row in rows} == {"no", "made here"}
    assert "alessiotoniolo/ART-Chat-2.5M" in run("traces", "art-chat")
    assert "art-chat" in run("traces", "art-caht", status=2)


def test_fetch_tells_where_the_file_is(hub):
    hub.repos["shreybirmiwal/Bursted-ART"] = Repo({"train.jsonl": mooncake_lines(3), "test.jsonl": mooncake_lines(4)})
    (file,) = json.loads(run("fetch", "bursted-art:test", "--format", "json"))["files"]
    assert Path(file["file"]).read_bytes() == mooncake_lines(4)
    assert file["size_bytes"] == len(mooncake_lines(4))
    assert file["digest"].startswith("sha256:")
    here = {row["name"]: row["here"] for row in json.loads(run("traces", "--format", "json"))["traces"]}
    assert here["bursted-art:train|test"] == "parts"
    run("fetch", "bursted-art")
    here = {row["name"]: row["here"] for row in json.loads(run("traces", "--format", "json"))["traces"]}
    assert here["bursted-art:train|test"] == "yes"
    assert here["mooncake-conversation"] == "no"


def test_fetch_of_nothing_ends_in_one_message(hub):
    assert "is not on the Hub" in run("fetch", "hf:me/nothing", status=2)
    assert "--windows needs --rows" in run("fetch", "art-chat", "--windows", "3", status=2)
    assert "made here" in run("fetch", "art-like", status=2)


def test_packaged_entries_are_read_without_a_users_file(monkeypatch, tmp_path):
    monkeypatch.delenv("BTBENCH_TRACES_TOML")
    monkeypatch.setattr(catalogue, "override_path", lambda: tmp_path / "none.toml")
    assert list(entries()) == NAMED
