"""`btbench analyze-trace`: does this traffic hold the bursts that break routers?"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    NoChartsOption,
    OutOption,
    QuietOption,
    SeedOption,
    SkipBadRowsOption,
    TieOption,
    TimeUnitOption,
    reading,
)

if TYPE_CHECKING:
    from btbench.analysis.audit import TraceAnalysis
    from btbench.analysis.options import Options
    from btbench.progress import Progress
    from btbench.trace_spec import TraceSpec


def _list(names: str, metavar: str, help: str) -> Any:
    return typer.Option(names, metavar=metavar, help=help)


def analyze_trace(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE",
            help="Files, folders, - for stdin, catalogue names, hf:owner/repo.",
            autocompletion=completion.trace_names,
        ),
    ],
    depths: Annotated[str, _list("--depths", "LIST", "Depths of a shared prefix, in blocks.")] = "1,2,4,8,16,32",
    depth_tokens: Annotated[str, _list("--depth-tokens", "LIST", "Further depths, in tokens.")] = "",
    windows: Annotated[str, _list("--windows", "LIST", "Windows of time, in seconds.")] = "1,10,60",
    thresholds: Annotated[
        str, _list("--thresholds", "LIST", "Sizes from which on groups and bursts are counted.")
    ] = "5,10,20,50,100",
    without_root: Annotated[
        bool, typer.Option("--without-root", help="Leave out groups that share only what every request shares.")
    ] = False,
    burst_window: Annotated[
        str, typer.Option("--burst-window", metavar="S", help="Window of the list of bursts, in seconds.")
    ] = "10",
    top: Annotated[int, typer.Option("--top", min=0, metavar="N", help="Rows of the lists.")] = 10,
    btb_threshold: Annotated[str, _list("--btb-threshold", "LIST", "X of btb's rule to try: requests …")] = "2,4,8",
    btb_prefix_blocks: Annotated[
        str, _list("--btb-prefix-blocks", "LIST", "Y: … that share so many blocks …")
    ] = "16,64,256",
    btb_prefix_tokens: Annotated[str, _list("--btb-prefix-tokens", "LIST", "… or so many tokens …")] = "",
    btb_window: Annotated[str, _list("--btb-window", "LIST", "Z: … within so many seconds.")] = "1,10",
    setup: Annotated[
        str | None,
        typer.Option("--setup", "-s", metavar="NAME", help="Whose prefill and HBM to count with. [default: the first]"),
    ] = None,
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="NAME", help="Where the setup is: a built-in scenario, or a TOML file.")
    ] = "paper",
    answer_blocks: Annotated[
        bool, typer.Option("--answer-blocks", help="Answers take room in the cache too, as in a replay.")
    ] = False,
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", min=1, metavar="N", help="Only the first N requests of each trace.")
    ] = None,
    trace_format: FormatOfTraceOption = None,
    block_tokens: BlockTokensOption = None,
    time_unit: TimeUnitOption = None,
    tie: TieOption = None,
    default_output: DefaultOutputOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    details: Annotated[bool, typer.Option("--details", help="Print every table.")] = False,
    out: OutOption = None,
    no_charts: NoChartsOption = False,
    format: FormatOption = Format.table,
    seed: SeedOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Tell whether traces hold same-prefix bursts: how deep, how often, what a cache can reuse.

    LIST is numbers with commas. With --out: JSON, CSV, a Markdown report and charts.

    \b
    Examples:
      btbench analyze-trace conversation_trace.jsonl.gz
      btbench analyze-trace mooncake-conversation bursted-art:test --out audit
      btbench analyze-trace my.jsonl --depth-tokens 4096,65536 --details
      btbench analyze-trace my.jsonl --tie spread --without-root
    """
    from btbench.analysis.options import BtbGrid, Options
    from btbench.cli.number_lists import counts, lengths_s
    from btbench.cli.trace_report.folder import check_folder, write_folder
    from btbench.scenario import Overrides, load_scenario
    from btbench.trace_spec import TraceSpec

    asked = load_scenario(scenario, Overrides(setups=(setup,) if setup else (), seed=seed))
    options = Options(
        depths_blocks=counts("--depths", depths),
        depths_tokens=counts("--depth-tokens", depth_tokens, may_be_empty=True),
        windows_s=lengths_s("--windows", windows),
        thresholds=counts("--thresholds", thresholds),
        without_root=without_root,
        burst_window_s=lengths_s("--burst-window", burst_window)[-1],
        top=top,
        btb=BtbGrid(
            thresholds=counts("--btb-threshold", btb_threshold),
            prefix_blocks=counts("--btb-prefix-blocks", btb_prefix_blocks, may_be_empty=True),
            prefix_tokens=counts("--btb-prefix-tokens", btb_prefix_tokens, may_be_empty=True),
            windows_s=lengths_s("--btb-window", btb_window, may_be_zero=True),
        ),
        setup=asked.setups[0],
        mfu=asked.options.mfu,
        answer_blocks=answer_blocks,
    )
    keys = reading(trace_format, block_tokens, time_unit, tie, default_output, skip_bad_rows)
    if out is not None:
        check_folder(out, force)
    with progress_bar(quiet) as progress:
        analyses = [
            _analyze(TraceSpec.model_validate({"source": trace} | keys), options, max_rows, asked.seed, quiet, progress)
            for trace in traces
        ]
        if out is not None:
            write_folder(out, analyses, with_charts=not no_charts, progress=progress)
    _print(analyses, format, details)
    if out is not None and not quiet:
        say(f"analysis in {out}")


def _analyze(
    spec: "TraceSpec", options: "Options", max_rows: int | None, seed: int, quiet: bool, progress: "Progress"
) -> "TraceAnalysis":
    from btbench.analysis.audit import analyze
    from btbench.analysis.prepared import first_requests
    from btbench.cli.replay import oddities
    from btbench.jit import is_compiled
    from btbench.sources import open_trace

    trace = open_trace(spec, Path(), seed=seed, progress=progress)
    if not quiet:
        for text in oddities(trace):
            note(text)
        if not is_compiled("_grow"):
            note("the first analysis on this machine compiles its kernels, once; that takes some seconds")
    return analyze(first_requests(trace, max_rows) if max_rows else trace, options, progress)


def _print(analyses: "list[TraceAnalysis]", format: Format, details: bool) -> None:
    from btbench.cli.trace_report.output import csv_text, json_text, markdown_text, print_screen

    if format is Format.table:
        print_screen(analyses, details, stdout())
    else:
        text = {Format.json: json_text, Format.markdown: markdown_text, Format.csv: csv_text}[format]
        sys.stdout.write(text(analyses))
