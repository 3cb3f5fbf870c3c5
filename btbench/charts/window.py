"""One window of a trace on one setup: who was where and when, under each policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from btbench.charts.view import View
from btbench.errors import OutputError, UsageError, nearest
from btbench.results.files import AGAIN, REQUESTS
from btbench.results.requests import COPY_SCHEMA

Array = npt.NDArray[np.float64]


class Copied(NamedTuple):
    """One entry a copy; moments in seconds of the window."""

    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    start_s: Array
    ready_s: Array
    used: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Replayed:
    """One window under one policy, one entry a request served, in arrival order; moments in seconds of the window."""

    request: npt.NDArray[np.int64]  # its place in the window
    replica: npt.NDArray[np.int64]
    arrival_s: Array
    start_s: Array  # admission: the end of the queue wait
    loaded_s: Array  # start + reuse
    first_token_s: Array  # start + reuse + prefill
    finish_s: Array
    input_tokens: npt.NDArray[np.int64]
    hit_tokens: npt.NDArray[np.int64]
    copied: Copied


@dataclass(frozen=True)
class Choice:
    """What a timeline is to show; None is what shows the most (`read_window`)."""

    setup: str | None = None
    window: str | None = None
    span_s: tuple[float, float] | None = None  # in seconds of the window


WHOLE = Choice()


@dataclass(frozen=True)
class WindowView:
    """What is known of one window on one setup."""

    setup: str
    window: str
    replicas: list[str]  # names, in cluster order
    policies: dict[str, Replayed]
    span_s: tuple[float, float]  # what is to be shown of it

    @property
    def arrival_s(self) -> Array:
        """Arrivals: those of the policy that turned fewest away."""
        return max((replayed.arrival_s for replayed in self.policies.values()), key=len)


_COLUMNS = (
    "policy",
    "request",
    "replica",
    "arrival_s",
    "start_s",
    "reuse_s",
    "prefill_s",
    "finish_s",
    "input_tokens",
    "hit_tokens",
)


def need_window(view: View, choice: Choice) -> WindowView:
    """`read_window`, and OutputError where the result holds no requests."""
    shown = read_window(view, choice)
    if shown is None:
        raise OutputError(
            f"{view.result.folder} holds no {REQUESTS}, which this needs",
            AGAIN,
        )
    return shown


def read_window(view: View, choice: Choice) -> WindowView | None:
    """The window chosen; else, of the first setup, the window in which the baseline's mean TTFT is longest, whole.

    None where the result holds no requests. Raises UsageError where a name is unknown or the span holds nothing.
    """
    requests = view.requests()
    if requests is None:
        return None
    setups = view.result.setups
    setup = choice.setup or setups[0]
    if setup not in setups:
        raise UsageError(f"no such setup in this result: {setup!r}", nearest(setup, setups))
    here = requests.filter(pl.col("setup") == setup)
    window = _choose(here, choice.window, view.baseline or view.result.policies[0])
    rows = here.filter(pl.col("window") == window).select(_COLUMNS).collect()
    every_copy = view.copies()
    copies = (COPY_SCHEMA.to_frame().lazy() if every_copy is None else every_copy).filter(
        (pl.col("setup") == setup) & (pl.col("window") == window)
    )
    copied = copies.collect()
    policies = {
        str(policy): _replayed(part, copied.filter(pl.col("policy") == policy))
        for (policy,), part in rows.partition_by("policy", as_dict=True, maintain_order=True).items()
    }
    whole = float(rows["arrival_s"].to_numpy().min()), float(rows["finish_s"].to_numpy().max())
    return WindowView(setup, window, _replica_names(view, setup, rows), policies, _clip(choice.span_s, whole))


def _clip(span_s: tuple[float, float] | None, whole: tuple[float, float]) -> tuple[float, float]:
    """The part of the window that a span covers."""
    if span_s is None:
        return whole
    first, last = max(span_s[0], whole[0]), min(span_s[1], whole[1])
    if not first < last:
        raise UsageError(
            f"the span {span_s[0]:g}:{span_s[1]:g} holds nothing of the window",
            f"The window lasts from {whole[0]:g} to {whole[1]:g} s.",
        )
    return first, last


def _choose(requests: pl.LazyFrame, window: str | None, baseline: str) -> str:
    if window is not None:
        known = requests.select(pl.col("window").unique(maintain_order=True)).collect().to_series().to_list()
        if window not in known:
            raise UsageError(
                f"no such window in this result: {window!r}", nearest(window, known[:20] if len(known) > 20 else known)
            )
        return window
    means = (
        requests.filter(pl.col("policy") == baseline)
        .group_by("window", maintain_order=True)
        .agg(pl.col("ttft_s").mean())
        .collect()
    )
    return str(means["window"][int(means["ttft_s"].arg_max() or 0)])


def _replayed(rows: pl.DataFrame, copies: pl.DataFrame) -> Replayed:
    def column(name: str) -> Array:
        return np.asarray(rows[name].to_numpy(), np.float64)

    return Replayed(
        request=rows["request"].to_numpy(),
        replica=rows["replica"].to_numpy(),
        arrival_s=column("arrival_s"),
        start_s=column("start_s"),
        loaded_s=column("start_s") + column("reuse_s"),
        first_token_s=column("start_s") + column("reuse_s") + column("prefill_s"),
        finish_s=column("finish_s"),
        input_tokens=rows["input_tokens"].to_numpy(),
        hit_tokens=rows["hit_tokens"].to_numpy(),
        copied=Copied(*(copies[name].to_numpy() for name in Copied._fields)),
    )


def _replica_names(view: View, setup: str, rows: pl.DataFrame) -> list[str]:
    """As the scenario names them; where it is not there, as many as served a request."""
    if view.scenario is not None:
        for known in view.scenario.setups:
            if known.name == setup:
                return [replica.name for replica in known.replicas]
    return [f"node{k}" for k in range(int(rows["replica"].to_numpy().max()) + 1)]
