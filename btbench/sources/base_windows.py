"""Windows of a base trace beside the generated ones: consecutive rows from random places, times from the first row.

Their places and their split come from streams of draws of their own, so the synthetic windows do not depend on them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from btbench.errors import ScenarioError, TraceError
from btbench.progress import Progress, silent
from btbench.sources import art_like
from btbench.sources.formats import block_tokens_of
from btbench.sources.packing import Whole
from btbench.sources.resolve import Located, locate
from btbench.sources.splits import split_windows
from btbench.sources.windows import Cut, cut_named, row_cuts, take_cuts
from btbench.trace import Trace
from btbench.trace_spec import GeneratorSpec, TraceSpec, WindowSpec


@dataclass(frozen=True)
class BaseWindows:
    """All base windows of a specification."""

    trace: Trace  # arrivals from the first row of each window
    rows: npt.NDArray[np.int64]  # (N,) 1-based row of each request in the files at hand
    source_rows: npt.NDArray[np.int64]  # (N,) the same in the whole source, of which only windows may be at hand
    splits: dict[str, list[int]]  # positions of the windows of each split, sorted
    located: Located | None  # the files they are from; None where the base was made here

    def of_split(self, split: str) -> Trace | None:
        """The windows of one split, or None where it has none."""
        chosen = [self.trace.windows[i] for i in self.splits[split]]
        if not chosen:
            return None
        part = take_cuts(self.trace, [Cut(window.start, window.stop) for window in chosen])
        named = zip(part.windows, chosen, strict=True)
        return part.with_changes(windows=tuple(replace(w, name=c.name, label=c.label) for w, c in named))


def take_base_windows(spec: GeneratorSpec, folder: Path, progress: Progress = silent) -> BaseWindows:
    """The windows of `spec.base`, which is relative to `folder`.

    Raises TraceError where the base is too short, is made of windows itself, or has other blocks; NetworkError.
    """
    assert spec.base is not None
    draws = random.Random(f"base windows {spec.seed}")
    places = WindowSpec(count=spec.base_windows, rows=spec.base_rows, start="random", seed=draws.getrandbits(32))
    whole, located = _open(spec, places, folder, progress)
    trace = whole.trace
    told = trace.block_tokens or block_tokens_of(trace.format) or spec.block_tokens
    if told != spec.block_tokens:
        raise TraceError(
            f"{spec.base} has blocks of {told} tokens, the synthetic windows of {spec.block_tokens}",
            f"Set block_tokens of the generator to {told}.",
        )
    fetched = located is not None and located.windows is not None  # these windows alone
    cuts = [Cut(w.start, w.stop) for w in trace.windows] if fetched else _cuts(spec, places, trace)
    rows = np.concatenate([whole.row[cut.start : cut.stop] for cut in cuts])
    moved = [cut_named(w.name).start - w.start for w in trace.windows] if fetched else [0] * len(cuts)
    label = "art" if trace.format == "art" else trace.name
    part = take_cuts(trace, cuts)
    names = (f"{label}_{number:05d}" for number in range(len(cuts)))
    return BaseWindows(
        part.with_changes(
            windows=tuple(replace(w, name=name, label=label) for w, name in zip(part.windows, names, strict=True)),
            block_tokens=spec.block_tokens,
            session=None,
            user=None,
        ),
        rows,
        rows + np.repeat(moved, spec.base_rows),
        split_windows(draws, len(cuts)),
        located,
    )


def _open(spec: GeneratorSpec, places: WindowSpec, folder: Path, progress: Progress) -> tuple[Whole, Located | None]:
    """The base trace, or as much of it as holds the windows."""
    if spec.base == art_like.NAME:
        made = art_like.art_like_trace(seed=spec.seed % 2**32)
        return Whole(made, np.arange(1, len(made) + 1)), None
    from btbench.sources.reader import read_whole

    assert spec.base is not None
    located = locate(spec.base, folder, progress, places)
    return read_whole(located, TraceSpec(source=spec.base, windows=located.windows), progress, spec.seed), located


def _cuts(spec: GeneratorSpec, places: WindowSpec, trace: Trace) -> list[Cut]:
    if len(trace.windows) > 1:
        raise TraceError(
            f"{spec.base} is made of {len(trace.windows)} windows, which do not go on from one to the next",
            "A base is one long trace.",
        )
    try:
        return list(row_cuts(places, len(trace), str(spec.base)))
    except ScenarioError as error:
        raise TraceError(
            f"base windows of {spec.base_rows} rows, but {spec.base} has {len(trace)}", error.hint
        ) from error
