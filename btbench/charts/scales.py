"""Axes over many orders of magnitude, with ticks that are written as people say them."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil, floor, log10
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from btbench.results import numbers

TICKS = 7  # at most so many on an axis


def log_axis(
    axes: Axes, which: Literal["x", "y"], low: float, high: float, text: Callable[[float], str], ticks: int = TICKS
) -> None:
    """Make one axis logarithmic, from `low` to `high`, its ticks written by `text`; none juts out."""
    margin = (high / low) ** 0.04
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(log_ticks(low * margin, high / margin, ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_locator(NullLocator())


def log_ticks(low: float, high: float, most: int = TICKS) -> list[float]:
    """Round numbers from `low` to `high`, at most `most`: 1, 2, 5 of each decade, else every first, second … decade."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    fine = [step * 10.0**k for k in decades for step in (1, 2, 5) if low <= step * 10.0**k <= high]
    if len(fine) <= most:
        return fine
    whole = [10.0**k for k in decades if low <= 10.0**k <= high]
    return whole[:: ceil(len(whole) / most)]


def around(values: list[float], below: float = 1.6, above: float = 1.6) -> tuple[float, float]:
    """Limits of a log axis that holds all positive `values`, with room on both sides as factors; at least a decade."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive), max(positive)
    lacking = max(1.0, (10.0 / (high / low)) ** 0.5)
    return low / lacking / below, high * lacking * above


def tick_duration(seconds: float) -> str:
    """200 ns, 10 ms, 1 s, 1,000 s."""
    if 0 < seconds < 0.9995e-6:
        return f"{seconds * 1e9:.3g} ns"
    return _without_zeros(numbers.duration(seconds))


def tick_size(bytes_: float) -> str:
    """10 GB, 1 TB."""
    return _without_zeros(numbers.size(bytes_))


def tick_count(value: float) -> str:
    """0.01, 1, 10,000."""
    return f"{value:,g}" if value < 1e4 else f"{value:,.0f}"


def _without_zeros(text: str) -> str:
    return re.sub(r"(\.\d*?)0+(?=\s)", r"\1", text).replace(". ", " ")
