"""What the intervals of a comparison were drawn from, in words."""

from __future__ import annotations

from collections.abc import Sequence

from btbench.results.bootstrap import LEVEL_WORDS, RESAMPLES
from btbench.results.compare import Change


def interval_notes(changes: Sequence[Change]) -> list[str]:
    """A line on what was drawn, and one on what is wrong with single requests where there are no whole windows."""
    drawn = [change for change in changes if change.interval]
    kinds: dict[tuple[bool, bool], list[Change]] = {}
    for change in drawn:
        kinds.setdefault((change.windows is not None, bool(change.paired)), []).append(change)
    if not kinds:
        return []
    ways = "; of ".join(_drawn_from(of, len(drawn)) for of in kinds.values())
    lines = [f"{LEVEL_WORDS}: of the difference, in % of A; {RESAMPLES:,} bootstrap resamples of {ways}."]
    if any(change.windows is None for change in drawn):
        lines.append("Requests of one burst are drawn as if independent; they are not: the interval is too narrow.")
    return lines


def _drawn_from(of: Sequence[Change], intervals: int) -> str:
    windows, paired = [change.windows for change in of if change.windows], of[0].paired
    a, b = (_span([pair[k] for pair in windows]) for k in (0, 1))
    if paired:
        what = f"{a} windows, requests paired by identity" if windows else "requests paired by identity"
    else:
        what = f"{a} windows of A and {b} of B" if windows else "requests of A and of B"
        what += ", each on their own"
    return what if len(of) == intervals else f"{what}, in {len(of)} of {intervals} rows"


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
