"""From files to the packed trace, once: what they are, their rows, checks, packing, cache."""

from __future__ import annotations

import stat
import sys
from typing import Any, BinaryIO

from btbench.errors import TraceError
from btbench.progress import Progress, silent
from btbench.sources import containers, conversations
from btbench.sources.batches import check_batch
from btbench.sources.cache import cache_path, load, store
from btbench.sources.content import open_file
from btbench.sources.formats import DRAWN, Format, check_format_name
from btbench.sources.oddities import Intake, Tally
from btbench.sources.packing import Packer, Whole
from btbench.sources.resolve import Located
from btbench.sources.threads import Threads
from btbench.sources.weka import Sessions
from btbench.trace_spec import TraceSpec


def read_whole(located: Located, spec: TraceSpec, progress: Progress = silent, seed: int = 0) -> Whole:
    """The packed trace of some files, from the cache where it was packed before.

    `seed` draws session starts where a format has none. Raises TraceError.
    """
    if located.source == "-":
        if sys.stdin is None:
            raise TraceError("stdin: is closed.", "Pipe a trace into it, or name a file.")
        return _read_spooled(sys.stdin.buffer, located._replace(source="stdin"), spec, progress, seed)
    if len(located.files) == 1 and stat.S_ISFIFO(located.files[0].stat().st_mode):
        with located.files[0].open("rb") as pipe:
            return _read_spooled(pipe, located, spec, progress, seed)
    if spec.format is not None:
        check_format_name(spec.format)
    files, names = list(located.files), _shown(located)
    for file, name in zip(files, names, strict=True):
        containers.magic(file, name)
    digest = containers.content_digest(files, names)
    options = _options(located, spec)
    drawn = {**options, "session_gap_s": spec.session_gap_s, "seed": seed}
    paths = [cache_path(digest, choice) for choice in (options, drawn)]
    whole = load(paths[0]) or load(paths[1])
    if whole is None:
        whole = _pack(located, names, spec, seed, progress)
        store(paths[whole.trace.format in DRAWN], whole)
    is_own = spec.session_gap_s != TraceSpec.model_fields["session_gap_s"].default  # a resolved scenario names defaults
    if is_own and whole.trace.format not in DRAWN:
        raise TraceError(
            f"session_gap_s = {spec.session_gap_s:g} does not apply to {located.source}: its rows have times.",
            f"It spaces the sessions of {', '.join(sorted(DRAWN))} traces.",
        )
    trace = whole.trace.with_changes(name=located.name, source=located.source, revision=located.revision, digest=digest)
    return Whole(trace, whole.row)


def _read_spooled(stream: BinaryIO, located: Located, spec: TraceSpec, progress: Progress, seed: int) -> Whole:
    """`read_whole` of what can be read only once."""
    kept = containers.spool(stream, located.source)
    try:
        return read_whole(located._replace(files=(kept,)), spec, progress, seed)
    finally:
        kept.unlink(missing_ok=True)


def _options(located: Located, spec: TraceSpec) -> dict[str, Any]:
    """What makes a difference to the packed trace of the same content."""
    return {
        "format": spec.format or located.format,
        "time_unit": spec.time_unit,
        "default_output_tokens": spec.default_output_tokens,
        "skip_bad_rows": spec.skip_bad_rows,
        "by": spec.windows and spec.windows.by,
        "label_by": spec.windows and spec.windows.label_by,
    }


def _shown(located: Located) -> list[str]:
    """The files as messages name them."""
    if len(located.files) == 1:
        return [located.source]
    return [f"{located.source.rstrip('/')}/{file.name}" for file in located.files]


def _pack(located: Located, names: list[str], spec: TraceSpec, seed: int, progress: Progress) -> Whole:
    tally, threads, sessions = Tally(), Threads(), Sessions(spec.session_gap_s, seed)
    packer: Packer | None = None
    total = sum(file.stat().st_size for file in located.files)
    done = told = rows_before = 0

    def advance(count: int) -> None:
        nonlocal done, told
        done += count
        if done - told > total // 100:
            told = done
            progress(f"reading {located.name}", done, total)

    for file, name in zip(located.files, names, strict=True):
        intake = Intake(name, spec.skip_bad_rows, tally, rows_before=rows_before)
        source, batches = open_file(file, spec, located.format, sessions, intake, advance)
        unit = _unit(source, spec, intake)
        packer = packer or Packer(source, tally)
        if source.name != packer.source.name:
            intake.fail(f"a {source.name} trace, but the files before it are {packer.source.name}.")
        last = 0
        for batch in batches:
            last = batch.rows[-1]
            checked = check_batch(batch, source, unit, spec.default_output_tokens, intake)
            packer.add(threads.follow(checked, intake), intake)
        rows_before += last
    if packer is None or not packer.count:
        dropped = "; ".join(f"{o.count:,} rows dropped: {o.kind}, first in row {o.first_row}" for o in tally.oddities())
        raise TraceError(f"{located.source}: no row could be read.", dropped or "A trace holds at least one row.")
    whole = packer.finish(located.name)
    notes = (sessions.note(),) if sessions.count else ()
    if packer.source.unit == "none":
        notes = (conversations.NOTE,)
    return Whole(whole.trace.with_changes(oddities=tally.oddities(), notes=notes), whole.row)


def _unit(source: Format, spec: TraceSpec, intake: Intake) -> str:
    """The unit of time. Raises TraceError where it cannot be told."""
    if source.unit in ("date", "none") or source.layout == "sessions":
        if spec.time_unit is not None:
            intake.fail(f"time_unit = {spec.time_unit!r} does not apply to {source.name} traces.")
        return str(source.unit)
    unit = spec.time_unit or source.unit
    if unit is None:
        intake.fail(
            f"the unit of {source.column('time')!r} cannot be told: seconds or milliseconds?",
            "--time-unit s|ms|us|ns (time_unit in [trace]) says it, or --trace-format a format that has one.",
        )
    return unit
