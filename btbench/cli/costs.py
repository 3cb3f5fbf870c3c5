"""`btbench costs`: prefill against moving KV."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from btbench.cli.console import note, stdout
from btbench.cli.number_lists import counts
from btbench.cli.options import DebugOption, Format, FormatOption, QuietOption
from btbench.cli.plot import ChartsOption, Theme, ThemeOption, chart_formats
from btbench.cli.rows import Rows, Value, print_rows

if TYPE_CHECKING:
    from btbench.cluster.costs import KvCosts
    from btbench.results.sheets import Sheet


def costs(
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="A model.")] = "llama-3.3-70b",
    gpu: Annotated[str, typer.Option("--gpu", metavar="NAME", help="The GPU of the replica.")] = "h100",
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
    lengths = counts("--tokens", tokens)
    known = _known(model, gpu, gpus, mfu, scenario)
    if not quiet:
        for text in _shortcomings(known, max(lengths)):
            note(text)
    _print(known, lengths, format)
    if out is not None:
        from btbench.charts.costs import draw_costs

        paths = draw_costs(known, lengths, out, chart_formats(charts), theme.value)
        if not quiet:
            note(f"charts: {', '.join(map(str, paths))}")


def _known(model: str, gpu: str, gpus: int, mfu: float | None, scenario: str | None) -> "KvCosts":
    from btbench.cluster.costs import KvCosts
    from btbench.cluster.gpus import GPUS
    from btbench.cluster.models import MODELS
    from btbench.cluster.setup import Replica, ServingOptions
    from btbench.errors import UsageError, nearest
    from btbench.scenario import load_scenario

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
    if not 0 < share <= 1:
        raise UsageError(f"--mfu {share:g}: not a share", "Allowed: a number above 0 and at most 1.")
    return KvCosts(models[model], Replica(f"{gpus} × {gpu}", cards[gpu], gpus), share)


def _shortcomings(costs: "KvCosts", tokens: int) -> list[str]:
    """What the replica has no room for, though the times can be told."""
    model, replica = costs.model, costs.replica
    room = replica.hbm_bytes - model.weight_bytes
    if room < 0:
        return [f"the weights of {model.name} do not fit {replica.name}, {-room / 1e9:,.1f} GB short"]
    if tokens * model.kv_bytes_per_token > room:
        return [f"beside the weights {replica.name} has room for {room / model.kv_bytes_per_token:,.0f} tokens only"]
    return []


def _tables(costs: "KvCosts", lengths: Sequence[int]) -> dict[str, Rows]:
    """Everything in SI units and full precision, for programs."""
    from btbench.cluster.costs import TIERS

    return {
        "times": [
            {"tokens": n, "prefill_s": costs.prefill_s(n)} | {f"{tier}_s": costs.move_s(tier, n) for tier in TIERS}
            for n in lengths
        ],
        "tiers": [
            {
                "tier": tier,
                "bandwidth_bytes_per_s": costs.bandwidth_bytes_per_s(tier),
                "prefill_over_move": costs.prefill_over_move(tier),
                "break_even_reuses": costs.break_even_reuses(tier),
                "break_even_mean_reuses": costs.mean_reuses(tier),
            }
            for tier in TIERS
        ],
        "setup": [
            {
                "model": costs.model.name,
                "gpu": costs.replica.gpu.name,
                "gpus": costs.replica.gpus,
                "mfu": costs.mfu,
                "kv_bytes_per_token": costs.model.kv_bytes_per_token,
                "prefill_s_per_token": costs.prefill_s(1),
                "break_even_bytes_per_s": costs.break_even_bytes_per_s,
            }
        ],
    }


def _long_rows(costs: "KvCosts", lengths: Sequence[int]) -> Rows:
    """The same as one table, a number a row: `way` is prefill or a tier, empty for what is of the setup."""
    tables = _tables(costs, lengths)
    of = {key: tables["setup"][0][key] for key in ("model", "gpu", "gpus", "mfu")}
    cells: list[tuple[Value, Value, str, Value]] = []
    for row in tables["times"]:
        cells += [(key.removesuffix("_s"), row["tokens"], "time_s", row[key]) for key in row if key != "tokens"]
    for row in tables["tiers"]:
        cells += [(row["tier"], None, key, row[key]) for key in row if key != "tier"]
    cells += [(None, None, key, value) for key, value in tables["setup"][0].items() if key not in of]
    return [of | dict(zip(("way", "tokens", "metric", "value"), cell, strict=True)) for cell in cells]


def _sheets(costs: "KvCosts", lengths: Sequence[int]) -> "list[Sheet]":
    """The same for people."""
    from btbench.cluster.costs import TIERS
    from btbench.results import numbers
    from btbench.results.sheets import Cell, Column, Line, Sheet

    heads = {"disk": "NVMe", "rdma": "RDMA", "ram": "host RAM", "hbm": "HBM"}
    replica = f"{costs.model.name} on {costs.replica.name}"
    times = [
        Line(f"{n:,} tokens", tuple(Cell(_ms(s)) for s in (costs.prefill_s(n), *(costs.move_s(t, n) for t in TIERS))))
        for n in lengths
    ]
    ways = [
        Line(
            heads[tier],
            (
                Cell(f"{numbers.size(costs.bandwidth_bytes_per_s(tier))}/s"),
                Cell(f"{numbers.digits(costs.prefill_over_move(tier))}x"),
                Cell(f"{costs.break_even_reuses(tier):,}"),
                Cell(f"{costs.mean_reuses(tier):.2g}"),
            ),
        )
        for tier in TIERS
    ]
    first = f"{numbers.size(costs.break_even_bytes_per_s)}/s"
    return [
        Sheet(
            "Time to have the KV of a prefix in HBM, in ms",
            tuple(Column(name) for name in ("prefill", *heads.values())),
            ((replica, tuple(times)),),
            f"Prefill: 2 × active parameters × tokens / (FLOP/s × MFU {costs.mfu:g}). Moving: KV bytes "
            f"({numbers.size(costs.model.kv_bytes_per_token)} a token) / bandwidth of the tier; HBM: reading it there.",
            ("replica", "tokens"),
        ),
        Sheet(
            "When a copy pays",
            tuple(Column(name) for name in ("bandwidth", "prefill\n/ move", "reuses\nto pay", "mean reuses\nto pay")),
            ((replica, tuple(ways)),),
            "A request that finds a copy is spared one prefill. One copy has paid with the first reuse r for which "
            "r × prefill ≥ move; many copies pay where each is found by more than move / prefill requests on average, "
            f"so that some may stay unused. From {first} on (KV bytes a token / prefill time a token) a copy pays with "
            "its first reuse.",
            ("replica", "tier"),
        ),
    ]


def _ms(seconds: float) -> str:
    """One decimal, below 1 ms three significant digits: 571.1, 0.196."""
    return f"{seconds * 1e3:,.1f}" if seconds >= 1e-3 else f"{seconds * 1e3:.3g}"


def _print(costs: "KvCosts", lengths: Sequence[int], format: Format) -> None:
    from btbench.results.table import markdown_sheets, render_sheets

    if format is Format.json:
        print_rows(_tables(costs, lengths), format)
    elif format is Format.csv:
        print_rows({"costs": _long_rows(costs, lengths)}, format)
    elif format is Format.markdown:
        print(markdown_sheets(_sheets(costs, lengths)), end="")
    else:
        for part in render_sheets(_sheets(costs, lengths), stdout().width)[1:]:
            stdout().print(part)
