"""Small trace files in every container, and a packed trace spelled out again."""

import gzip
import json
from pathlib import Path

import polars as pl
import zstandard

from btbench.sources import open_trace
from btbench.trace import Trace
from btbench.trace_spec import TraceSpec

ROWS = [
    {"arrival_s": 0.0, "input_length": 700, "output_length": 5, "hash_ids": ["a", "b", "c"]},
    {"arrival_s": 0.5, "input_length": 512, "output_length": 9, "hash_ids": ["a", "b"]},
    {"arrival_s": 0.75, "input_length": 10, "output_length": 1, "hash_ids": []},
    {"arrival_s": 2.25, "input_length": 1000, "output_length": 2, "hash_ids": ["a", "b", "x", "y"]},
]


def jsonl(rows: list[dict]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(path: Path, rows: list[dict]) -> Path:
    """A trace file; the container follows from the name."""
    if path.suffix == ".parquet":
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    elif path.suffix == ".csv":
        pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(jsonl(rows)))
    elif path.suffix == ".zst":
        path.write_bytes(zstandard.compress(jsonl(rows)))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        path.write_bytes(jsonl(rows))
    return path


def opened(path: Path, **spec: object) -> Trace:
    return open_trace(TraceSpec.model_validate({"source": str(path), **spec}), path.parent, seed=1)


def rows_opened(tmp_path: Path, rows: list[dict], **spec: object) -> Trace:
    return opened(write(tmp_path / "t.jsonl", rows), **spec)


def blocks_of(trace: Trace) -> list[list[object]]:
    """Every request's prompt: a block is (run, place in it), or unique where it occurs nowhere else."""
    found: list[list[object]] = []
    for i in range(len(trace)):
        runs = trace.runs[trace.run_offsets[i] : trace.run_offsets[i + 1]].tolist()
        shared: list[object] = [(run, k) for run in runs for k in range(trace.run_blocks[run])]
        found.append(shared + [("tail", i, k) for k in range(trace.tail_blocks[i])])
    return found


def numbered(lists: list[list[object]]) -> list[list[int]]:
    """The same equalities between elements, as numbers in order of first appearance."""
    numbers: dict[object, int] = {}
    return [[numbers.setdefault(element, len(numbers)) for element in elements] for elements in lists]


def odd(trace: Trace) -> list[tuple[str, int, int]]:
    return [(o.kind, o.count, o.first_row) for o in trace.oddities]
