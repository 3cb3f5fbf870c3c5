"""Where traces come from: files of every format people have, the Hub, the generator; all become a packed Trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from btbench.progress import Progress, silent
from btbench.trace import Trace
from btbench.trace_spec import GeneratorSpec, TraceSpec

if TYPE_CHECKING:
    from btbench.sources.packing import Whole
    from btbench.sources.survey import Survey


def open_trace(spec: TraceSpec, base: Path, *, seed: int, progress: Progress = silent) -> Trace:
    """The trace a user names, packed, with its windows and arrival times as asked.

    `base` is the folder that a relative path is relative to; `seed` draws what a format leaves to be invented (session
    starts). Raises TraceError, ScenarioError (windows that do not fit) or NetworkError.
    """
    if spec.source == "generated":
        from btbench.sources.generator import generate_trace

        return generate_trace(spec.generator or GeneratorSpec(), base, progress).scaled(spec.arrival_scale)
    from btbench.sources.settle import settle

    return settle(*_read(spec, base, seed, progress))


def survey_trace(spec: TraceSpec, base: Path, *, seed: int, progress: Progress = silent) -> Survey:
    """What a trace holds, as `open_trace` would read it; raises the same, but needs no block size."""
    from btbench.sources.survey import survey

    return survey(*_read(spec, base, seed, progress))


def _read(spec: TraceSpec, base: Path, seed: int, progress: Progress) -> tuple[Whole, TraceSpec]:
    """The packed source, and the specification with its windows as they are there."""
    import numpy as np

    from btbench.sources import art_like
    from btbench.sources.packing import Whole
    from btbench.sources.reader import read_whole
    from btbench.sources.resolve import locate
    from btbench.sources.windows import check_windows, from_first_rows

    if spec.windows is not None:
        check_windows(spec.windows)
    if spec.source == art_like.NAME:
        made = art_like.art_like_trace(seed=(spec.generator or GeneratorSpec(seed=1)).seed)
        return Whole(made, np.arange(1, len(made) + 1)), spec
    located = locate(spec.source, base, progress, spec.windows)
    if located.windows is not None:
        spec = spec.model_copy(update={"windows": located.windows})
    whole = read_whole(located, spec, progress, seed)
    trace = whole.trace if located.windows is None else from_first_rows(whole.trace)
    return whole._replace(trace=trace.with_changes(notes=(*located.notes, *trace.notes))), spec
