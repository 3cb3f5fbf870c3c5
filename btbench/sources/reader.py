"""From files to the packed trace, once: detection, rows, checks, packing, cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from btbench.errors import TraceError
from btbench.progress import Progress, silent
from btbench.sources import containers, jsonl, parquet
from btbench.sources.batches import Batch, check_batch, units_of
from btbench.sources.cache import cache_path, remembered
from btbench.sources.formats import Format, detect
from btbench.sources.oddities import Intake, Tally
from btbench.sources.packing import Packer, Whole
from btbench.sources.resolve import Located
from btbench.trace_spec import TraceSpec


def read_whole(located: Located, spec: TraceSpec, progress: Progress = silent) -> Whole:
    """The packed trace of some files, from the cache where it was packed before. Raises TraceError."""
    if located.source == "-":
        kept = containers.spool(sys.stdin.buffer, "stdin")
        try:
            return read_whole(located._replace(files=(kept,), source="stdin"), spec, progress)
        finally:
            kept.unlink(missing_ok=True)
    files, names = list(located.files), _shown(located)
    for file, name in zip(files, names, strict=True):
        containers.magic(file, name)
    digest = containers.content_digest(files, names)
    windows = spec.windows
    options = {
        "format": spec.format or located.format,
        "time_unit": spec.time_unit,
        "default_output_tokens": spec.default_output_tokens,
        "skip_bad_rows": spec.skip_bad_rows,
        "by": windows and windows.by,
        "label_by": windows and windows.label_by,
    }
    whole = remembered(cache_path(digest, options), lambda: _pack(located, names, spec, progress))
    trace = whole.trace.with_changes(name=located.name, source=located.source, revision=located.revision, digest=digest)
    return Whole(trace, whole.row)


def _shown(located: Located) -> list[str]:
    """The files as messages name them."""
    if len(located.files) == 1:
        return [located.source]
    return [f"{located.source.rstrip('/')}/{file.name}" for file in located.files]


def _pack(located: Located, names: list[str], spec: TraceSpec, progress: Progress) -> Whole:
    tally = Tally()
    packer: Packer | None = None
    total = sum(file.stat().st_size for file in located.files)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(f"reading {located.name}", done, total)

    rows_before = 0
    for file, name in zip(located.files, names, strict=True):
        intake = Intake(name, spec.skip_bad_rows, tally, rows_before=rows_before)
        source, batches = _open_rows(file, located, spec, intake, advance)
        if packer is None:
            packer = Packer(source, tally)
        elif source.name != packer.source.name:
            intake.fail(f"is a {source.name} trace, but the shards before it are {packer.source.name}.")
        units_per_s = units_of(source, spec.time_unit)
        if units_per_s is None:
            intake.fail(
                f"the unit of {source.column('time')!r} cannot be told.",
                "--time-unit s|ms|us|ns (time_unit in [trace]) or --trace-format says it.",
            )
        for batch in batches:
            checked = check_batch(batch, source, units_per_s, spec.default_output_tokens, intake)
            packer.add(checked, intake)
            last = batch.rows[-1]
        rows_before += last
    assert packer is not None
    whole = packer.finish(located.name)
    if not len(whole.row):
        raise TraceError(f"{located.source}: no row could be read.", "A trace holds at least one row.")
    return Whole(whole.trace.with_changes(oddities=tally.oddities()), whole.row)


def _open_rows(
    file: Path, located: Located, spec: TraceSpec, intake: Intake, advance: containers.Advance
) -> tuple[Format, Iterator[Batch]]:
    """The format of a file and its rows."""
    container = parquet if containers.magic(file, intake.file).startswith(containers.PARQUET) else jsonl
    keys = container.sniff(file, intake)
    source = detect(keys, intake.file, spec.format or located.format)
    columns = columns_of(source, spec, keys, intake)
    return source, container.read_rows(file, columns, intake, advance)


def columns_of(source: Format, spec: TraceSpec, keys: set[str], intake: Intake) -> dict[str, str]:
    """Role -> column to read. Raises TraceError where a column that is needed is not there."""
    columns = dict(source.columns)
    for role, asked in (
        ("window", spec.windows and spec.windows.by),
        ("label", spec.windows and spec.windows.label_by),
    ):
        if asked:
            if asked not in keys:
                intake.fail(
                    f"missing column {asked!r}, which [trace.windows] names.", f"Found: {', '.join(sorted(keys))}."
                )
            columns[role] = asked
    for role in ("time", "input"):
        if columns[role] not in keys:
            intake.fail(
                f"missing column {columns[role]!r} of format {source.name!r}.", f"Found: {', '.join(sorted(keys))}."
            )
    return columns
