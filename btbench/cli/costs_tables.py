"""What `btbench costs` says: its tables for programs and for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from btbench.cli.rows import Rows, Value

if TYPE_CHECKING:
    from btbench.cluster.costs import KvCosts
    from btbench.results.sheets import Sheet


def shortcomings(costs: "KvCosts", tokens: int) -> list[str]:
    """What the replica has no room for, though the times can be told."""
    model, replica = costs.model, costs.replica
    room = replica.hbm_bytes - model.weight_bytes
    if room < 0:
        return [f"the weights of {model.name} do not fit {replica.name}, {-room / 1e9:,.1f} GB short"]
    if tokens * model.kv_bytes_per_token > room:
        return [f"beside the weights {replica.name} has room for {room / model.kv_bytes_per_token:,.0f} tokens only"]
    return []


def si_tables(costs: "KvCosts", lengths: Sequence[int]) -> dict[str, Rows]:
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


def long_rows(costs: "KvCosts", lengths: Sequence[int]) -> Rows:
    """The same as one table, a number a row: `way` is prefill or a tier, empty for what is of the setup."""
    tables = si_tables(costs, lengths)
    of = {key: tables["setup"][0][key] for key in ("model", "gpu", "gpus", "mfu")}
    cells: list[tuple[Value, Value, str, Value]] = []
    for row in tables["times"]:
        cells += [(key.removesuffix("_s"), row["tokens"], "time_s", row[key]) for key in row if key != "tokens"]
    for row in tables["tiers"]:
        cells += [(row["tier"], None, key, row[key]) for key in row if key != "tier"]
    cells += [(None, None, key, value) for key, value in tables["setup"][0].items() if key not in of]
    return [of | dict(zip(("way", "tokens", "metric", "value"), cell, strict=True)) for cell in cells]


def sheets(costs: "KvCosts", lengths: Sequence[int]) -> "list[Sheet]":
    """The same for people."""
    from btbench.cluster.costs import TIERS
    from btbench.results import numbers
    from btbench.results.sheets import Cell, Column, Line, Sheet

    heads = {"disk": "NVMe", "rdma": "RDMA", "ram": "host RAM", "hbm": "HBM"}
    replica = f"{costs.model.name} on {costs.replica.name}"
    times = [
        Line(
            f"{n:,} token{'s' if n != 1 else ''}",
            tuple(Cell(_ms(s)) for s in (costs.prefill_s(n), *(costs.move_s(t, n) for t in TIERS))),
        )
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
