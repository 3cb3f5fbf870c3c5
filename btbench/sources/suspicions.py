"""What looks wrong in a trace though every row can be read: the unit of time, the size of a block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from btbench.sources.formats import FORMATS, UNITS_PER_S
from btbench.trace import Trace

LEAST_RATE_PER_S, MOST_RATE_PER_S = 0.005, 1000.0  # of a trace of requests; known ones have 0.01 to 100
FEWEST_ROWS = 20  # that tell a rate


class Likely(NamedTuple):
    """A block size that the lengths suggest."""

    tokens: int
    fit: float  # share of the rows with blocks whose number of blocks it explains


def likely_block_tokens(trace: Trace) -> Likely | None:
    """The power of two, 1 to 65,536, that explains most rows' number of blocks; None without blocks."""
    blocks = trace.prompt_blocks()
    some = blocks > 0
    if not some.any():
        return None
    blocks, tokens = blocks[some], trace.input_tokens[some]

    def fit(size: int) -> float:
        return float(np.mean((blocks == -(-tokens // size)) | (blocks == tokens // size)))

    best = max((2**k for k in range(17)), key=lambda size: (fit(size), size))
    return Likely(best, fit(best)) if fit(best) > 0 else None


def longest_span_s(trace: Trace) -> float:
    """From the first to the last arrival of the longest window."""
    return max(float(trace.arrival_s[w.stop - 1] - trace.arrival_s[w.start]) for w in trace.windows)


def wrong_unit(trace: Trace, asked: str | None) -> list[str]:
    """A suspicion where the rate is that of no real trace, and another unit of time would make it one."""
    unit = asked or next((f.unit for f in FORMATS if f.name == trace.format), None)
    span_s = longest_span_s(trace)
    if unit not in UNITS_PER_S or len(trace) < FEWEST_ROWS or len(trace.windows) > 1 or span_s == 0:
        return []
    rate = len(trace) / span_s
    if LEAST_RATE_PER_S <= rate <= MOST_RATE_PER_S:
        return []
    for other, units_per_s in UNITS_PER_S.items():
        if LEAST_RATE_PER_S <= rate * units_per_s / UNITS_PER_S[unit] <= MOST_RATE_PER_S:
            return [f"times look like {other}, not {unit}: {rate:.3g} requests/s on average; --time-unit {other}"]
    return [f"times look odd: {rate:.3g} requests/s on average"]
