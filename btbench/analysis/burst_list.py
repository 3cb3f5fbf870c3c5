"""The bursts of a trace one by one: when, how many, what they share, and what prefilling it each time costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.analysis.bursts import Kinds, Spells, find_bursts
from btbench.analysis.fanout import Kind
from btbench.analysis.groups import Groups
from btbench.analysis.options import Options
from btbench.analysis.prepared import Prepared, count_known
from btbench.jit import kernel

MOST_LISTED = 2000  # events of the timeline


@dataclass(frozen=True)
class Burst:
    """Requests of one group within one window of time."""

    prefix: str  # <window>/<request>[:<blocks>]: the first so many blocks of that request of that trace window
    window: str
    first_request: int  # position in the window
    requests: int
    start_s: float
    span_s: float
    shared_blocks: int  # blocks that all of them begin with
    shared_tokens: int
    input_tokens: int  # of all of them
    repeated_tokens: int  # shared tokens of all but the first: what a cluster without the prefix prefills again
    kind: Kind  # by the length rule
    chain_kind: Kind  # by the block rule
    distinct_times: int
    sessions: int | None
    users: int | None
    prefill_once_s: float | None  # the shared tokens, on the first replica of the setup
    prefill_each_s: float | None  # the same for every request


@dataclass(frozen=True)
class Timeline:
    """All listed bursts as columns, in order of time; windows of the trace laid end to end."""

    start_s: list[float]
    requests: list[int]
    shared_tokens: list[int]


@dataclass(frozen=True)
class BurstList:
    """Bursts within `window_s`, at any of the depths asked for, each event once, under the deepest prefix that pays."""

    window_s: float
    at_least: int
    found: int  # listed in all; at most 2,000
    top: list[Burst]  # the most repeated tokens first
    timeline: Timeline


class Candidates(NamedTuple):
    """The bursts of one depth."""

    groups: Groups
    spells: Spells
    kinds: Kinds
    shared_blocks: npt.NDArray[np.int64]


@kernel
def _shared_depth(first, last, members, offsets, path, end_blocks):  # type: ignore[no-untyped-def]
    """Blocks that all requests of each spell begin with."""
    shared = np.zeros(len(first), np.int64)
    for s in range(len(first)):
        begin = offsets[members[first[s]]]
        common = offsets[members[first[s]] + 1] - begin
        for j in range(first[s] + 1, last[s] + 1):
            other = offsets[members[j]]
            common = min(common, offsets[members[j] + 1] - other)
            same = common  # paths of a tree that meet at a node came there the same way: search where they part
            low = 0
            while low < same:
                middle = (low + same) // 2
                if path[begin + middle] == path[other + middle]:
                    low = middle + 1
                else:
                    same = middle
            common = low
        if common > 0:
            shared[s] = end_blocks[path[begin + common - 1]]
    return shared


def burst_candidates(prepared: Prepared, groups: Groups, window_s: float, at_least: int) -> Candidates:
    """All bursts of one depth."""
    _, spells = find_bursts(groups, prepared.trace.arrival_s, window_s, at_least)
    tree = prepared.tree
    shared = _shared_depth(spells.first, spells.last, groups.members, tree.offsets, tree.path, tree.end_blocks)
    return Candidates(groups, spells, prepared.kinds(groups, spells), shared)


def list_bursts(prepared: Prepared, by_depth: Sequence[Candidates], at_least: int, options: Options) -> BurstList:
    """Rank the bursts of all depths by repeated tokens; one that mostly holds requests of a better one is left out."""
    cost = [(one.spells.size - 1) * one.shared_blocks for one in by_depth]
    depth = np.repeat(np.arange(len(by_depth)), [len(c) for c in cost])
    place = np.concatenate([np.arange(len(c)) for c in cost]) if cost else np.empty(0, np.int64)
    order = np.argsort(-np.concatenate(cost), kind="stable") if cost else place
    taken = np.zeros(len(prepared.trace), np.bool_)
    listed: list[tuple[int, int]] = []
    for k in order:
        one, s = by_depth[depth[k]], int(place[k])
        members = one.groups.members[one.spells.first[s] : one.spells.last[s] + 1]
        if 2 * int(taken[members].sum()) >= len(members):
            continue
        taken[members] = True
        listed.append((int(depth[k]), s))
        if len(listed) == MOST_LISTED:
            break
    return BurstList(
        window_s=options.burst_window_s,
        at_least=at_least,
        found=len(listed),
        top=[_describe(prepared, by_depth[d], s, options) for d, s in listed[: options.top]],
        timeline=_timeline(prepared, [(by_depth[d], s) for d, s in listed]),
    )


def _describe(prepared: Prepared, one: Candidates, s: int, options: Options) -> Burst:
    trace = prepared.trace
    members = one.groups.members[one.spells.first[s] : one.spells.last[s] + 1]
    first = int(members.min())
    shared = int(one.shared_blocks[s])
    tokens = min(shared * trace.block_tokens, int(trace.input_tokens[members].min()))
    once = options.prefill_s(tokens)
    return Burst(
        *prepared.name_prefix(first, shared),
        requests=len(members),
        start_s=float(trace.arrival_s[members[0]]),
        span_s=round(float(trace.arrival_s[members[-1]] - trace.arrival_s[members[0]]), 9),
        shared_blocks=shared,
        shared_tokens=tokens,
        input_tokens=int(trace.input_tokens[members].sum()),
        repeated_tokens=tokens * (len(members) - 1),
        kind="session" if one.kinds.is_session[s] else "fanout",
        chain_kind="session" if one.kinds.is_chain[s] else "fanout",
        distinct_times=int(one.kinds.distinct_times[s]),
        sessions=count_known(trace.session, members),
        users=count_known(trace.user, members),
        prefill_once_s=once,
        prefill_each_s=None if once is None else once * len(members),
    )


def _timeline(prepared: Prepared, bursts: Sequence[tuple[Candidates, int]]) -> Timeline:
    trace = prepared.trace
    ends = [float(trace.arrival_s[w.stop - 1]) if w.stop > w.start else 0.0 for w in trace.windows]
    offset_s = np.concatenate([[0.0], np.cumsum(ends)])
    rows = []
    for one, s in bursts:
        first = one.groups.members[one.spells.first[s]]
        start_s = float(trace.arrival_s[first] + offset_s[prepared.window_of[first]])
        rows.append((start_s, int(one.spells.size[s]), int(one.shared_blocks[s]) * trace.block_tokens))
    rows.sort()
    return Timeline([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
