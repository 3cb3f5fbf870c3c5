"""Writing a result folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import polars as pl
import pyarrow.parquet as pq

from btbench.cluster.setup import Setup
from btbench.engine.run import Run
from btbench.errors import PolicyError
from btbench.paths import printable_name
from btbench.policies.registry import Policy
from btbench.results.files import COPIES, PROVENANCE, REQUESTS, SCENARIO, SUMMARY, Result, summary_csv, summary_json
from btbench.results.folder import check_folder, whole_folder
from btbench.results.provenance import (
    Provenance,
    Published,
    describe_origin,
    describe_setups,
    package_versions,
    this_machine,
)
from btbench.results.report import REPORT, write_report
from btbench.results.requests import REQUEST_SCHEMA, copies_frame, pool_requests, request_frames
from btbench.results.spread import Spread
from btbench.results.summary import Row, summarise, with_reductions
from btbench.results.table import markdown_table
from btbench.trace import Trace

CSV, TABLE = "summary.csv", "table.md"
OUR_FILES = (REQUESTS, COPIES, CSV, TABLE, SCENARIO, PROVENANCE, REPORT, SUMMARY)

# Times differ in their low bits and are rarely equal; names and small numbers repeat.
_SPLIT = {name: "BYTE_STREAM_SPLIT" for name, kind in REQUEST_SCHEMA.items() if kind == pl.Float64}
_REPEATED = [name for name, kind in REQUEST_SCHEMA.items() if kind == pl.String] + ["replica", "output_tokens"]


def check_output(folder: Path, force: bool) -> None:
    """Raise OutputError where a result cannot go to `folder`, so that it is known before any work."""
    check_folder(folder, OUR_FILES, force)


class ResultWriter:
    """Takes the replays of a grid one by one, and then says what they came to. Made by `write_result`."""

    def __init__(self, folder: Path, final_folder: Path, trace: Trace, baseline: str) -> None:
        self.folder = folder  # where the files are until the result is whole; charts and report go here too
        self._final_folder = final_folder
        self._trace = trace
        self._baseline = baseline
        self._setups: dict[str, Setup] = {}
        self._rows: list[Row] = []
        self._spread = Spread(trace)
        self._prefix_tokens: dict[str, int] = {}
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
        self._spread.add(setup.name, policy.name, pooled)
        self._setups[setup.name] = setup
        if policy.kind == "btb":
            blocks = policy.for_blocks(self._trace.block_tokens).parameters.btb.prefix_blocks
            self._prefix_tokens[policy.name] = blocks * self._trace.block_tokens

    def add_again(self, setup: Setup, policy: Policy, runs: Sequence[Run]) -> None:
        """Take the same replayed with another seed, which tells on the intervals alone."""
        self._spread.add(setup.name, policy.name, pool_requests(self._trace, self._trace.windows, runs))

    def finish(
        self,
        *,
        scenario: str,
        scenario_toml: str,
        seed: int,
        seeds: int = 1,
        command: str,
        published: Sequence[Published] = (),
        published_source: str = "",
    ) -> Result:
        """Write the other files. Returns the result, whose `folder` is where it will be once the context ends.

        Raises PolicyError where no request was served at all.
        """
        self._parquet.close()
        told = [row for row in self._rows if row["mean_ttft_s"] is not None]
        if not told:
            raise PolicyError("every request was turned away", "Give the policy a longer ttft_slo_s.")
        pl.concat(self._copies).write_parquet(self.folder / COPIES, compression="zstd")
        result = Result(
            rows=tuple(with_reductions(told, self._baseline, self._spread)),
            provenance=Provenance(
                scenario=scenario,
                baseline=self._baseline,
                seed=seed,
                seeds=seeds,
                command=printable_name(command),
                trace=describe_origin(self._trace),
                setups=describe_setups(self._setups.values()),
                nothing_served=tuple(row.key for row in self._rows if row["mean_ttft_s"] is None),
                prefix_tokens=self._prefix_tokens,
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
        self._write(SCENARIO, printable_name(scenario_toml))
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
    with whole_folder(folder, OUR_FILES, force) as aside:
        writer = ResultWriter(aside, folder, trace, baseline)
        try:
            yield writer
        finally:
            writer.close()
        if not (aside / SUMMARY).exists():
            raise RuntimeError("the context of write_result ended without finish()")
