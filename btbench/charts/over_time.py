"""What a window's moments come to: requests at once, bursts of arrivals, means so far. All times in seconds."""

from __future__ import annotations

import numpy as np

from btbench.charts.window import Array, Replayed

ARRIVAL_BINS = 200


def arrival_rate(arrival_s: Array, span_s: tuple[float, float]) -> tuple[Array, Array]:
    """Arrivals per second in equal bins of a span, and the edges of these."""
    counts, edges = np.histogram(arrival_s, ARRIVAL_BINS, span_s)
    return counts / np.diff(edges), edges


def most_at_once(begin_s: Array, end_s: Array, edges_s: Array) -> Array:
    """For each bin between neighbouring edges, how many intervals [begin, end) overlap at the same time, at most.

    All in seconds, edges ascending; intervals in any order.
    """
    moments = np.concatenate([begin_s, end_s])
    steps = np.concatenate([np.ones(len(begin_s)), -np.ones(len(end_s))])
    order = np.lexsort((steps, moments))  # at the same moment those that end go first
    moments, level = moments[order], np.cumsum(steps[order])
    until = np.searchsorted(moments, edges_s, "right")  # the events up to each edge
    most = np.concatenate([[0.0], level])[until[:-1]]
    within = np.column_stack(
        [until[:-1], np.searchsorted(moments, edges_s[1:], "left")]
    )  # of each bin: first, behind last
    some = within[:, 0] < within[:, 1]
    if some.any():
        peaks = np.maximum.reduceat(np.append(level, -np.inf), within[some].ravel())[::2]
        most[some] = np.maximum(most[some], peaks)
    return np.asarray(most)


def burst_starts(arrival_s: Array, deviations: float = 4.0) -> list[float]:
    """Where arrivals jump: in the stretch ahead there are more than in the one before, by so many standard deviations.

    For a steady (Poisson) stream the difference of the two counts has about their sum as variance. Stretches from a
    240th to a 15th of the window are tried; the shortest that shows a jump places it. A result does not hold
    prefixes, so this knows of arrivals alone.
    """
    here = np.arange(len(arrival_s))
    lasting_s = arrival_s[-1] - arrival_s[0]
    if lasting_s <= 0:
        return []
    starts: list[float] = []
    for part in (240, 120, 60, 30, 15):
        over_s = lasting_s / part
        after = np.searchsorted(arrival_s, arrival_s + over_s, "right") - here
        before = here - np.searchsorted(arrival_s, arrival_s - over_s)
        known = arrival_s >= arrival_s[0] + over_s  # nothing is known of what came before the window
        jump = np.where(known, (after - before) / np.sqrt(after + before), 0)
        found = np.flatnonzero(jump >= deviations)
        apart = np.flatnonzero(np.diff(arrival_s[found]) > over_s) + 1
        for near in np.split(found, apart) if len(found) else ():
            start = float(arrival_s[near[jump[near].argmax()]])
            if all(abs(start - other) > over_s for other in starts):
                starts.append(start)
    return sorted(starts)


def per_replica(replayed: Replayed, replicas: int, edges_s: Array) -> Array:
    """(replicas, bins) the most requests in flight (queued or running) on each replica at once, bin by bin."""
    order = np.argsort(replayed.replica, kind="stable")
    ends = np.searchsorted(replayed.replica[order], np.arange(replicas + 1))
    rows = []
    for k in range(replicas):
        here = order[ends[k] : ends[k + 1]]
        rows.append(most_at_once(replayed.arrival_s[here], replayed.finish_s[here], edges_s))
    return np.array(rows)


def in_flight(replayed: Replayed, replicas: int, moments: Array) -> tuple[Array, Array]:
    """(replicas, moments) requests that wait or run, and those of them that wait, at each moment."""
    waiting, inside = np.zeros((replicas, len(moments))), np.zeros((replicas, len(moments)))
    for k in range(replicas):
        here = replayed.replica == k
        came, started, ended = (
            np.searchsorted(np.sort(moment_s[here]), moments, "right")
            for moment_s in (replayed.arrival_s, replayed.start_s, replayed.finish_s)
        )
        waiting[k], inside[k] = came - started, came - ended
    return inside, waiting


def mean_so_far(replayed: Replayed, moments: Array) -> Array:
    """At each moment the mean TTFT of the window's requests that have had their first token, nan before any."""
    order = np.argsort(replayed.first_token_s, kind="stable")
    ttft_s = (replayed.first_token_s - replayed.arrival_s)[order]
    count = np.searchsorted(replayed.first_token_s[order], moments, "right")
    total = np.concatenate([[0.0], np.cumsum(ttft_s)])[count]
    return np.divide(total, count, out=np.full(len(moments), np.nan), where=count > 0)
