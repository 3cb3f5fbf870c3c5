"""The Bursted-ART generator: windows of deep-prefix bursts among decoys, as published in July 2026.

A window holds jobs. A burst is a job whose requests share a long prefix and arrive evenly over its span; a
decoy is a job of one or few requests, so that a repeated prefix alone proves nothing; a background request is
a job of its own. All draws come from one `random.Random(seed)`: per window the jitter of each burst, the start of
each decoy, the arrival of each background request. Windows of a base trace, whole rows from random places, stand
beside them; their draws come from a stream of their own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from btbench.errors import TraceError
from btbench.progress import Progress, silent
from btbench.runs import join_runs
from btbench.sources.digests import content_digest
from btbench.sources.splits import split_windows
from btbench.trace import Trace, Window
from btbench.trace_spec import GeneratorSpec

LABEL = "synthetic"
MOST_ROWS = 2**31  # ids of jobs and runs are 32-bit
SKIPPED_AT_ONCE = 4_096  # outputs


@dataclass(frozen=True)
class Job:
    """Requests that share a prefix; the same in every window but for its start."""

    kind: str  # "burst", "decoy" or "background"
    index: int  # among the jobs of its kind
    size: int  # requests
    span_s: float  # request i of n arrives span × i / (n − 1) behind the start
    prefix_blocks: int
    suffix_blocks: int  # of each request alone
    output_tokens: int


def jobs_of(spec: GeneratorSpec) -> list[Job]:
    """The jobs of every window, in the order their draws are made."""
    prefix, suffix = ceil(spec.prefix_tokens / spec.block_tokens), ceil(spec.suffix_tokens / spec.block_tokens)
    noise_prefix = ceil(spec.background_prefix_tokens / spec.block_tokens)
    return [
        *(
            Job("burst", j, spec.burst_size, spec.burst_window_s, prefix, suffix, spec.output_tokens)
            for j in range(spec.bursts)
        ),
        *(
            Job("decoy", j, spec.decoy_size, spec.decoy_window_s, prefix, suffix, spec.output_tokens)
            for j in range(spec.decoys)
        ),
        *(
            Job("background", j, 1, 0.0, noise_prefix, suffix, spec.background_output_tokens)
            for j in range(spec.background)
        ),
    ]


def _draw_starts(spec: GeneratorSpec, rng: random.Random) -> list[float]:
    """Start of each job of one window, in the order of `jobs_of`."""
    end = spec.first_burst_s + max(1, spec.bursts) * spec.burst_spacing_s
    lead = max(0.0, spec.first_burst_s - spec.lead_s)
    jitter = spec.start_jitter_s
    return [
        *(
            max(0.0, spec.first_burst_s + j * spec.burst_spacing_s + rng.uniform(-jitter, jitter))
            for j in range(spec.bursts)
        ),
        *(rng.uniform(lead, end) for _ in range(spec.decoys)),
        *(rng.uniform(0.0, end) for _ in range(spec.background)),
    ]


@dataclass(frozen=True)
class Layout:
    """Everything the windows of a specification have in common; R requests, job after job."""

    jobs: list[Job]
    job: npt.NDArray[np.int64]  # (R,) position in `jobs`
    member: npt.NDArray[np.int64]  # (R,) position in its job
    offset_s: npt.NDArray[np.float64]  # (R,) behind the job's start
    id_rank: npt.NDArray[np.int64]  # (R,) rank of the request id as text, which orders equal arrivals

    @staticmethod
    def of(spec: GeneratorSpec) -> Layout:
        """Raises TraceError where a window would hold no request, or all windows more than can be counted."""
        rows = spec.bursts * spec.burst_size + spec.decoys * spec.decoy_size + spec.background
        if not 0 < rows * spec.windows < MOST_ROWS:
            raise TraceError(
                f"{spec.windows} generated windows would hold {rows * spec.windows} requests",
                f"Allowed: 1 to {MOST_ROWS - 1}; set bursts, burst_size, decoys, decoy_size or background accordingly.",
            )
        jobs = jobs_of(spec)
        sizes = np.array([job.size for job in jobs])
        job = np.repeat(np.arange(len(jobs)), sizes)
        member = np.arange(len(job)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        span_s = np.array([j.span_s for j in jobs])[job]
        offset_s = span_s * member / np.maximum(sizes[job] - 1, 1)
        ids = [f"{j.kind}:{j.index}:r{i}" for j in jobs for i in range(j.size)]
        id_rank = np.empty(len(ids), np.int64)
        id_rank[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        return Layout(jobs, job, member, offset_s, id_rank)


@dataclass(frozen=True)
class SyntheticWindow:
    """One drawn window: its requests in row order, by arrival, then by request id as text."""

    name: str
    row: npt.NDArray[np.int64]  # (R,) position in the layout
    arrival_s: npt.NDArray[np.float64]  # (R,) non-decreasing


def draw_windows(spec: GeneratorSpec, layout: Layout) -> tuple[list[SyntheticWindow], dict[str, list[int]]]:
    """All windows of a specification, and the positions of those of each split, sorted.

    The published set shuffled its other windows, as many as the synthetic ones, before it shuffled these; that
    shuffle is made here too, with or without other windows, so that the split depends on nothing else.
    """
    rng = random.Random(spec.seed)
    for done in range(0, spec.skip_outputs, SKIPPED_AT_ONCE):
        rng.getrandbits(32 * min(SKIPPED_AT_ONCE, spec.skip_outputs - done))  # the same as 32 bits so many times
    windows = []
    for number in range(spec.windows):
        arrival_s = np.array(_draw_starts(spec, rng))[layout.job] + layout.offset_s
        row = np.lexsort((layout.id_rank, arrival_s))
        windows.append(SyntheticWindow(f"{LABEL}_{number:05d}", row, arrival_s[row]))
    rng.shuffle(list(range(spec.windows)))
    return windows, split_windows(rng, spec.windows)


def check_base(spec: GeneratorSpec) -> None:
    """Raises TraceError where a base is named without windows, or windows without a base."""
    if spec.base is not None and not spec.base_windows:
        raise TraceError(f"base = {spec.base!r} without base_windows", "base_windows says how many are taken from it.")
    if spec.base is None and spec.base_windows:
        raise TraceError(
            f"base_windows = {spec.base_windows} without base", "base names the trace they are taken from."
        )


def generate_trace(spec: GeneratorSpec, folder: Path = Path(), progress: Progress = silent) -> Trace:
    """The windows of `spec.split` as a packed trace, synthetic ones first; `base` is relative to `folder`.

    Raises TraceError where it would be empty, or where the base cannot be had.
    """
    check_base(spec)
    layout = Layout.of(spec)
    windows, splits = draw_windows(spec, layout)
    chosen = [windows[i] for i in splits[spec.split]]
    parts = [_synthetic_trace(spec, layout, chosen)] if chosen else []
    if spec.base is not None:
        from btbench.sources.base_windows import take_base_windows

        others = take_base_windows(spec, folder, progress).of_split(spec.split)
        parts += [others] if others is not None else []
    if not parts:
        raise empty_split(spec)
    trace = _side_by_side(parts).with_changes(
        name="generated", format="generated", source="generated", block_tokens=spec.block_tokens
    )
    return trace.with_changes(digest=content_digest(trace))


def empty_split(spec: GeneratorSpec) -> TraceError:
    """What to do where a split has no window."""
    return TraceError(
        f"split {spec.split!r} is empty: {spec.windows} synthetic window{'s'[: spec.windows != 1]} cannot be divided.",
        f"Use split 'all' (--split all), or more windows (--windows {max(4, spec.windows + 1)}).",
    )


def _side_by_side(parts: list[Trace]) -> Trace:
    """The windows of several traces as one; they share no prefixes."""
    runs = np.cumsum([0, *(len(part.run_blocks) for part in parts)])
    rows = np.cumsum([0, *map(len, parts)])
    places = np.cumsum([0, *(len(part.runs) for part in parts)])
    return parts[0].with_changes(
        arrival_s=np.concatenate([part.arrival_s for part in parts]),
        input_tokens=np.concatenate([part.input_tokens for part in parts]),
        output_tokens=np.concatenate([part.output_tokens for part in parts]),
        run_offsets=np.concatenate([[0], *(p.run_offsets[1:] + at for p, at in zip(parts, places, strict=False))]),
        runs=np.concatenate([p.runs + np.int32(at) for p, at in zip(parts, runs, strict=False)]),
        run_blocks=np.concatenate([part.run_blocks for part in parts]),
        tail_blocks=np.concatenate([part.tail_blocks for part in parts]),
        windows=tuple(
            replace(window, start=int(window.start + at), stop=int(window.stop + at))
            for part, at in zip(parts, rows, strict=False)
            for window in part.windows
        ),
    )


def _synthetic_trace(spec: GeneratorSpec, layout: Layout, chosen: list[SyntheticWindow]) -> Trace:
    """Synthetic windows, packed."""
    rows = np.concatenate([window.row for window in chosen])
    job = layout.job[rows]
    prefix_blocks = np.array([j.prefix_blocks for j in layout.jobs], np.int32)
    suffix_blocks = np.array([j.suffix_blocks for j in layout.jobs], np.int32)
    output_tokens = np.array([j.output_tokens for j in layout.jobs], np.int64)
    size = len(layout.job)
    # one symbol stands for the whole prefix of a job of a window
    symbols = (job + np.repeat(np.arange(len(chosen)) * len(layout.jobs), size)).astype(np.int32)
    packed = join_runs(symbols, np.arange(len(rows) + 1), np.tile(prefix_blocks, len(chosen)), suffix_blocks[job])
    return Trace(
        name="generated",
        block_tokens=spec.block_tokens,
        arrival_s=np.concatenate([window.arrival_s for window in chosen]),
        input_tokens=(prefix_blocks.astype(np.int64) + suffix_blocks)[job] * spec.block_tokens,
        output_tokens=output_tokens[job],
        run_offsets=packed.offsets,
        runs=packed.runs,
        run_blocks=packed.run_blocks,
        tail_blocks=packed.tail_blocks,
        windows=tuple(Window(w.name, LABEL, k * size, (k + 1) * size) for k, w in enumerate(chosen)),
    )
