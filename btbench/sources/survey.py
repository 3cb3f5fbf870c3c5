"""What one pass over a trace tells of it: size, oddities, what looks wrong, what a replay would do."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.sources.formats import FORMATS
from btbench.sources.packing import Whole
from btbench.sources.settle import settle, tied_rows
from btbench.sources.suspicions import likely_block_tokens, longest_span_s
from btbench.trace import Oddity, Trace
from btbench.trace_spec import TraceSpec

TIED_SHARE = 0.01  # of requests at equal times, above which it is worth a note


class Survey(NamedTuple):
    """A trace at a glance."""

    facts: dict[str, Any]  # text and numbers, units in the keys; None is unknown
    oddities: tuple[Oddity, ...]
    notes: tuple[str, ...]  # what looks wrong, or was settled by an option
    replay: tuple[str, ...]  # what a replay would do


def survey(whole: Whole, spec: TraceSpec) -> Survey:
    """A packed source as the options would have it read. Raises ScenarioError where windows do not fit."""
    trace = settle(whole, spec, needs_block_tokens=False)
    facts = _facts(trace)
    notes = trace.notes
    if facts["tied_share"] and facts["tied_share"] > TIED_SHARE:
        tied = f"{facts['tied_arrivals']:,} requests ({facts['tied_share']:.1%}) arrive at the same time as another"
        notes = (*notes, f"{tied}: the clock is coarse; --tie spread deals them evenly over its tick")
    return Survey(facts, trace.oddities, notes, tuple(_plan(trace)))


def _facts(trace: Trace) -> dict[str, Any]:
    blocks = trace.prompt_blocks()
    span_s = longest_span_s(trace) if trace.has_times else None
    tied = tied_rows(trace) if trace.has_times else None
    return {
        "name": trace.name,
        "format": next((f.title for f in FORMATS if f.name == trace.format), trace.format),
        "requests": len(trace),
        "windows": len(trace.windows),
        "span_s": span_s,
        "mean_rate_per_s": len(trace) / span_s if span_s and len(trace.windows) == 1 else None,
        "tied_arrivals": tied,
        "tied_share": tied / len(trace) if tied is not None else None,
        "mean_input_tokens": float(trace.input_tokens.mean()),
        "max_input_tokens": int(trace.input_tokens.max()),
        "mean_output_tokens": float(trace.output_tokens.mean()),
        "max_output_tokens": int(trace.output_tokens.max()),
        "block_tokens": trace.block_tokens or None,
        "prompt_blocks": int(blocks.sum()) if trace.has_blocks else None,
        "requests_with_blocks": int((blocks > 0).sum()) if trace.has_blocks else None,
        "sessions": _distinct(trace.session),
        "users": _distinct(trace.user),
        "digest": trace.digest,
    }


def _distinct(numbers: npt.NDArray[Any] | None) -> int | None:
    return None if numbers is None else len(np.unique(numbers[numbers >= 0]))


def _plan(trace: Trace) -> list[str]:
    """What a replay would do, in sentences."""
    if not trace.has_times:
        return ["cannot be replayed: the trace has no times"]
    if not trace.block_tokens:
        return [_without_block_tokens(trace)]
    lengths = [window.stop - window.start for window in trace.windows]
    if len(lengths) == 1:
        plan = [f"one window of {lengths[0]:,} requests"]
    else:
        size = f"{min(lengths):,}" if min(lengths) == max(lengths) else f"{min(lengths):,} to {max(lengths):,}"
        plan = [f"{len(lengths):,} windows of {size} requests, each on a fresh cluster"]
    labels = Counter(window.label for window in trace.windows if window.label)
    if labels:
        plan.append("windows by part: " + ", ".join(f"{count:,} {name}" for name, count in labels.items()))
    if not trace.has_blocks:
        plan.append("no prompt shares a prefix with another: the trace has no block ids")
    return plan


def _without_block_tokens(trace: Trace) -> str:
    wanted = "needs the block size: block_tokens in [trace], or --block-tokens"
    likely = likely_block_tokens(trace) if trace.has_blocks else None
    if likely is not None:
        return f"{wanted}; {likely.tokens} fits {likely.fit:.0%} of the rows"
    return f"{wanted}; the trace has no block ids, so any will do that the replica's memory has room for"
