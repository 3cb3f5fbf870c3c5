"""Bars in steps of the colour of a policy: mean TTFT by what it is spent on, input tokens by where they were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from btbench.charts.findings import best_policy, names, percents, tenths
from btbench.charts.layout import text_width_in
from btbench.charts.lines import Key, Lines, fit, line_chart
from btbench.charts.palette import tint
from btbench.charts.view import View
from btbench.results import numbers


class Step(NamedTuple):
    """One part of a bar: its name, how strong the policy's colour is in it (0 is the page), and a hatch."""

    name: str
    strength: float
    hatch: str = ""


def split_chart(view: View) -> Figure:
    """Mean TTFT as queue wait, reuse and prefill, in % of the slowest policy of the setup; the whole is printed."""
    steps = (Step("queue wait", 1.0), Step("reuse", 0.6, "////"), Step("prefill", 0.4))
    slowest: dict[str, float] = {}
    for (setup, _), row in view.rows.items():
        slowest[setup] = max(slowest.get(setup, 0.0), float(row["mean_ttft_s"] or 0.0))
    shares = {
        key: [float(row[f"mean_{name}_s"] or 0) / (slowest[key[0]] or 1) for name in ("queue", "reuse", "prefill")]
        for key, row in view.rows.items()
    }
    texts = {key: numbers.duration(row["mean_ttft_s"]) for key, row in view.rows.items()}
    lines = line_chart(view, shares, [""], _split_title(view))
    draw_shares(view, lines, steps, shares, texts)
    lines.panels[0].set_xlabel("mean TTFT, % of the setup's slowest policy")
    return lines.figure


def _split_title(view: View) -> str:
    said: list[str] = []
    for policy in dict.fromkeys(name for name in (view.baseline, best_policy(view)) if name):
        waits = [
            100 * float(row["mean_queue_s"] or 0) / float(row["mean_ttft_s"] or 1)
            for (_, other), row in view.rows.items()
            if other == policy
        ]
        said += (
            [f"{percents(min(waits), max(waits))} {'of mean TTFT ' if not said else ''}under {policy}"] if waits else []
        )
    return f"Waiting in queues is {names(said)}"


def hits_chart(view: View) -> Figure:
    """Input tokens by the tier of the request that found them, and those found nowhere."""
    steps = (Step("HBM", 1.0), Step("RAM", 0.6, "////"), Step("disk", 0.4, "...."), Step("not found", 0.08))
    shares, texts = {}, {}
    for key, row in view.rows.items():
        found = [float(row[f"{tier}_hit_rate"] or 0) for tier in ("hbm", "ram", "disk")]
        shares[key] = [*found, 1 - float(row["hit_rate"] or 0)]
        texts[key] = f"{numbers.share(row['hit_rate'])} found"
    shown = [k for k in range(len(steps)) if k in (0, 3) or any(share[k] for share in shares.values())]
    lines = line_chart(view, shares, [""], _hits_title(view))
    chosen = {key: [share[k] for k in shown] for key, share in shares.items()}
    draw_shares(view, lines, [steps[k] for k in shown], chosen, texts)
    lines.panels[0].set_xlabel("% of the input tokens, by where their KV was found")
    return lines.figure


def _hits_title(view: View) -> str:
    said: list[str] = []
    for policy in dict.fromkeys(name for name in (best_policy(view), view.baseline) if name):
        rates = [100 * float(row["hit_rate"] or 0) for (_, other), row in view.rows.items() if other == policy]
        said.append(f"{policy} {'finds ' if not said else ''}{tenths(rates)}")
    return f"{said[0]} of the input tokens in a cache{', ' if said[1:] else ''}{names(said[1:]) if said[1:] else ''}"


def draw_shares(
    view: View,
    lines: Lines,
    steps: Sequence[Step],
    shares: Mapping[Key, Sequence[float]],
    texts: Mapping[Key, str],
) -> None:
    """Bars of shares of 1, on an axis in %."""
    panel = lines.panels[0]
    draw_bars(view, lines, steps, shares, texts, 1.0)
    panel.set_xticks([0, 0.25, 0.5, 0.75, 1])
    panel.xaxis.set_major_formatter(PercentFormatter(1, 0, symbol=""))


def draw_bars(
    view: View,
    lines: Lines,
    steps: Sequence[Step],
    values: Mapping[Key, Sequence[float]],
    texts: Mapping[Key, str],
    longest: float,
) -> None:
    """A bar for each key: its values one behind the other, its text at the end; the steps in a legend above."""
    panel = lines.panels[0]
    for key, parts in values.items():
        colour, left = view.marks[key[1]].colour, 0.0
        for step, part in zip(steps, parts, strict=True):
            panel.barh(
                lines.places[key], part, 0.74, left, color=tint(colour, view.theme, step.strength), hatch=step.hatch,
                edgecolor=colour, linewidth=0.6 if part else 0,
            )  # fmt: skip
            left += part
        panel.annotate(
            texts[key], (left, lines.places[key]), (5, 0), textcoords="offset points", va="center_baseline",
            size=lines.size,
        )  # fmt: skip
    fit(panel, 0, longest, after_in=text_width_in(texts.values(), lines.size) + 0.15)
    grey = view.theme.soft
    patches = [
        Patch(facecolor=tint(grey, view.theme, s.strength), edgecolor=grey, hatch=s.hatch, label=s.name) for s in steps
    ]
    height_in = panel.get_position().height * lines.figure.get_figheight()
    panel.legend(
        handles=patches, loc="lower left", bbox_to_anchor=(-0.01, 1 + lines.above_in / height_in), ncols=len(steps),
        borderaxespad=0.1,
    )  # fmt: skip
