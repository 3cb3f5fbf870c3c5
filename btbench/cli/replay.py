"""`btbench replay`: the main job."""

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from btbench.cli.compiling import announce_compiling, remember_compiled
from btbench.cli.console import note, progress_bar, say, stdout
from btbench.cli.options import (
    BlockTokensOption,
    DebugOption,
    DefaultOutputOption,
    ForceOption,
    Format,
    FormatOfTraceOption,
    FormatOption,
    JobsOption,
    NoChartsOption,
    OutOption,
    PolicyOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SeedsOption,
    SetupOption,
    SkipBadRowsOption,
    TieOption,
    TimeUnitOption,
    TraceOption,
    reading,
)
from btbench.cli.plot import ChartsOption, Theme, ThemeOption, chart_formats
from btbench.errors import UsageError

if TYPE_CHECKING:
    from btbench.progress import Progress
    from btbench.results.files import Result
    from btbench.scenario import Scenario
    from btbench.trace import Trace


def replay(
    scenario: ScenarioArgument = "default",
    trace: TraceOption = None,
    setup: SetupOption = None,
    policy: PolicyOption = None,
    trace_format: FormatOfTraceOption = None,
    block_tokens: BlockTokensOption = None,
    time_unit: TimeUnitOption = None,
    tie: TieOption = None,
    default_output: DefaultOutputOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    out: OutOption = None,
    format: FormatOption = Format.table,
    jobs: JobsOption = None,
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    force: ForceOption = False,
    charts: ChartsOption = "",
    theme: ThemeOption = Theme.light,
    no_charts: NoChartsOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Replay a trace under competing routing policies.

    Prints the table; requests, summary and charts go to results/<scenario>.

    \b
    Examples:
      btbench replay
      btbench replay my-scenario.toml --out results/monday
      btbench replay --trace conversation.jsonl.gz --setup 70b_h100x4
      btbench replay quickstart -p cache_aware -p btb --format markdown
    """
    if no_charts and (charts or theme is not Theme.light):
        raise UsageError("--no-charts: there is no chart for --charts and --theme to change", "Leave one of them out.")
    from btbench.results.writer import check_output
    from btbench.scenario import Overrides, load_scenario

    how_to_read = reading(trace_format, block_tokens, time_unit, tie, default_output, skip_bad_rows)
    overrides = Overrides(trace, tuple(setup or ()), tuple(policy or ()), seed, seeds, how_to_read)
    asked = load_scenario(scenario, overrides)
    folder = out or Path("results", asked.name)
    check_output(folder, force)
    formats = [] if no_charts else chart_formats(charts)
    if formats:
        from btbench.charts.saving import check_formats

        check_formats(formats)  # before any work
    tell = (lambda text: None) if quiet else note
    with progress_bar(quiet) as progress:
        result, summary_line = _replay(asked, folder, force, jobs, formats, theme, tell, progress)
    _print(result, format)
    if not quiet:
        say(summary_line)


def _replay(
    asked: "Scenario",
    folder: Path,
    force: bool,
    jobs: int | None,
    formats: Sequence[str],
    theme: Theme,
    tell: Callable[[str], None],
    progress: "Progress",
) -> tuple["Result", str]:
    """The result, which is in its folder now, and a line on how long it took; no charts where there is no format."""
    from btbench.engine import replay_grid
    from btbench.results.provenance import Published
    from btbench.results.writer import write_result
    from btbench.sources import open_trace

    for text in asked.notes:
        tell(text)
    trace = open_trace(asked.trace, asked.folder, seed=asked.seed, progress=progress)
    for text in oddities(trace):
        tell(text)
    announce_compiling(tell, progress, asked.policies)
    started, engine_s = time.perf_counter(), 0.0
    with write_result(folder, trace, asked.baseline, force) as writer:
        for seed in asked.every_seed:
            take = writer.add if seed == asked.seed else writer.add_again
            for setup, policy, runs in replay_grid(
                trace, asked.setups, asked.policies, asked.options, seed, jobs, progress
            ):
                take(setup, policy, runs)
                engine_s += sum(run.engine_s for run in runs)
        remember_compiled(asked.policies)
        result = writer.finish(
            scenario=asked.name,
            scenario_toml=asked.to_toml(folder),
            seed=asked.seed,
            seeds=asked.seeds,
            command=shlex.join(["btbench", *sys.argv[1:]]),
            published=[Published(**asdict(row)) for row in asked.published],
            published_source=asked.published_source,
        )
        took_s = time.perf_counter() - started
        if formats:
            from btbench.charts.draw import draw_result

            draw_result(writer.folder, formats, theme.value, progress=progress)
    replayed = len(trace) * len(asked.setups) * len(asked.policies) * asked.seeds
    line = f"{replayed:,} requests replayed in {took_s:.2f} s (engine {engine_s:.2f} s); result in {folder}"
    return result, line


def oddities(trace: "Trace") -> list[str]:
    """What the trace holds that a reader should know of."""
    return [f"{trace.name}: {text}" for text in (*trace.oddities, *trace.notes)]


def _print(result: "Result", format: Format) -> None:
    from btbench.results.files import summary_csv, summary_json
    from btbench.results.metrics import STABLE_METRICS
    from btbench.results.table import markdown_table, render_table

    if format is Format.table:
        stdout().print(render_table(result, stdout().width))
    elif format is Format.markdown:
        sys.stdout.write(markdown_table(result))
    elif format is Format.json:
        sys.stdout.write(summary_json(result.rows, STABLE_METRICS))
    else:
        once = [row for row in result.rows if row.part in result.distinct_parts]
        sys.stdout.write(summary_csv(once, STABLE_METRICS))
