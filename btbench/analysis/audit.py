"""The analysis of one trace: every part of it, as one value whose fields are the keys of the JSON file.

Format version 1. A part that a trace does not allow is null, and its `…_why` says what is missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from btbench.analysis.arrivals import (
    Arrivals,
    Peak,
    Ticks,
    arrival_peaks,
    find_ticks,
    measure_arrivals,
    total_span_s,
)
from btbench.analysis.burst_list import BurstList, Candidates, burst_candidates, list_bursts
from btbench.analysis.detection import Detection, try_settings
from btbench.analysis.fanout import Fanout, measure_fanout
from btbench.analysis.groups import group_by_depth
from btbench.analysis.headline import (
    DEEP_BLOCKS,
    DEEP_WINDOW_S,
    PRESENT,
    SHALLOW_BLOCKS,
    DeepSync,
    Shallower,
    ShallowWide,
    deep_sync,
    shallow_wide,
    shallower,
)
from btbench.analysis.lengths import Lengths, measure_lengths
from btbench.analysis.options import Options, blocks_of
from btbench.analysis.prepared import Prepared, prepare
from btbench.analysis.reuse import Reuse, measure_reuse
from btbench.analysis.roots import RootPrefix, common_root_blocks, find_roots, root_nodes
from btbench.progress import Progress, silent
from btbench.trace import Oddity, Trace

VERSION = 1


@dataclass(frozen=True)
class PrefixGroups:
    """Groups of one depth by how many requests they have, over the whole trace."""

    depth_blocks: int
    depth_tokens: int
    requests: int  # of at least this depth
    groups: int
    rank_size: list[int]  # requests of the largest groups: 1st, 2nd, 4th, 8th, …


@dataclass(frozen=True)
class TraceAnalysis:
    """What one trace says."""

    name: str
    source: str
    format: str
    digest: str
    windows: int  # of the trace; each is taken by itself
    requests: int
    requests_with_blocks: int
    block_tokens: int | None
    span_s: float | None
    mean_rate_per_s: float | None
    arrival_peaks: list[Peak]
    ticks: Ticks | None
    root_prefixes: list[RootPrefix]
    without_root: bool
    fanout: list[Fanout] | None
    fanout_why: str | None
    deep_sync: DeepSync | None
    shallower: Shallower | None
    shallow_wide: ShallowWide | None
    prefix_groups: list[PrefixGroups] | None
    bursts: BurstList | None
    btb: list[Detection] | None
    reuse: Reuse | None
    reuse_why: str | None
    lengths: Lengths
    arrivals: Arrivals | None
    arrivals_why: str | None
    oddities: list[Oddity]
    notes: list[str]

    @property
    def root_blocks(self) -> int:
        """Depth down to which the groups hold every prompt of their window; 0 where these are left out."""
        return 0 if self.without_root else common_root_blocks(self.root_prefixes, self.windows)


@dataclass(frozen=True)
class AuditParts:
    """What rests on both times and blocks."""

    fanout: list[Fanout]
    deep_sync: DeepSync
    shallower: Shallower | None
    shallow_wide: ShallowWide
    bursts: BurstList
    btb: list[Detection]


NO_TIMES = "it has no timestamps, so when requests arrive, and with it any burst, cannot be expressed in it"
NO_BLOCKS = "it has no block hashes, so which prompts begin alike cannot be told"


def analyze(trace: Trace, options: Options, progress: Progress = silent) -> TraceAnalysis:
    """Measure a trace. `options.setup` must hold its model: raises CapacityError otherwise."""
    progress("growing the prefix tree", 0, 0)
    prepared = prepare(trace)
    trace = prepared.trace
    span_s = total_span_s(trace) if trace.has_times else 0.0
    why = [reason for missing, reason in ((trace.has_times, NO_TIMES), (trace.has_blocks, NO_BLOCKS)) if not missing]
    parts = _audit(prepared, options, span_s, progress) if not why else None
    progress("measuring reuse", 0, 0)
    reuse = measure_reuse(prepared, options) if trace.has_blocks else None
    progress("measuring arrivals and lengths", 0, 0)
    timed = trace.has_times and len(trace) > 0
    return TraceAnalysis(
        name=trace.name,
        source=trace.source,
        format=trace.format,
        digest=trace.digest,
        windows=len(trace.windows),
        requests=len(trace),
        requests_with_blocks=int((prepared.blocks > 0).sum()),
        block_tokens=trace.block_tokens or None,
        span_s=round(span_s, 9) if timed else None,
        mean_rate_per_s=len(trace) / span_s if span_s > 0 else None,
        arrival_peaks=arrival_peaks(trace, options.windows_s) if timed else [],
        ticks=find_ticks(trace) if timed else None,
        root_prefixes=find_roots(prepared),
        without_root=options.without_root,
        fanout=parts.fanout if parts else None,
        fanout_why=f"same-prefix fan-out cannot be measured in this trace: {'; '.join(why)}" if why else None,
        deep_sync=parts.deep_sync if parts else None,
        shallower=parts.shallower if parts else None,
        shallow_wide=parts.shallow_wide if parts else None,
        prefix_groups=_prefix_groups(prepared, options) if trace.has_blocks else None,
        bursts=parts.bursts if parts else None,
        btb=parts.btb if parts else None,
        reuse=reuse,
        reuse_why=None if reuse else f"reuse cannot be measured in this trace: {NO_BLOCKS}",
        lengths=measure_lengths(prepared),
        arrivals=measure_arrivals(trace) if timed else None,
        arrivals_why=None if timed else f"arrivals cannot be measured in this trace: {NO_TIMES}",
        oddities=list(trace.oddities),
        notes=list(trace.notes),
    )


def _asked_depths(options: Options, block_tokens: int) -> list[int]:
    return sorted({*options.depths_blocks, *(blocks_of(tokens, block_tokens) for tokens in options.depths_tokens)})


def _at_least(depths: Sequence[int], smallest: int) -> list[int]:
    """The depths of the headline among those asked for, or its smallest where there is none."""
    return [depth for depth in depths if depth >= smallest] or [smallest]


def _audit(prepared: Prepared, options: Options, span_s: float, progress: Progress) -> AuditParts:
    asked = _asked_depths(options, prepared.trace.block_tokens)
    deep, shallow = (_at_least(sorted(options.depths_blocks), least) for least in (DEEP_BLOCKS, SHALLOW_BLOCKS))
    root = root_nodes(prepared)
    left_out = root if options.without_root else None
    thresholds = tuple(sorted(set(options.thresholds)))
    with_20 = thresholds if PRESENT in thresholds else (PRESENT,)
    at_least = max(2, thresholds[0])
    cells: list[Fanout] = []
    deep_cells: list[Fanout] = []
    shallow_cells: list[Fanout] = []
    beyond_root: list[Fanout] = []
    candidates: list[Candidates] = []
    depths = sorted({*asked, *deep, *shallow})
    for k, depth in enumerate(depths):
        progress("measuring fan-out", k, len(depths))
        groups = group_by_depth(prepared.tree, prepared.by_time, depth, left_out)

        @cache
        def cell(window_s: float, levels: tuple[int, ...], depth=depth, groups=groups) -> Fanout:  # type: ignore[no-untyped-def]
            return measure_fanout(prepared, groups, depth, window_s, levels, span_s)

        if depth in asked:
            cells += [cell(window_s, thresholds) for window_s in sorted(set(options.windows_s))]
            candidates.append(burst_candidates(prepared, groups, options.burst_window_s, at_least))
        if depth in deep:
            deep_cells.append(cell(DEEP_WINDOW_S, with_20))
        if depth in shallow:
            shallow_cells.append(cell(max(options.windows_s), thresholds))
        if depth < DEEP_BLOCKS:
            others = groups if options.without_root else group_by_depth(prepared.tree, prepared.by_time, depth, root)
            beyond_root.append(measure_fanout(prepared, others, depth, DEEP_WINDOW_S, (PRESENT,), span_s))
    return AuditParts(
        fanout=cells,
        deep_sync=deep_sync(deep_cells),
        shallower=shallower(beyond_root),
        shallow_wide=shallow_wide(shallow_cells),
        bursts=list_bursts(prepared, candidates, at_least, options),
        btb=try_settings(prepared, options.btb, progress),
    )


def _prefix_groups(prepared: Prepared, options: Options) -> list[PrefixGroups]:
    rows = []
    starts, tree = prepared.tree.start_blocks(), prepared.tree
    for depth in _asked_depths(options, prepared.trace.block_tokens):
        in_nodes = tree.requests[(starts < depth) & (tree.end_blocks >= depth)]
        requests = int((prepared.blocks >= depth).sum())
        alone = requests - int(in_nodes.sum())
        sizes = np.sort(np.concatenate([in_nodes, np.ones(alone, np.int32)]))[::-1]
        ranks = 2 ** np.arange(len(sizes).bit_length()) - 1
        tokens = depth * prepared.trace.block_tokens
        rows.append(PrefixGroups(depth, tokens, requests, len(sizes), sizes[ranks].tolist() if len(sizes) else []))
    return rows
