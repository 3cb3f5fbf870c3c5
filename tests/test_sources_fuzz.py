"""Damaged files of every kind: an error a user can mend or a trace, never anything else."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from trace_files import ROWS, jsonl, opened, write

from btbench.errors import BtbenchError

WEKA = {"block_size": 64, "hash_id_scope": "local", "requests": [{"t": 0.5, "in": 130, "out": 5, "hash_ids": [1, 2]}]}
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.1,5,6"
LINES = jsonl(ROWS)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BTBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("samples")
    return {
        "rows": LINES,
        "gzip": gzip.compress(LINES),
        "zstd": zstandard.compress(LINES),
        "parquet": write(folder / "t.parquet", ROWS).read_bytes(),
        "csv": AZURE.encode(),
        "weka": json.dumps(WEKA).encode(),
        "chats": json.dumps(
            [{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}]
        ).encode(),
    }


damages = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(["change", "cut", "insert", "delete"]),
        st.one_of(
            st.binary(min_size=1, max_size=4),
            st.sampled_from(
                [b"null", b"-1", b"1e999", b"NaN", b'"', b"\\", b"[", b"}", b"\n", b",", b"9" * 40, b"true"]
            ),
        ),
    ),
    min_size=1,
    max_size=3,
)


def damaged(data: bytes, damages: list[tuple[float, str, bytes]]) -> bytes:
    for place, kind, piece in damages:
        at = int(place * len(data))
        if kind == "cut":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + len(piece) :]
        else:
            data = data[:at] + piece + data[at + len(piece) :]
    return data


@pytest.mark.parametrize("kind", ["rows", "gzip", "zstd", "parquet", "csv", "weka", "chats"])
@given(damages=damages, skip=st.booleans())
def test_a_damaged_file_is_a_trace_or_an_error(tmp_path_factory, samples, kind, damages, skip) -> None:
    path: Path = tmp_path_factory.mktemp("t") / "t"
    path.write_bytes(damaged(samples[kind], damages))
    try:
        trace = opened(path, block_tokens=256, skip_bad_rows=skip)
    except BtbenchError as error:
        assert error.message and "\n" not in error.message
        return
    assert len(trace) > 0
    assert np.isfinite(trace.arrival_s).all() and (np.diff(trace.arrival_s) >= 0).all()
    assert (trace.arrival_s >= 0).all()
    assert trace.input_tokens.min() >= 1 and trace.output_tokens.min() >= 1
    assert (trace.prompt_blocks() >= 0).all() and trace.run_offsets[-1] == len(trace.runs)
