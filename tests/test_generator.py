"""The Bursted-ART generator against a slow twin, the published set, and a recorded window."""

import gzip
import json
import os
import random
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from btbench.errors import TraceError
from btbench.sources.generator import Layout, draw_windows, generate_trace
from btbench.trace import Trace
from btbench.trace_spec import GeneratorSpec

# of the published data set, July 2026: five of its twenty synthetic windows are train
PUBLISHED_TRAIN = [1, 2, 5, 6, 15]
PUBLISHED_BURST_STARTS_OF_WINDOW_0 = [
    18.840182449329657,
    60.7756638897726,
    101.90378169060412,
    141.23684079129586,
    178.35199755797709,
    220.20506559226874,
    261.7058592993916,
    298.95148689879414,
]


def twin_windows(spec: GeneratorSpec) -> list[list[tuple[float, str, list[str], int]]]:
    """All windows as rows (arrival, request id, blocks, output tokens), the slow way."""
    rng = random.Random(spec.seed)
    for _ in range(spec.skip_outputs):
        rng.getrandbits(32)
    windows = []
    for number in range(spec.windows):
        name, rows = f"synthetic_{number:05d}", []
        end = spec.first_burst_s + max(1, spec.bursts) * spec.burst_spacing_s

        def add(kind, job, start, size, span, prefix_tokens, output, name=name, rows=rows):
            for i in range(size):
                request = f"{name}:{kind}:{job}:r{i}"
                blocks = [f"{name}:{kind}:{job}:b{k}" for k in range(ceil(prefix_tokens / spec.block_tokens))]
                blocks += [f"{request}:s{k}" for k in range(ceil(spec.suffix_tokens / spec.block_tokens))]
                rows.append((start + (span * i / (size - 1) if size > 1 else 0.0), request, blocks, output))

        for j in range(spec.bursts):
            jitter = rng.uniform(-spec.start_jitter_s, spec.start_jitter_s)
            start = max(0.0, spec.first_burst_s + j * spec.burst_spacing_s + jitter)
            add("burst", j, start, spec.burst_size, spec.burst_window_s, spec.prefix_tokens, spec.output_tokens)
        for j in range(spec.decoys):
            start = rng.uniform(max(0.0, spec.first_burst_s - spec.lead_s), end)
            add("decoy", j, start, spec.decoy_size, spec.decoy_window_s, spec.prefix_tokens, spec.output_tokens)
        for k in range(spec.background):
            start = rng.uniform(0.0, end)
            add("background", k, start, 1, 0.0, spec.background_prefix_tokens, spec.background_output_tokens)
        windows.append(sorted(rows))
    return windows


def shared_lengths(chains: list[tuple[int, ...]], weights: list[int] | None = None) -> list[list[int]]:
    """Blocks that each pair of requests shares from the start."""

    def shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
        blocks = 0
        for x, y in zip(a, b, strict=False):
            if x != y:
                break
            blocks += 1 if weights is None else weights[x]
        return blocks

    return [[shared(a, b) for b in chains] for a in chains]


def run_chains(trace: Trace) -> list[tuple[int, ...]]:
    return [tuple(trace.runs[a:b].tolist()) for a, b in zip(trace.run_offsets, trace.run_offsets[1:], strict=False)]


small_specs = st.builds(
    GeneratorSpec,
    seed=st.integers(0, 2**40),
    skip_outputs=st.integers(0, 3),
    windows=st.integers(1, 3),
    bursts=st.integers(0, 3),
    burst_size=st.integers(1, 12),
    prefix_tokens=st.integers(1, 40),
    suffix_tokens=st.integers(0, 20),
    output_tokens=st.integers(1, 3),
    first_burst_s=st.sampled_from([0.0, 1.0, 20.0]),
    burst_spacing_s=st.sampled_from([0.0, 40.0]),
    start_jitter_s=st.sampled_from([0.0, 2.0]),
    burst_window_s=st.sampled_from([0.0, 0.1, 60.0]),
    decoys=st.integers(0, 12),
    decoy_size=st.integers(1, 3),
    background=st.integers(1, 12),
    background_prefix_tokens=st.integers(1, 40),
    block_tokens=st.integers(1, 16),
)


@settings(deadline=None, max_examples=60)
@given(small_specs)
def test_agrees_with_the_slow_twin(spec):
    trace = generate_trace(spec)
    rows = [row for window in twin_windows(spec) for row in window]
    assert trace.arrival_s.tolist() == [row[0] for row in rows]
    assert trace.input_tokens.tolist() == [len(row[2]) * spec.block_tokens for row in rows]
    assert trace.prompt_blocks().tolist() == [len(row[2]) for row in rows]
    assert trace.output_tokens.tolist() == [row[3] for row in rows]
    here = shared_lengths(run_chains(trace), trace.run_blocks.tolist())
    there = shared_lengths([tuple(row[2]) for row in rows])
    for i, row in enumerate(rows):
        here[i][i] += trace.tail_blocks[i]  # a request shares its own tail with itself alone
        assert here[i] == there[i], row
    assert [(w.stop - w.start, w.label) for w in trace.windows] == [
        (len(window), "synthetic") for window in twin_windows(spec)
    ]


@pytest.mark.parametrize("skipped", [0, 1, 4_095, 4_096, 4_097, 10_000])
def test_outputs_are_skipped_as_if_drawn_one_by_one(skipped: int) -> None:
    spec = GeneratorSpec(skip_outputs=skipped, windows=1, bursts=1, burst_size=1, decoys=0, start_jitter_s=2.0)
    rng = random.Random(spec.seed)
    for _ in range(skipped):
        rng.getrandbits(32)
    windows, _ = draw_windows(spec, Layout.of(spec))
    assert windows[0].arrival_s.tolist() == [20.0 + rng.uniform(-2.0, 2.0)]


def test_published_windows_and_split():
    spec = GeneratorSpec(skip_outputs=280, windows=20)
    layout = Layout.of(spec)
    windows, splits = draw_windows(spec, layout)
    assert splits["train"] == PUBLISHED_TRAIN
    assert splits["test"] == [i for i in range(20) if i not in PUBLISHED_TRAIN]
    first = {int(row): arrival for row, arrival in zip(windows[0].row, windows[0].arrival_s, strict=True)}
    assert [first[500 * j] for j in range(8)] == PUBLISHED_BURST_STARTS_OF_WINDOW_0


def test_test_split_is_the_published_size_and_deterministic():
    spec = GeneratorSpec(skip_outputs=280, windows=20, split="test")
    trace = generate_trace(spec)
    assert len(trace) == 61_800
    assert [window.name for window in trace.windows][:2] == ["synthetic_00000", "synthetic_00003"]
    assert trace.digest == generate_trace(spec).digest
    assert trace.digest != generate_trace(spec.model_copy(update={"seed": 1})).digest


@pytest.mark.parametrize(("windows", "train"), [(1, 0), (2, 1), (3, 1), (4, 1), (8, 2), (20, 5), (22, 5)])
def test_a_quarter_is_train(windows, train):
    spec = GeneratorSpec(windows=windows, bursts=0, decoys=1)
    _, splits = draw_windows(spec, Layout.of(spec))
    assert len(splits["train"]) == train
    assert sorted(splits["train"] + splits["test"]) == list(range(windows))


def test_nothing_to_generate_is_an_error():
    with pytest.raises(TraceError, match="would hold 0 requests"):
        generate_trace(GeneratorSpec(bursts=0, decoys=0))
    with pytest.raises(TraceError, match="split 'train'"):
        generate_trace(GeneratorSpec(windows=1, split="train"))
    with pytest.raises(TraceError, match=r"hold [0-9]{10,} requests"):
        generate_trace(GeneratorSpec(windows=1_000_000, burst_size=1_000_000))


BASE_ROWS = [
    {"arrival_s": 3.0 + i / 4, "input_length": 300 + i, "output_length": 1 + i % 3, "hash_ids": [f"p{i % 2}", f"q{i}"]}
    for i in range(40)
]


@pytest.fixture
def base_file(tmp_path):
    path = tmp_path / "base.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in BASE_ROWS))
    return path


SMALL = {"bursts": 2, "burst_size": 3, "decoys": 4, "windows": 8, "prefix_tokens": 512}


@pytest.mark.parametrize("split", ["all", "train", "test"])
def test_base_windows_stand_beside_the_synthetic_ones(base_file, split):
    alone = generate_trace(GeneratorSpec(**SMALL, split=split))
    spec = GeneratorSpec(**SMALL, split=split, base=base_file.name, base_windows=4, base_rows=10)
    both = generate_trace(spec, base_file.parent)
    synthetic = [w for w in both.windows if w.label == "synthetic"]
    assert tuple(synthetic) == alone.windows
    n = len(alone)
    assert both.arrival_s[:n].tolist() == alone.arrival_s.tolist()
    assert both.runs[: len(alone.runs)].tolist() == alone.runs.tolist()
    others = [w for w in both.windows if w.label == "base"]
    assert len(others) == {"all": 4, "train": 1, "test": 3}[split]
    for window in others:
        part = both.window(window)
        first = int(part.input_tokens[0]) - 300
        rows = BASE_ROWS[first : first + 10]
        assert part.input_tokens.tolist() == [row["input_length"] for row in rows]
        assert part.output_tokens.tolist() == [row["output_length"] for row in rows]
        assert part.arrival_s.tolist() == [row["arrival_s"] - rows[0]["arrival_s"] for row in rows]
        assert part.prompt_blocks().tolist() == [2] * 10
        parity = [run[0] for run in run_chains(part)]
        assert len(set(parity[::2])) == len(set(parity[1::2])) == 1
        assert parity[0] != parity[1]
    assert not set(both.runs[: len(alone.runs)].tolist()) & set(both.runs[len(alone.runs) :].tolist())


def test_a_base_that_does_not_fit_is_an_error(base_file):
    with pytest.raises(TraceError, match=r"base\.jsonl has 40"):
        generate_trace(GeneratorSpec(**SMALL, base=base_file.name, base_windows=1, base_rows=41), base_file.parent)
    with pytest.raises(TraceError, match="without base_windows"):
        generate_trace(GeneratorSpec(**SMALL, base="art-like"))
    with pytest.raises(TraceError, match="base_windows = 1 without base"):
        generate_trace(GeneratorSpec(**SMALL, base_windows=1))
    with pytest.raises(TraceError, match="blocks of 256 tokens"):
        generate_trace(GeneratorSpec(**SMALL, base="art-like", base_windows=1, block_tokens=512))


def test_art_like_windows_are_labelled_so():
    trace = generate_trace(GeneratorSpec(**SMALL, split="test", base="art-like", base_windows=4, base_rows=100))
    assert [w.name for w in trace.windows if w.label == "art-like"] == [
        f"art-like_{i:05d}" for i in range(4) if f"art-like_{i:05d}" in {w.name for w in trace.windows}
    ]
    assert [w.stop - w.start for w in trace.windows if w.label == "art-like"] == [100] * 3


def test_equals_the_recorded_window():
    folder = os.environ.get("BTBENCH_CONFORMANCE")
    if not folder:
        pytest.skip("BTBENCH_CONFORMANCE is not set")
    with gzip.open(Path(folder) / "bursted-window" / "trace.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    trace = generate_trace(GeneratorSpec())
    assert trace.arrival_s.tolist() == [row["arrival_s"] for row in rows]
    assert trace.input_tokens.tolist() == [row["input_length"] for row in rows]
    assert trace.output_tokens.tolist() == [row["output_length"] for row in rows]
    jobs: dict[str, int] = {}
    recorded = [jobs.setdefault(row["hash_ids"][0], len(jobs)) for row in rows]
    sizes = [recorded.count(job) for job in range(len(jobs))]
    expected: dict[int, int] = {}
    for i, job in enumerate(recorded):
        if sizes[job] > 1:
            run = trace.runs[trace.run_offsets[i]]
            assert expected.setdefault(job, run) == run
            assert (trace.run_blocks[run], trace.tail_blocks[i]) == (256, 1)
        else:
            assert trace.tail_blocks[i] == 257
