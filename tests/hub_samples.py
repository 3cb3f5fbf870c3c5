"""Small data sets for the loopback Hub."""

from __future__ import annotations

import io
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq


def art_parquet(first: int, rows: int, *, group_rows: int = 100, message_bytes: int = 4_000, seed: int = 1) -> bytes:
    """Rows `first` on of a trace in ART-Chat's columns; the text of messages is most of the bytes."""
    draws = random.Random(f"{seed}:{first}")
    numbers = range(first, first + rows)
    table = pa.table(
        {
            "request_id": [f"request_{i:036d}" for i in numbers],
            "token_hash": [f"{i % 7:064x}" for i in numbers],
            "system_prompt_hash": [f"{i % 3:016x}" for i in numbers],
            "timestamp_ms": pa.array([i * 297 for i in numbers], pa.int64()),
            "input_length": pa.array([700 + i % 60 for i in numbers], pa.int32()),
            "output_length": pa.array([1 + i % 128 for i in numbers], pa.int32()),
            "hash_ids": [[f"{i % 5:024x}", f"{i % 11 + 99:024x}", f"{draws.getrandbits(96):024x}"] for i in numbers],
            "messages": [draws.randbytes(message_bytes // 2).hex() for _ in numbers],
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=group_rows, compression="zstd")
    return file.getvalue()


def mooncake_lines(rows: int, *, padding: int = 0) -> bytes:
    """Rows in Mooncake's format."""
    pad = {"note": "x" * padding} if padding else {}
    return b"".join(
        json.dumps(
            {"timestamp": 300 * i, "input_length": 700, "output_length": 5, "hash_ids": [0, i % 3 + 1, i + 9], **pad}
        ).encode()
        + b"\n"
        for i in range(rows)
    )
