"""Real traces, where the environment points to them: `BTBENCH_TRACES` and `BTBENCH_CONFORMANCE` name the folders."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from cases import folder_of
from trace_files import blocks_of, numbered, odd, opened

TRACES, CONFORMANCE = folder_of("BTBENCH_TRACES"), folder_of("BTBENCH_CONFORMANCE")
real = pytest.mark.skipif(TRACES is None, reason="BTBENCH_TRACES names no folder of real traces")
conformance = pytest.mark.skipif(CONFORMANCE is None, reason="BTBENCH_CONFORMANCE names no folder of cases")


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def traces() -> Path:
    assert TRACES is not None
    return TRACES


@real
def test_mooncake_conversation() -> None:
    path = traces() / "mooncake/conversation_trace.jsonl.gz"
    trace = opened(path)
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert (len(trace), trace.format, trace.block_tokens) == (12_031, "mooncake", 512)
    assert trace.arrival_s.tolist() == [row["timestamp"] / 1000 for row in rows]
    assert len(np.unique(trace.arrival_s)) == 1_180
    assert numbered(blocks_of(trace)) == numbered([row["hash_ids"] for row in rows])
    assert odd(trace) == [("duplicate rows", 1, 7_733)]
    spread = opened(path, tie="spread")
    assert (np.diff(spread.arrival_s) > 0).all() and 3_536 < spread.arrival_s[-1] < 3_541


@real
def test_mooncake_toolagent_and_bailian_have_blocks_as_many_as_their_input_takes() -> None:
    for name, block_tokens in (
        ("mooncake/toolagent_first_rows.jsonl", 512),
        ("bailian/qwen_traceB_first_rows.jsonl", 16),
    ):
        trace = opened(traces() / name)
        np.testing.assert_array_equal(trace.prompt_blocks(), -(-trace.input_tokens // block_tokens))
        assert (trace.block_tokens, odd(trace)) == (block_tokens, [])


@real
def test_burstgpt_has_17_failures_among_its_first_400_rows() -> None:
    trace = opened(traces() / "burstgpt/BurstGPT_1_first400.csv")
    assert (len(trace), trace.arrival_s[0], trace.arrival_s[-1]) == (383, 5.0, 37_274.0)
    assert odd(trace) == [("failed requests (no tokens)", 17, 22)]


@real
def test_azure_reads_to_its_last_line_without_end() -> None:
    trace = opened(traces() / "azure/AzureLLMInferenceTrace_code.csv")
    assert (len(trace), trace.has_blocks) == (8_819, False)
    assert trace.arrival_s[:3].tolist() == [0.0, 0.052, 0.098189]
    assert (trace.input_tokens[-1], trace.output_tokens[-1]) == (549, 173)
    assert odd(trace) == []


@real
def test_weka_sessions_with_their_sub_agents() -> None:
    trace = opened(traces() / "weka")
    assert (len(trace), trace.block_tokens, len(trace.windows)) == (3 + 32 + 3, 64, 1)
    assert trace.session is not None and np.bincount(trace.session).tolist() == [3, 32, 3]
    np.testing.assert_array_equal(trace.prompt_blocks(), trace.input_tokens // 64)
    assert odd(trace) == []
    alone = opened(traces() / "weka/trace_0291.json")
    assert len(alone) == 32 and alone.input_tokens.sum() == 1_576_322 + 677_797


@conformance
def test_conformance_traces_hold_the_rows_of_their_files() -> None:
    assert CONFORMANCE is not None
    for path in sorted(CONFORMANCE.glob("*/trace.jsonl*")):
        data = path.read_bytes()
        rows = [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]
        if "trace_id" in rows[0]:
            names = list(dict.fromkeys(row["trace_id"] for row in rows))
            rows.sort(key=lambda row: names.index(row["trace_id"]))
        trace = opened(path, block_tokens=256)
        assert trace.arrival_s.tolist() == [row["arrival_s"] for row in rows]
        assert trace.input_tokens.tolist() == [max(1, row["input_length"]) for row in rows]
        assert trace.output_tokens.tolist() == [max(1, row["output_length"]) for row in rows]
        assert trace.prompt_blocks().tolist() == [len(row["hash_ids"]) for row in rows]
        for window in trace.windows:
            own = rows[window.start : window.stop]
            assert numbered(blocks_of(trace.window(window))) == numbered([row["hash_ids"] for row in own])
