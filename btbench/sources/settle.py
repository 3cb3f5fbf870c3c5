"""The last steps from a packed source to the trace asked for: ties, block size, windows, arrival scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from btbench.errors import TraceError
from btbench.sources.oddities import Tally
from btbench.sources.packing import Whole
from btbench.sources.suspicions import likely_block_tokens, wrong_unit
from btbench.sources.windows import cut_windows, is_cut
from btbench.trace import Trace
from btbench.trace_spec import TraceSpec


def settle(whole: Whole, spec: TraceSpec, *, needs_block_tokens: bool = True) -> Trace:
    """The trace asked for.

    Raises TraceError where its block size is needed and not told, ScenarioError where windows do not fit.
    """
    trace = whole.trace.with_changes(notes=(*whole.trace.notes, *wrong_unit(whole.trace, spec.time_unit)))
    if spec.tie == "spread":
        trace = spread_ties(trace)
    if needs_block_tokens or spec.block_tokens or trace.block_tokens:
        trace = with_block_tokens(trace, whole.row, spec.block_tokens)
    if spec.windows is not None and is_cut(spec.windows):
        trace = cut_windows(trace, spec.windows)
    return trace.scaled(spec.arrival_scale)


def with_block_tokens(trace: Trace, row: npt.NDArray[np.int64], asked: int | None) -> Trace:
    """The block size as asked, else as the format has it; rows whose blocks do not fit their input are counted."""
    told = trace.block_tokens
    tokens = asked or told
    if not trace.has_blocks:
        return trace.with_changes(block_tokens=tokens)
    if not tokens:
        likely = likely_block_tokens(trace)
        raise TraceError(
            f"{trace.source or trace.name}: the trace does not tell how many tokens a block has.",
            "block_tokens in [trace] (--block-tokens) says it"
            + (f"; {likely.fit:.0%} of the rows fit {likely.tokens}." if likely else "."),
        )
    notes = trace.notes
    if asked and told and asked != told:
        notes = (*notes, f"block_tokens = {asked} as asked, where {trace.format} traces have {told}")
    tally = Tally()
    blocks = trace.prompt_blocks()
    more = blocks > -(-trace.input_tokens // tokens)
    fewer = (blocks < trace.input_tokens // tokens) & (blocks > 0)
    tally.add_where("more blocks than the input holds", "kept", more, row)
    tally.add_where("fewer blocks than the input fills", "kept", fewer, row)
    if 2 * (more | fewer).sum() > len(trace):
        likely = likely_block_tokens(trace)
        if likely is not None and likely.fit > 0.9:
            notes = (
                *notes,
                f"blocks look like {likely.tokens} tokens ({likely.fit:.0%} of the rows fit), not {tokens}",
            )
    return trace.with_changes(block_tokens=tokens, notes=notes, oddities=trace.oddities + tally.oddities())


def tied_rows(trace: Trace) -> int:
    """Requests that share their arrival time with another of their window."""
    total = 0
    for window in trace.windows:
        _, counts = np.unique(trace.arrival_s[window.start : window.stop], return_counts=True)
        total += int(counts[counts > 1].sum())
    return total


def spread_ties(trace: Trace) -> Trace:
    """Equal arrival times dealt evenly over the tick of the clock, in row order.

    The k requests at one time move to `time + tick × i / k`; the tick is the time to the next distinct arrival, at most
    the median of those times in the window.
    """
    arrival_s = trace.arrival_s.copy()
    ticks = []
    for window in trace.windows:
        part = arrival_s[window.start : window.stop]
        times, first, counts = np.unique(part, return_index=True, return_counts=True)
        if len(times) < 2:
            continue
        gaps = np.diff(times)
        median = float(np.median(gaps))
        ticks.append(median)
        tick = np.minimum(np.append(gaps, median), median)
        place = np.arange(len(part)) - np.repeat(first, counts)
        part += np.repeat(tick / counts, counts) * place
    if not ticks:
        return trace
    share = tied_rows(trace) / len(trace)
    note = f"{share:.1%} of the requests share an arrival time; dealt evenly over ticks of about {np.median(ticks):g} s"
    return trace.with_changes(arrival_s=arrival_s, notes=(*trace.notes, note))
