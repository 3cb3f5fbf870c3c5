"""Every trace format: recognised by its content, with its units, block size, ids and quirks."""

import json
from pathlib import Path

import polars as pl
import pytest
from trace_files import blocks_of, numbered, odd, opened, rows_opened, write

from btbench.errors import TraceError
from btbench.sources.formats import FORMATS, detect
from btbench.trace import Trace, Window

LENGTHS = {"input_length": 600, "output_length": 7}


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def told(trace: Trace) -> tuple[str, int, list[float]]:
    return trace.format, trace.block_tokens, trace.arrival_s.tolist()


def test_mooncake(tmp_path: Path) -> None:
    rows = [{"timestamp": t, **LENGTHS, "hash_ids": [0, n]} for n, t in enumerate([0, 3001, 6000.5])]
    trace = rows_opened(tmp_path, rows)
    assert told(trace) == ("mooncake", 512, [0.0, 3.001, 6.0005])
    assert numbered(blocks_of(trace)) == [[0, 0], [0, 1], [0, 2]]


def test_mooncake_of_the_hub_is_parquet(tmp_path: Path) -> None:
    rows = [{"timestamp": t, **LENGTHS, "hash_ids": [0, t]} for t in (0, 3001)]
    assert told(opened(write(tmp_path / "m.parquet", rows))) == ("mooncake", 512, [0.0, 3.001])


def test_aiperf_rows_may_lack_a_time_or_blocks(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 1000, "session_id": "s", **LENGTHS, "hash_ids": [1], "text_input": "hello"},
        {"session_id": "s", "delay": 500, **LENGTHS, "hash_ids": [1, 2], "tools": []},
        {"timestamp": 1200, "session_id": "u", "input_length": 5},
        {"session_id": "s", "delay": 250.0, **LENGTHS, "hash_ids": None},
    ]
    trace = rows_opened(tmp_path, rows, default_output_tokens=3)
    assert told(trace) == ("mooncake", 512, [1.0, 1.2, 1.5, 1.75])
    assert trace.session is not None and trace.session.tolist() == [0, 1, 0, 0]
    assert trace.output_tokens.tolist() == [7, 3, 7, 7]
    assert odd(trace) == [
        ("missing output length", 1, 3),
        ("time told as a delay", 2, 2),
        ("null or empty hashes", 2, 3),
        ("out-of-order arrivals", 1, 3),
    ]


def test_a_delay_needs_a_row_before_it(tmp_path: Path) -> None:
    rows = [{"session_id": "s", "delay": 5, **LENGTHS, "hash_ids": [1]}, {"timestamp": 0, **LENGTHS, "hash_ids": [1]}]
    with pytest.raises(TraceError, match=r"line 1: a delay in place of a time, but no row of its session"):
        rows_opened(tmp_path, rows)


@pytest.mark.parametrize("name", ["art.parquet", "art.jsonl"])
def test_art(tmp_path: Path, name: str) -> None:
    time = "timestamp_ms" if name.endswith("parquet") else "timestamp"
    more = {} if name.endswith("parquet") else {"unique_input_tokens": 5, "response": "never read"}
    rows = [
        {"request_id": "r", "token_hash": user, time: t, **LENGTHS, "hash_ids": ["0a1b", f"{t:024x}"], **more}
        for user, t in (("u", 1000), ("", 1500), ("v", 1500), ("u", 4000))
    ]
    trace = opened(write(tmp_path / name, rows))
    assert told(trace) == ("art", 256, [1.0, 1.5, 1.5, 4.0])
    assert trace.user is not None and trace.user.tolist() == [0, -1, 1, 0]


def test_the_messages_column_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet

    read: list[str] = []
    iter_batches = pyarrow.parquet.ParquetFile.iter_batches

    def watched(self, size, columns):
        read.extend(columns)
        return iter_batches(self, size, columns=columns)

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", watched)
    rows = [{"token_hash": "u", "timestamp_ms": 1, **LENGTHS, "hash_ids": ["a"], "messages": "long"}]
    opened(write(tmp_path / "art.parquet", rows))
    assert sorted(read) == ["hash_ids", "input_length", "output_length", "timestamp_ms", "token_hash"]


def test_bursted_art_brings_its_windows(tmp_path: Path) -> None:
    rows = [
        {"dataset_version": "1", "source": s, "trace_id": w, "row_in_window": 0, "timestamp": t, "arrival_s": t,
         **LENGTHS, "hash_ids": ["a"], "session_id": "none", "messages": "", "metadata": {"job": 1}}
        for s, w, t in (("art", "w1", 5.0), ("synthetic", "w0", 1.0), ("art", "w1", 2.0))
    ]  # fmt: skip
    trace = rows_opened(tmp_path, rows)
    assert told(trace) == ("bursted-art", 256, [2.0, 5.0, 1.0])
    assert trace.windows == (Window("w1", "art", 0, 2), Window("w0", "synthetic", 2, 3))
    assert trace.session is None


def test_qwen_bailian_ids_stand_for_one_block_alone(tmp_path: Path) -> None:
    chats = [(0, -1, [7, 8, 7]), (1, -1, [8, 7]), (2, 0, [7, 8, 7, 9]), (3, 2, [7, 8]), (4, 99, [7])]
    rows = [
        {"chat_id": chat, "parent_chat_id": parent, "timestamp": chat / 4, "input_length": 33, "output_length": 1,
         "type": "text", "turn": 1, "hash_ids": ids}
        for chat, parent, ids in chats
    ]  # fmt: skip
    trace = rows_opened(tmp_path, rows)
    assert told(trace) == ("qwen-bailian", 16, [0.0, 0.25, 0.5, 0.75, 1.0])
    # 7 is another block behind nothing, behind 8 at the start, and behind 7, 8
    assert numbered(blocks_of(trace)) == [[0, 1, 2], [3, 4], [0, 1, 2, 5], [0, 1], [0]]
    assert trace.session is not None and trace.session.tolist() == [0, 1, 0, 0, 2]


def session(requests: list[dict], **fields: object) -> str:
    return json.dumps({"id": "x", "block_size": 64, "hash_id_scope": "local", "requests": requests, **fields}, indent=1)


def request(t: float, ids: list[int]) -> dict:
    return {"t": t, "type": "n", "model": "m", "in": 64 * len(ids) + 5, "out": 9, "hash_ids": ids, "stop": "end_turn"}


def test_weka_sessions_start_at_drawn_times_and_have_ids_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "weka"
    folder.mkdir()
    agent = {"t": 5.0, "type": "subagent", "agent_id": "a", "requests": [request(0.0, [9]), request(2.0, [9, 10])]}
    (folder / "a.json").write_text(session([request(0.0, [1, 2]), agent, request(6.0, [1, 2, 3])]))
    (folder / "b.json").write_text(session([request(0.0, [1, 2])]))
    trace = opened(folder)
    assert (trace.format, trace.block_tokens, len(trace)) == ("weka", 64, 5)
    assert trace.session is not None
    own = trace.arrival_s[trace.session == 0]
    assert own.tolist() == [0.0, 5.0, 6.0, 7.0]
    start = trace.arrival_s[trace.session == 1][0]
    assert start > 0
    lists = dict(zip(trace.arrival_s.tolist(), numbered(blocks_of(trace)), strict=True))
    assert lists[0.0] == lists[6.0][:2] and not set(lists[0.0]) & set(lists[start])
    assert trace.notes == ("session starts are not in the trace: 2 drawn with seed 1, one every 60 s on average",)
    assert odd(trace) == []
    assert opened(folder, session_gap_s=600.0).arrival_s.max() == pytest.approx(10 * start)


def test_weka_sessions_of_one_trace_have_one_block_size(tmp_path: Path) -> None:
    lines = [session([request(0.0, [1])]), session([request(0.0, [1])], block_size=32)]
    (tmp_path / "t.jsonl").write_text("\n".join(line.replace("\n", "") for line in lines))
    with pytest.raises(TraceError, match="session 2 has block_size 32"):
        opened(tmp_path / "t.jsonl")


def test_burstgpt_columns_go_by_name_and_failures_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,1,0,ChatGPT,472,18,490,Conversation log\n"
        "45.5,2,0,ChatGPT,0,0,0,API log\n"
        "118,1,0,GPT-4,417,0,417,API log\n"
    )
    trace = opened(tmp_path / "b.csv")
    assert told(trace) == ("burstgpt", 0, [5.0, 118.0])
    assert (trace.has_blocks, trace.input_tokens.tolist(), trace.output_tokens.tolist()) == (False, [472, 417], [18, 1])
    assert trace.session is not None and trace.session.tolist() == [0, 0]
    assert odd(trace) == [("failed requests (no tokens)", 1, 3), ("output below 1", 1, 4)]


AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:04.1000001,5,6\r\n2023-11-16 18:17:03.9799600,4808,10"
)


def test_azure_dates_count_from_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(AZURE.encode())
    trace = opened(tmp_path / "a.csv")
    assert told(trace) == ("azure", 0, [0.0, 0.1200401])
    assert trace.input_tokens.tolist() == [4808, 5]
    assert odd(trace) == [("out-of-order arrivals", 1, 3)]
    times = ["2023-11-16 18:17:03.9", "2023-11-16 18:17:04.4"]
    table = pl.DataFrame({"TIMESTAMP": times, "ContextTokens": 5, "GeneratedTokens": 6})
    table.with_columns(pl.col("TIMESTAMP").str.to_datetime()).write_parquet(tmp_path / "a.parquet")
    assert told(opened(tmp_path / "a.parquet")) == ("azure", 0, [0.0, 0.5])


def test_conversations_are_recognised_and_have_no_times(tmp_path: Path) -> None:
    turns = [("human", "x" * 9), ("gpt", "y" * 4), ("human", "z" * 3), ("gpt", "")]
    sharegpt = [{"id": "c", "conversations": [{"from": who, "value": text} for who, text in turns]}]
    (tmp_path / "s.json").write_text(json.dumps(sharegpt))
    trace = opened(tmp_path / "s.json")
    assert (trace.format, trace.has_times, trace.has_blocks) == ("sharegpt", False, False)
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == ([3, 4], [1, 1])
    assert trace.notes == ("the trace has no times, and lengths are estimated: one token for four characters",)
    roles = {"human": "user", "gpt": "assistant"}
    lmsys = [{"conversation_id": "c", "conversation": [{"role": roles[w], "content": t} for w, t in turns]}]
    trace = opened(write(tmp_path / "l.parquet", lmsys))
    assert (trace.format, trace.has_times, trace.input_tokens.tolist()) == ("lmsys", False, [3, 4])


def test_a_unit_that_cannot_be_told_is_asked_for(tmp_path: Path) -> None:
    rows = [{"timestamp": t, **LENGTHS} for t in (1, 2500)]
    with pytest.raises(TraceError, match=r"unit of 'timestamp' cannot be told: seconds or milliseconds\?\n--time-unit"):
        rows_opened(tmp_path, rows)
    assert told(rows_opened(tmp_path, rows, time_unit="s")) == ("plain", 0, [1.0, 2500.0])
    assert told(rows_opened(tmp_path, rows, time_unit="us")) == ("plain", 0, [1e-6, 2.5e-3])
    assert told(rows_opened(tmp_path, rows, format="mooncake")) == ("mooncake", 512, [0.001, 2.5])


def test_a_forced_format_needs_its_columns(tmp_path: Path) -> None:
    rows = [{"timestamp": 1, **LENGTHS}]
    with pytest.raises(TraceError, match="missing column 'arrival_s' of format 'btbench'"):
        rows_opened(tmp_path, rows, format="btbench")
    with pytest.raises(TraceError, match=r"Unknown trace format 'moncake'.\nDid you mean 'mooncake'\?"):
        rows_opened(tmp_path, rows, format="moncake")


def test_every_format_is_recognised_by_each_of_its_signatures() -> None:
    for source in FORMATS:
        for signature in source.signature:
            assert detect(signature, "file").name == source.name


def test_options_win_over_the_format_and_say_so(tmp_path: Path) -> None:
    trace = rows_opened(tmp_path, [{"timestamp": 9, **LENGTHS, "hash_ids": [1]}], block_tokens=600, time_unit="s")
    assert told(trace) == ("mooncake", 600, [9.0])
    assert trace.notes == ("block_tokens = 600 as asked, where mooncake traces have 512",)


def test_shards_of_different_formats_are_no_trace(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [{"timestamp": 1, **LENGTHS, "hash_ids": [1]}])
    write(tmp_path / "b.jsonl", [{"arrival_s": 1, **LENGTHS, "hash_ids": [1]}])
    with pytest.raises(TraceError, match=r"b.jsonl: a btbench trace, but the files before it are mooncake"):
        opened(tmp_path)


def test_ids_that_follow_different_ids_are_counted(tmp_path: Path) -> None:
    rows = [{"timestamp": n, **LENGTHS, "hash_ids": ids} for n, ids in enumerate([[1, 2], [3, 2], [1, 2, 4], [2]])]
    trace = rows_opened(tmp_path, rows)
    assert ("block id behind different blocks", 1, 2) in odd(trace)
    assert numbered(blocks_of(trace)) == numbered([[1, 2], [3, 2], [1, 2, 4], [2]])


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(AZURE.encode())
    with pytest.raises(TraceError, match="time_unit = 'ms' does not apply to azure traces"):
        opened(tmp_path / "a.csv", time_unit="ms")
    with pytest.raises(TraceError, match=r"session_gap_s = 5 does not apply to .*a.csv: its rows have times"):
        opened(tmp_path / "a.csv", session_gap_s=5.0)


def test_ids_may_be_categories(tmp_path: Path) -> None:
    lists = [["a", "b"], ["a"], []]
    table = {"arrival_s": [0.0, 1.0, 2.0], "input_length": 5, "output_length": 1, "hash_ids": lists}
    kind = {"hash_ids": pl.List(pl.Categorical)}
    pl.DataFrame(table, schema_overrides=kind).write_parquet(tmp_path / "t.parquet")
    assert numbered(blocks_of(opened(tmp_path / "t.parquet", block_tokens=4))) == numbered(lists)
