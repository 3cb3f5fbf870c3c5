"""Windows of time in which many requests of one group arrive, and what kind of traffic they are.

A window of W seconds holds requests with last - first <= W. The *widest window* of a group holds most of its
requests, the first such one where several do. Its *bursts* are that window, then the widest of those that share
no request with a burst already taken, and so on.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.analysis.groups import Groups, find_depth
from btbench.analysis.prefixes import PrefixTree
from btbench.jit import kernel
from btbench.trace import Trace

# the published rule for a session: at least so many requests, longest over shortest, share of steps that do not shrink
SESSION_REQUESTS, SESSION_GROWTH, SESSION_STEPS = 3, 2, 0.8


class Spells(NamedTuple):
    """Stretches of groups: spell s is members[first[s]] … members[last[s]], both included."""

    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]

    @property
    def size(self) -> npt.NDArray[np.int64]:
        """Requests of each."""
        return self.last - self.first + 1


class Kinds(NamedTuple):
    """What each spell looks like."""

    is_session: npt.NDArray[np.bool_]  # by the length rule: prompts grow as in one conversation
    is_chain: npt.NDArray[np.bool_]  # by the block rule: each prompt extends the one before it
    distinct_times: npt.NDArray[np.int64]  # different arrival times in it


@kernel
def _take_bursts(start, size, low, high, smallest, taken, first, last, count):  # type: ignore[no-untyped-def]
    """Take windows of one group, widest first, that touch none taken; size[j] is of the one that ends at j."""
    largest = 0
    for j in range(low, high):
        largest = max(largest, size[j])
    starts = np.zeros(largest + 2, np.int64)  # counting sort of the windows by size, widest first
    for j in range(low, high):
        starts[largest - size[j] + 1] += 1
    starts = np.cumsum(starts)
    ranked = np.empty(high - low, np.int64)
    for j in range(low, high):
        ranked[starts[largest - size[j]]] = j
        starts[largest - size[j]] += 1
    for j in ranked:
        if size[j] < smallest:
            break
        if taken[start[j]] or taken[j]:  # none taken lies strictly inside: it would be wider than this one
            continue
        taken[start[j] : j + 1] = True
        first[count] = start[j]
        last[count] = j
        count += 1
    return count


@kernel
def _find(bounds, members, arrival_s, window_s, smallest):  # type: ignore[no-untyped-def]
    groups = len(bounds) - 1
    widest_first = np.empty(groups, np.int64)
    widest_last = np.empty(groups, np.int64)
    room = len(members) // smallest + 1
    first = np.empty(room, np.int64)
    last = np.empty(room, np.int64)
    start = np.empty(len(members), np.int64)
    size = np.empty(len(members), np.int64)
    taken = np.zeros(len(members), np.bool_)
    count = 0
    for g in range(groups):
        left = bounds[g]
        best = 0
        for j in range(bounds[g], bounds[g + 1]):
            while arrival_s[members[j]] - arrival_s[members[left]] > window_s:
                left += 1
            start[j] = left
            size[j] = j - left + 1
            if size[j] > best:
                best = size[j]
                widest_first[g] = left
                widest_last[g] = j
        if best >= smallest:
            count = _take_bursts(start, size, bounds[g], bounds[g + 1], smallest, taken, first, last, count)
    return widest_first, widest_last, first[:count].copy(), last[:count].copy()


@kernel
def _extends(later, earlier, block_tokens, input_tokens, blocks, offsets, path, end_blocks):  # type: ignore[no-untyped-def]
    """Whether a longer prompt begins with every whole block of an earlier one (whose last block may be part filled)."""
    if input_tokens[later] <= input_tokens[earlier]:
        return False
    whole = min(input_tokens[earlier] // block_tokens, blocks[earlier])
    if whole == 0:
        return True
    k = find_depth(whole, earlier, offsets, path, end_blocks)
    if k == offsets[earlier + 1]:
        return False
    same = offsets[later] + k - offsets[earlier]
    return same < offsets[later + 1] and path[same] == path[k]


@kernel
def _classify(first, last, members, arrival_s, block_tokens, input_tokens, blocks, offsets, path, end_blocks):  # type: ignore[no-untyped-def]
    is_session = np.zeros(len(first), np.bool_)
    is_chain = np.zeros(len(first), np.bool_)
    distinct_times = np.ones(len(first), np.int64)
    for s in range(len(first)):
        steps = last[s] - first[s]
        shortest = longest = input_tokens[members[first[s]]]
        growing = 0
        chain = steps > 0
        for j in range(first[s] + 1, last[s] + 1):
            earlier, later = members[j - 1], members[j]
            tokens = input_tokens[later]
            shortest = min(shortest, tokens)
            longest = max(longest, tokens)
            growing += tokens >= input_tokens[earlier]
            distinct_times[s] += arrival_s[later] > arrival_s[earlier]
            if chain:
                chain = _extends(later, earlier, block_tokens, input_tokens, blocks, offsets, path, end_blocks)
        is_chain[s] = chain
        if steps + 1 >= SESSION_REQUESTS and longest >= SESSION_GROWTH * shortest:
            is_session[s] = growing / steps >= SESSION_STEPS
    return is_session, is_chain, distinct_times


def find_bursts(
    groups: Groups, arrival_s: npt.NDArray[np.float64], window_s: float, smallest: int
) -> tuple[Spells, Spells]:
    """The widest window of each group (G,), and all bursts of at least `smallest` requests (2 or more), by group."""
    found = _find(groups.bounds, groups.members, arrival_s, window_s, smallest)
    return Spells(*found[:2]), Spells(*found[2:])


def classify(spells: Spells, groups: Groups, trace: Trace, tree: PrefixTree) -> Kinds:
    """Tell growing sessions from fan-outs, by the two rules."""
    facts = (
        trace.arrival_s,
        trace.block_tokens,
        trace.input_tokens,
        tree.prompt_blocks,
        tree.offsets,
        tree.path,
        tree.end_blocks,
    )
    return Kinds(*_classify(spells.first, spells.last, groups.members, *facts))
