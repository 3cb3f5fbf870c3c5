"""`btbench replay`: the main job."""

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from btbench.cli import completion
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
    OutOption,
    QuietOption,
    SeedOption,
    SeedsOption,
    SkipBadRowsOption,
    TieOption,
    TimeUnitOption,
    reading,
)

if TYPE_CHECKING:
    from btbench.policies.registry import Policy
    from btbench.progress import Progress
    from btbench.results.files import Result
    from btbench.scenario import Scenario
    from btbench.trace import Trace


ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A built-in scenario (`btbench list scenarios`) or a TOML file.", autocompletion=completion.scenario_names
    ),
]
TraceOption = Annotated[
    str | None,
    typer.Option(
        "--trace",
        "-t",
        help="Replay this trace instead: a file, - for stdin, a name of `btbench traces`, hf:…",
        autocompletion=completion.trace_names,
    ),
]
SetupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--setup",
        "-s",
        metavar="NAME",
        help="Only this setup: of the scenario or the paper. Repeatable.",
        autocompletion=completion.setup_names,
    ),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME",
        help="Only this policy: of the scenario or built in. Repeatable.",
        autocompletion=completion.policy_names,
    ),
]
NoChartsOption = Annotated[bool, typer.Option("--no-charts", help="Write no charts.")]


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
    from btbench.results.writer import check_output
    from btbench.scenario import Overrides, load_scenario

    how_to_read = reading(trace_format, block_tokens, time_unit, tie, default_output, skip_bad_rows)
    overrides = Overrides(trace, tuple(setup or ()), tuple(policy or ()), seed, seeds, how_to_read)
    asked = load_scenario(scenario, overrides)
    folder = out or Path("results", asked.name)
    check_output(folder, force)
    tell = (lambda text: None) if quiet else note
    with progress_bar(quiet) as progress:
        result, summary_line = _replay(asked, folder, force, jobs, not no_charts, tell, progress)
    _print(result, format)
    if not quiet:
        say(summary_line)


def _replay(
    asked: "Scenario",
    folder: Path,
    force: bool,
    jobs: int | None,
    charts: bool,
    tell: Callable[[str], None],
    progress: "Progress",
) -> tuple["Result", str]:
    """The result, which is in its folder now, and a line on how long it took."""
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
        for seed in range(asked.seed, asked.seed + asked.seeds):
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
        if charts:
            from btbench.charts.draw import draw_result

            draw_result(writer.folder, progress=progress)
    replayed = len(trace) * len(asked.setups) * len(asked.policies) * asked.seeds
    line = f"{replayed:,} requests replayed in {took_s:.2f} s (engine {engine_s:.2f} s); result in {folder}"
    return result, line


def announce_compiling(tell: Callable[[str], None], progress: "Progress", policies: Sequence["Policy"]) -> None:
    """Say why a replay takes its time, where kernels are to be compiled for these policies."""
    from btbench import jit

    own = [policy for policy in policies if policy.is_compiled_plugin]
    routers = [p for p in policies if p.custom is None and not all(kind.is_papers for kind in p.kinds())]
    if not jit.is_compiled():
        tell("the first replay on this machine compiles the engine, once; that takes up to a minute")
        progress("compiling the engine, once on this machine", 0, 0)
    elif routers and not _routers_marker().exists():
        tell(f"the first replay of {routers[0].name} or its like compiles the engine for them, once")
        progress("compiling the engine, once on this machine", 0, 0)
    if own:
        names = ", ".join(policy.name for policy in own)
        tell(f"compiling the policy {names} with the engine, at every start; that takes up to half a minute")


def remember_compiled(policies: Sequence["Policy"]) -> None:
    """After a replay: the engine is compiled for the built-in policies that have kernels of their own, if replayed."""
    if any(policy.custom is None and not all(kind.is_papers for kind in policy.kinds()) for policy in policies):
        with suppress(OSError):
            _routers_marker().touch()


def _routers_marker() -> Path:
    """A file in the folder of the kernels, since they do not tell for which policies they were compiled."""
    from btbench import jit

    return jit.CACHE_FOLDER / "routers.compiled"


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
