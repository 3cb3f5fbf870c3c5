"""Writing a result folder: everything is written aside and put in place at the very end, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import polars as pl
import pyarrow.parquet as pq

from btbench.cluster.setup import Setup
from btbench.engine.run import Run
from btbench.errors import OutputError
from btbench.policies.registry import Policy
from btbench.results.files import PROVENANCE, REQUESTS, SCENARIO, SUMMARY, Result, summary_csv, summary_json
from btbench.results.provenance import (
    Provenance,
    Published,
    describe_origin,
    describe_setups,
    package_versions,
    this_machine,
)
from btbench.results.report import CHARTS, REPORT, write_report
from btbench.results.requests import REQUEST_SCHEMA, copies_frame, pool_requests, request_frames
from btbench.results.summary import Row, summarise, with_reductions
from btbench.results.table import markdown_table
from btbench.trace import Trace

COPIES, CSV, TABLE = "copies.parquet", "summary.csv", "table.md"
OUR_FILES = (REQUESTS, COPIES, SUMMARY, CSV, TABLE, SCENARIO, PROVENANCE, REPORT)
CHART_SUFFIXES = (".png", ".svg", ".pdf", ".gif")
_ASIDE = ".btbench-"  # what a run writes, in the folder, until it is whole

# Times differ in their low bits and are rarely equal; names and small numbers repeat.
_SPLIT = {name: "BYTE_STREAM_SPLIT" for name, kind in REQUEST_SCHEMA.items() if kind == pl.Float64}
_REPEATED = [name for name, kind in REQUEST_SCHEMA.items() if kind == pl.String] + ["replica", "output_tokens"]


def check_output(folder: Path, force: bool) -> None:
    """Raise OutputError where a result cannot go to `folder`, so that it is known before any work.

    With `force` a result that is there may be replaced, but never a file that is not part of one.
    """
    other = "Choose another folder with --out."
    for ancestor in (folder, *folder.absolute().parents):
        if ancestor.is_dir():
            if not os.access(ancestor, os.W_OK | os.X_OK):
                raise OutputError(f"cannot write to {ancestor}: permission denied", other)
            break
        if os.path.lexists(ancestor):
            raise OutputError(f"{ancestor} is a file, not a folder", other)
    if not folder.is_dir():
        return
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith(_ASIDE))
    if entries and not force:
        what = "holds a result" if (folder / SUMMARY).exists() else "is not empty"
        raise OutputError(f"{folder} {what} already", f"Replace it with --force. {other}")
    foreign = [str(path.relative_to(folder)) for entry in entries for path in _foreign(entry)]
    if foreign:
        named = ", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else "")
        raise OutputError(f"{folder} holds files that no result has, not replaced: {named}", f"Move them. {other}")


def _foreign(entry: Path) -> list[Path]:
    if entry.name == CHARTS and entry.is_dir() and not entry.is_symlink():
        return [path for path in sorted(entry.iterdir()) if path.suffix not in CHART_SUFFIXES or not path.is_file()]
    return [] if entry.name in OUR_FILES and entry.is_file() else [entry]


class ResultWriter:
    """Takes the replays of a grid one by one, and then says what they came to. Made by `write_result`."""

    def __init__(self, folder: Path, final_folder: Path, trace: Trace, baseline: str) -> None:
        self.folder = folder  # where the files are until the result is whole; charts and report go here too
        self._final_folder = final_folder
        self._trace = trace
        self._baseline = baseline
        self._setups: dict[str, Setup] = {}
        self._rows: list[Row] = []
        self._copies: list[pl.DataFrame] = []
        self._parquet = pq.ParquetWriter(
            folder / REQUESTS,
            REQUEST_SCHEMA.to_frame().to_arrow().schema,
            compression="zstd",
            use_dictionary=_REPEATED,
            column_encoding=_SPLIT,
            store_schema=False,
        )

    def add(self, setup: Setup, policy: Policy, runs: Sequence[Run]) -> None:
        """Write the requests of one setup and policy, one run a window of the trace, and keep their summary."""
        pooled = pool_requests(self._trace, self._trace.windows, runs)
        for frame in request_frames(setup.name, policy.name, pooled):
            self._parquet.write_table(frame.to_arrow())
        self._copies.append(copies_frame(self._trace, setup, policy, runs))
        self._rows += summarise(self._trace, setup, policy, runs, pooled)
        self._setups[setup.name] = setup

    def finish(
        self,
        *,
        scenario: str,
        scenario_toml: str,
        seed: int,
        command: str,
        published: Sequence[Published] = (),
        published_source: str = "",
    ) -> Result:
        """Write the other files. Returns the result, whose `folder` is where it will be once the context ends."""
        self._parquet.close()
        pl.concat(self._copies).write_parquet(self.folder / COPIES, compression="zstd")
        result = Result(
            rows=tuple(with_reductions(self._rows, self._baseline)),
            provenance=Provenance(
                scenario=scenario,
                baseline=self._baseline,
                seed=seed,
                command=command,
                trace=describe_origin(self._trace),
                setups=describe_setups(self._setups.values()),
                versions=package_versions(),
                machine=this_machine(),
                published_source=published_source,
                published=tuple(published),
            ),
            folder=self._final_folder,
            name=scenario,
        )
        provenance = msgspec.json.format(msgspec.json.encode(result.provenance), indent=1)
        self._write(PROVENANCE, provenance.decode() + "\n")
        self._write(SCENARIO, scenario_toml)
        self._write(TABLE, markdown_table(result))
        self._write(CSV, summary_csv(result.rows))
        self._write(SUMMARY, summary_json(result.rows))
        write_report(self.folder)
        return result

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Let go of the files; the result is whole only after `finish`."""
        self._parquet.close()


@contextmanager
def write_result(folder: Path, trace: Trace, baseline: str, force: bool = False) -> Iterator[ResultWriter]:
    """A writer whose files appear in `folder` together when the context ends, and not at all where it fails.

    With `force` an old result is replaced, at that moment. Raises OutputError where the folder may not be written
    (`check_output`) or writing fails, as on a full disk.
    """
    check_output(folder, force)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    aside = folder / f"{_ASIDE}{os.getpid()}"
    whole = False
    try:
        aside.mkdir(parents=True)
        writer = ResultWriter(aside, folder, trace, baseline)
        try:
            yield writer
        finally:
            writer.close()
        if not (aside / SUMMARY).exists():
            raise RuntimeError("the context of write_result ended without finish()")
        check_output(folder, force)
        _put_in_place(aside, folder)
        whole = True
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else error
        raise OutputError(f"cannot write the result to {folder}: {problem}", "Nothing was written.") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        for path in [] if whole else made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _put_in_place(aside: Path, folder: Path) -> None:
    """Swap the files of a result for new ones, `summary.json` last; all or none."""
    old = aside / "old"
    moves = [(entry, old / entry.name) for entry in sorted(folder.iterdir()) if not entry.name.startswith(_ASIDE)]
    moves += [(entry, folder / entry.name) for entry in sorted(aside.iterdir(), key=lambda e: (e.name == SUMMARY, e))]
    old.mkdir()
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except BaseException:
        for source, target in reversed(done):
            target.rename(source)
        raise
