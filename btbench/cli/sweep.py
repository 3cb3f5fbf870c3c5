"""`btbench sweep`: a grid over keys of a scenario."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from btbench.cli import completion
from btbench.cli.compiling import announce_compiling, remember_compiled
from btbench.cli.console import note, progress_bar, say, stdout
from btbench.cli.options import (
    DebugOption,
    ForceOption,
    Format,
    FormatOption,
    JobsOption,
    PolicyOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SeedsOption,
    SetupOption,
)
from btbench.cli.replay import oddities

if TYPE_CHECKING:
    from btbench.progress import Progress
    from btbench.results.metrics import Metric
    from btbench.results.summary import Row
    from btbench.results.sweep import Sweep
    from btbench.scenario import Scenario, Setting
    from btbench.trace import Trace

Variants = list[tuple[tuple[Any, ...], "Scenario"]]


def sweep(
    scenario: ScenarioArgument,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=V1,V2,…", help="Values of a key of the scenario. Repeatable.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="Metric to show and draw. Repeatable. [mean and p95 TTFT]",
            autocompletion=completion.metric_names,
        ),
    ] = None,
    part: Annotated[str, typer.Option("--part", metavar="NAME", help="Show this part of the trace.")] = "all",
    setup: SetupOption = None,
    policy: PolicyOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for sweep.json, sweep.csv and charts. [none]"),
    ] = None,
    format: FormatOption = Format.table,
    jobs: JobsOption = None,
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Replay a scenario with every combination of some keys' values.

    Prints a line for each; with --out, draws lines (one key) or heat maps (two).

    \b
    Examples:
      btbench sweep quickstart --set policy.btb.copies=1,2,4
      btbench sweep quickstart --set router.signal_delay_s=0,0.1,1 --out delays
      btbench sweep default -s 70b_h100x4 --set setup.replicas=4,8 --set seed=1,2
    """
    from btbench.results.folder import check_folder
    from btbench.results.metrics import find_metric
    from btbench.results.sweep import DEFAULT_METRICS, OUR_FILES
    from btbench.scenario import Overrides, load_scenario, load_variants, parse_setting

    metrics = [find_metric(name) for name in dict.fromkeys(metric or DEFAULT_METRICS)]
    overrides = Overrides(setups=tuple(setup or ()), policies=tuple(policy or ()), seed=seed, seeds=seeds)
    asked = [parse_setting(text) for text in settings]
    variants = load_variants(scenario, asked, overrides)
    if out is not None:
        check_folder(out, OUR_FILES, force)
    tell = (lambda text: None) if quiet else note
    for text in dict.fromkeys(text for _, variant in variants for text in variant.notes):
        tell(text)
    with progress_bar(quiet) as progress:
        rows = _replay(asked, variants, part, jobs or os.cpu_count() or 1, tell, progress)
    swept = _collect(asked, variants, rows)
    if out is not None:
        drawn = _write(out, swept, load_scenario(scenario, overrides), metrics, part, force)
        if len(asked) > 2:
            tell("charts are drawn of one key or two")
        if not quiet:
            say(f"{len(swept.points):,} points and {drawn} charts in {out}")
    _print(swept, metrics, part, format)


def _replay(
    asked: Sequence["Setting"],
    variants: Variants,
    part: str,
    jobs: int,
    tell: Callable[[str], None],
    progress: "Progress",
) -> list[list["Row"]]:
    """The summary of each variant. Those of one trace are replayed at once: it is opened once, and one is held."""
    from btbench.results.summary import check_part
    from btbench.results.sweep import point_label
    from btbench.sources import open_trace

    keys = [setting.key for setting in asked]
    points = [(point_label(keys, at), variant) for at, variant in variants]
    of_trace: dict[tuple[Any, int], list[int]] = {}
    for k, (_, variant) in enumerate(variants):
        draws = 0 if variant.trace.source == "generated" else variant.seed  # the generator has a seed of its own
        of_trace.setdefault((variant.trace, draws), []).append(k)
    rows: list[list[Row]] = [[] for _ in variants]
    told: list[str] = []
    done = 0
    for places in of_trace.values():
        first = variants[places[0]][1]
        trace = open_trace(first.trace, first.folder, seed=first.seed, progress=progress)
        for text in oddities(trace):
            if text not in told:
                told.append(text)
                tell(text)
        check_part(trace, part)
        if not done:
            announce_compiling(tell, progress, [policy for _, variant in variants for policy in variant.policies])
        for k, found in zip(places, _replay_points(trace, [points[k] for k in places], jobs), strict=True):
            rows[k] = found
            done += 1
            progress("replaying", done, len(variants))
            remember_compiled(variants[k][1].policies)
        del trace  # before the next is opened
    return rows


def _collect(asked: Sequence["Setting"], variants: Variants, rows: Sequence[list["Row"]]) -> "Sweep":
    from btbench.results.sweep import Axis, Point, Sweep

    baselines = {variant.baseline for _, variant in variants}
    return Sweep(
        scenario=variants[0][1].name,
        baseline=baselines.pop() if len(baselines) == 1 else "",
        axes=tuple(Axis(setting.key, setting.values) for setting in asked),
        points=tuple(Point(values, tuple(found)) for (values, _), found in zip(variants, rows, strict=True)),
    )


def _replay_points(trace: "Trace", points: Sequence[tuple[str, "Scenario"]], jobs: int) -> Iterator[list["Row"]]:
    """The summary of each scenario, in order, as many at once as there are cores; errors name the point."""
    from concurrent.futures import ThreadPoolExecutor

    from btbench.engine import replay_grid
    from btbench.errors import BtbenchError
    from btbench.results.summary import summary_rows

    at_once = min(jobs, len(points))

    def replay_point(point: tuple[str, "Scenario"]) -> list["Row"]:
        name, asked = point
        try:
            first, *again = (
                replay_grid(trace, asked.setups, asked.policies, asked.options, seed, jobs // at_once)
                for seed in asked.every_seed
            )
            return summary_rows(trace, first, asked.baseline, again)
        except BtbenchError as error:
            raise type(error)(f"at {name}: {error.message}", error.hint) from error

    pool = ThreadPoolExecutor(at_once)
    try:
        yield from pool.map(replay_point, points)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _write(folder: Path, swept: "Sweep", base: "Scenario", metrics: Sequence["Metric"], part: str, force: bool) -> int:
    """Write the sweep, the scenario it is of, and its charts; returns how many of these."""
    from btbench.charts.sweep import draw_sweep
    from btbench.results.folder import CHARTS, whole_folder
    from btbench.results.sweep import CSV, JSON, OUR_FILES, SCENARIO, sweep_csv, sweep_json

    texts = {CSV: sweep_csv(swept), SCENARIO: base.to_toml(folder), JSON: sweep_json(swept)}
    with whole_folder(folder, OUR_FILES, force) as aside:
        for name, text in texts.items():
            (aside / name).write_text(text, encoding="utf-8")
        return len(draw_sweep(swept, metrics, part, aside / CHARTS))


def _print(swept: "Sweep", metrics: Sequence["Metric"], part: str, format: Format) -> None:
    from btbench.results.sweep import sweep_csv, sweep_json, sweep_sheet
    from btbench.results.table import markdown_sheets, render_sheets

    if format is Format.json:
        sys.stdout.write(sweep_json(swept))
    elif format is Format.csv:
        sys.stdout.write(sweep_csv(swept))
    elif format is Format.markdown:
        sys.stdout.write(markdown_sheets([sweep_sheet(swept, metrics, part)]))
    else:
        for line in render_sheets([sweep_sheet(swept, metrics, part)], stdout().width)[1:]:
            stdout().print(line)
