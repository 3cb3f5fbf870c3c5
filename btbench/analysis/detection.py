"""What the `btb` policy would notice: its rule run over a trace for each X, Y and Z, without any cluster.

Requests with the same first Y blocks of which each follows the one before within Z seconds are one *train*. The rule
fires at a request once X of them, itself included, lie within the last Z seconds (arrivals before t - Z are
dropped). A train is *detected* at the first request it fires at; the requests of the train behind that one *follow*.
A detection that nothing follows is a false alarm: the prefix would be copied for nobody.
"""

from dataclasses import dataclass

import numpy as np

from btbench.analysis.bursts import Spells, find_bursts
from btbench.analysis.groups import Groups, group_by_depth
from btbench.analysis.headline import DEEP_WINDOW_S, PRESENT
from btbench.analysis.options import BtbGrid, blocks_of
from btbench.analysis.prepared import Prepared
from btbench.analysis.statistics import Distribution, distribution
from btbench.jit import kernel
from btbench.progress import Progress


@dataclass(frozen=True)
class Detection:
    """One setting of the rule."""

    threshold: int  # X
    prefix_blocks: int  # Y
    prefix_tokens: int
    window_s: float  # Z
    requests_with_key: int  # requests of at least Y blocks: the others never count
    detected: int  # trains
    after_requests: Distribution | None  # requests of the train up to the detection, that one included
    after_s: Distribution | None  # seconds since its first
    following: int  # requests behind a detection
    false_alarms: int  # detections that nothing follows
    bursts: int  # of at least 20 requests in 10 s at this depth, as in the list of bursts
    bursts_caught: int  # of them, during which the rule fired


@kernel
def _detect(bounds, members, arrival_s, threshold, window_s):  # type: ignore[no-untyped-def]
    fired = np.zeros(len(members), np.bool_)
    after_requests = np.empty(len(members), np.int64)
    after_s = np.empty(len(members), np.float64)
    following = np.zeros(len(members), np.int64)
    count = 0
    for g in range(len(bounds) - 1):
        train = left = bounds[g]
        detected = False
        for j in range(bounds[g], bounds[g + 1]):
            now = arrival_s[members[j]]
            while arrival_s[members[left]] < now - window_s:
                left += 1
            if left == j:  # nothing within Z before it: a train begins
                train = j
                detected = False
            fired[j] = j - left + 1 >= threshold
            if detected:
                following[count - 1] += 1
            elif fired[j]:
                detected = True
                after_requests[count] = j - train + 1
                after_s[count] = now - arrival_s[members[train]]
                count += 1
    return fired, after_requests[:count].copy(), after_s[:count].copy(), following[:count].copy()


def try_settings(prepared: Prepared, grid: BtbGrid, progress: Progress) -> list[Detection]:
    """The rule at every combination of the grid, by depth, then threshold, then window."""
    depths = {*grid.prefix_blocks, *(blocks_of(tokens, prepared.trace.block_tokens) for tokens in grid.prefix_tokens)}
    rows = []
    for k, depth in enumerate(sorted(depths)):
        progress("trying btb's rule", k, len(depths))
        groups = group_by_depth(prepared.tree, prepared.by_time, depth)
        settings = [(x, z) for x in sorted(set(grid.thresholds)) for z in sorted(set(grid.windows_s))]
        _, bursts = find_bursts(groups, prepared.trace.arrival_s, DEEP_WINDOW_S, PRESENT)
        rows += [_try(prepared, groups, bursts, depth, x, z) for x, z in settings]
    return rows


def _try(prepared: Prepared, groups: Groups, bursts: Spells, depth: int, threshold: int, window_s: float) -> Detection:
    arrival_s = prepared.trace.arrival_s
    fired, after_requests, after_s, following = _detect(groups.bounds, groups.members, arrival_s, threshold, window_s)
    alone = groups.singles if threshold == 1 else 0  # a group of one request fires at it, and nothing follows
    fired_before = np.concatenate([[0], np.cumsum(fired)])
    return Detection(
        threshold=threshold,
        prefix_blocks=depth,
        prefix_tokens=depth * prepared.trace.block_tokens,
        window_s=window_s,
        requests_with_key=int((prepared.blocks >= depth).sum()),
        detected=len(following) + alone,
        after_requests=distribution(np.concatenate([after_requests, np.ones(alone, np.int64)])),
        after_s=distribution(np.round(np.concatenate([after_s, np.zeros(alone)]), 9)),
        following=int(following.sum()),
        false_alarms=int((following == 0).sum()) + alone,
        bursts=len(bursts.first),
        bursts_caught=int((fired_before[bursts.last + 1] > fired_before[bursts.first]).sum()),
    )
