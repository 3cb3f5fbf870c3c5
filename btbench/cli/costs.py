"""`btbench costs`: prefill against moving KV."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from btbench.cli import completion
from btbench.cli.chart_folder import draw_into
from btbench.cli.console import note, stdout
from btbench.cli.costs_tables import long_rows, sheets, shortcomings, si_tables
from btbench.cli.number_lists import counts
from btbench.cli.options import DebugOption, Format, FormatOption, QuietOption
from btbench.cli.plot import ChartsOption, Theme, ThemeOption, chart_formats
from btbench.cli.rows import print_rows

if TYPE_CHECKING:
    from btbench.cluster.costs import KvCosts


def costs(
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="A model.", autocompletion=completion.model_names)
    ] = "llama-3.3-70b",
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="NAME", help="The GPU of the replica.", autocompletion=completion.gpu_names)
    ] = "h100",
    gpus: Annotated[int, typer.Option("--gpus", min=1, metavar="N", help="How many the replica has.")] = 4,
    tokens: Annotated[
        str, typer.Option("--tokens", metavar="N,N,…", help="Lengths of the prefix.")
    ] = "500,1000,2000,8000,16000,32000",
    mfu: Annotated[
        float | None, typer.Option("--mfu", metavar="SHARE", help="Share of the FLOP/s that prefill reaches. [0.5]")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", metavar="NAME", help="Know the models and GPUs of this scenario too, and its MFU."),
    ] = None,
    format: FormatOption = Format.table,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Also draw charts, into this folder.")
    ] = None,
    charts: ChartsOption = "",
    theme: ThemeOption = Theme.light,
    force: Annotated[bool, typer.Option("--force", help="Replace charts that are there.")] = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Show how long it takes to have the KV of a prefix in HBM: by prefill, or moved there.

    From NVMe, over RDMA from another replica, from host RAM; and read in HBM. And when a copy pays.

    \b
    Examples:
      btbench costs
      btbench costs --model kimi-k2 --gpu b200 --gpus 8 --tokens 8000,65536
      btbench costs --out charts --charts svg
    """
    from btbench.errors import UsageError

    lengths = counts("--tokens", tokens)
    known = _known(model, gpu, gpus, mfu, scenario)
    if charts and out is None:
        raise UsageError(f"--charts {charts}: charts need a folder", "Name one with --out.")
    if not quiet:
        for text in shortcomings(known, max(lengths)):
            note(text)
    if out is not None:
        from btbench.charts.costs import draw_costs

        kinds = chart_formats(charts)
        paths = draw_into(out, force, lambda aside: draw_costs(known, lengths, aside, kinds, theme.value))
        if not quiet:
            note(f"charts: {', '.join(map(str, paths))}")
    _print(known, lengths, format)


def _known(model: str, gpu: str, gpus: int, mfu: float | None, scenario: str | None) -> "KvCosts":
    from btbench.cluster.costs import KvCosts
    from btbench.cluster.gpus import GPUS
    from btbench.cluster.models import MODELS
    from btbench.cluster.setup import Replica, ServingOptions
    from btbench.errors import UsageError, nearest
    from btbench.scenario import load_scenario
    from btbench.scenario.tables import LEAST_SHARE

    models, cards, options = dict(MODELS), dict(GPUS), ServingOptions()
    if scenario is not None:
        asked = load_scenario(scenario)
        options = asked.options
        models |= {setup.model.name: setup.model for setup in asked.setups}
        cards |= {replica.gpu.name: replica.gpu for setup in asked.setups for replica in setup.replicas}
    if model not in models:
        raise UsageError(
            f"--model {model}: no such model", f"{nearest(model, list(models))} Your own: --scenario FILE."
        )
    if gpu not in cards:
        raise UsageError(f"--gpu {gpu}: no such GPU", f"{nearest(gpu, list(cards))} Your own: --scenario FILE.")
    share = options.mfu if mfu is None else mfu
    if not LEAST_SHARE <= share <= 1:
        raise UsageError(
            f"--mfu {share:g}: not allowed", f"Allowed: a share of at least {LEAST_SHARE:g} and at most 1."
        )
    return KvCosts(models[model], Replica(f"{gpus} × {gpu}", cards[gpu], gpus), share)


def _print(costs: "KvCosts", lengths: Sequence[int], format: Format) -> None:
    from btbench.results.table import markdown_sheets, render_sheets

    if format is Format.json:
        print_rows(si_tables(costs, lengths), format)
    elif format is Format.csv:
        print_rows({"costs": long_rows(costs, lengths)}, format)
    elif format is Format.markdown:
        print(markdown_sheets(sheets(costs, lengths)), end="")
    else:
        for part in render_sheets(sheets(costs, lengths), stdout().width)[1:]:
            stdout().print(part)
