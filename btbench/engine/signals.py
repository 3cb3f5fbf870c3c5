"""What a router can know: the cluster as it was some time ago, in reports that come at intervals.

With `signal_delay_s` d > 0 a report is taken at every multiple of `signal_interval_s`, and reaches the router d later:
an arrival at t sees that of the last multiple at or before t - d. It holds the load, the clocks and the cache contents
of every replica, advanced to that time; copies land at arrivals, as ever. Of its own decisions the router knows at
once: requests it has sent since the report count as load, and a copy it has ordered counts as under way until a report
tells that it has landed. A router that counts the answers it has sent on itself (`registry.Kind.counts_itself`) knows
the load at any time; that an answer has begun or ended, every router sees itself. With d = 0 it sees the present, as in
the paper.

Of the multiples only those are reported that some arrival sees.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.cluster.setup import ServingOptions
from btbench.engine.cache import CAME
from btbench.engine.copies import has_landed
from btbench.engine.records import REPLICA, Records, State
from btbench.engine.workload import Workload
from btbench.errors import ScenarioError
from btbench.jit import inlined
from btbench.policies.bits import bit
from btbench.timer import multiple_until

_MOST_BYTES = 4e9  # of reports under way; a finer interval than that is a mistake rather than a wish


class Signals(NamedTuple):
    """S reports under way, and what of them has reached the router; empty where it sees the present."""

    delay_s: float
    interval_s: float
    awaiting: npt.NDArray[np.int64]  # (1,) the first arrival whose report is not taken yet
    latest_s: npt.NDArray[np.float64]  # (1,) when the latest report was taken
    landed_now_s: npt.NDArray[np.float64]  # (1,) the arrival at which copies landed last
    taken_s: npt.NDArray[np.float64]  # (S,) ring of reports under way …
    landed_s: npt.NDArray[np.float64]  # (S,) copies ready by then have landed
    load: npt.NDArray[np.int32]  # (S, R)
    sent: npt.NDArray[np.int32]  # (S, R) requests sent to each replica when the report was taken
    replicas: npt.NDArray[np.void]  # (S, R) REPLICA
    logged: npt.NDArray[np.int64]  # (S,) changes of the caches so far
    first: npt.NDArray[np.int64]  # (1,) … from this one …
    under_way: npt.NDArray[np.int64]  # (1,) … so many
    seen_s: npt.NDArray[np.float64]  # (1,) when the report that is seen was taken; infinity without a delay
    sent_now: npt.NDArray[np.int32]  # (R,)
    sent_then: npt.NDArray[np.int32]  # (R,) at the report that is seen
    seen_load: npt.NDArray[np.int32]  # (R,) the router's view …
    reported_load: npt.NDArray[np.int32]  # (R,) … before its own decisions
    seen_replicas: Records  # (R,)
    seen_resident: npt.NDArray[np.uint64]  # (K, W)
    seen_in_hbm: npt.NDArray[np.uint64]  # (K, W)
    applied: npt.NDArray[np.int64]  # (1,) changes of the caches that these have in them
    awaited: npt.NDArray[np.int32]  # copies under way as far as the router knows, in the order they were started …
    awaited_count: npt.NDArray[np.int64]  # (1,) … and how many
    seen_prefixes: Records  # PREFIX: … and how many of each prefix


def new_signals(work: Workload, state: State, options: ServingOptions) -> Signals:
    """No report yet: the router sees an idle, empty cluster. Raises ScenarioError where reports would fill memory."""
    size, replicas, runs, words, copies, prefixes = 0, 0, 0, 0, 0, 0
    if options.signal_delay_s > 0:
        size = math.ceil(min(len(work.requests), options.signal_delay_s / options.signal_interval_s)) + 3
        replicas, (runs, words) = len(state.load), state.cache.resident.shape
        copies, prefixes = len(state.flights.copies), len(state.flights.prefixes)
    report_bytes = replicas * (REPLICA.itemsize + 8)
    if size * report_bytes > _MOST_BYTES:
        raise ScenarioError(
            f"router.signal_interval_s = {options.signal_interval_s}: {size:,} reports of {report_bytes:,} bytes would "
            f"be under way at once, {size * report_bytes / 1e9:.1f} GB",
            "Use a longer signal_interval_s or a shorter signal_delay_s.",
        )
    return Signals(
        delay_s=float(options.signal_delay_s),
        interval_s=float(options.signal_interval_s),
        awaiting=np.zeros(1, np.int64),
        latest_s=np.full(1, -1.0),
        landed_now_s=np.full(1, -1.0),
        taken_s=np.zeros(size),
        landed_s=np.zeros(size),
        load=np.zeros((size, replicas), np.int32),
        sent=np.zeros((size, replicas), np.int32),
        replicas=np.zeros((size, replicas), state.replicas.dtype),
        logged=np.zeros(size, np.int64),
        first=np.zeros(1, np.int64),
        under_way=np.zeros(1, np.int64),
        seen_s=np.full(1, -1.0 if options.signal_delay_s > 0 else np.inf),
        sent_now=np.zeros(replicas, np.int32),
        sent_then=np.zeros(replicas, np.int32),
        seen_load=np.zeros(replicas, np.int32),
        reported_load=np.zeros(replicas, np.int32),
        seen_replicas=state.replicas[:replicas].copy().view(np.recarray),
        seen_resident=np.zeros((runs, words), np.uint64),
        seen_in_hbm=np.zeros((runs, words), np.uint64),
        applied=np.zeros(1, np.int64),
        awaited=np.zeros(copies, np.int32),
        awaited_count=np.zeros(1, np.int64),
        seen_prefixes=state.flights.prefixes[:prefixes].copy().view(np.recarray),
    )


@inlined
def apply_changes(signals, cache, until):  # type: ignore[no-untyped-def]
    """The caches that are seen become those of `until` changes."""
    for position in range(signals.applied[0], until):
        entry = cache.log[position]
        word = entry.replica >> 6
        if entry.change == CAME:
            signals.seen_resident[entry.run, word] |= bit(entry.replica)
            signals.seen_in_hbm[entry.run, word] |= bit(entry.replica)
        else:
            signals.seen_in_hbm[entry.run, word] &= ~bit(entry.replica)
    signals.applied[0] = until


@inlined
def seen_at(signals, now):  # type: ignore[no-untyped-def]
    """When the report is taken that an arrival at `now` sees; below 0 where none has come by then."""
    return multiple_until(now - signals.delay_s, signals.interval_s)


@inlined
def next_report(signals, state):  # type: ignore[no-untyped-def]
    """When the next report is to be taken that some arrival sees; infinity where there is none."""
    while signals.awaiting[0] < len(state.requests):
        due_s = seen_at(signals, state.requests[signals.awaiting[0]].arrival_s)
        if due_s >= 0 and due_s > signals.latest_s[0]:
            return due_s
        signals.awaiting[0] += 1
    return math.inf


@inlined
def take_report(signals, state, now):  # type: ignore[no-untyped-def]
    """The cluster as it is sets out towards the router."""
    slot = (signals.first[0] + signals.under_way[0]) % len(signals.taken_s)
    signals.under_way[0] += 1
    signals.taken_s[slot] = now
    signals.latest_s[0] = now
    signals.landed_s[slot] = signals.landed_now_s[0]
    for r in range(len(state.load)):
        signals.load[slot, r] = state.load[r]
        signals.sent[slot, r] = signals.sent_now[r]
        signals.replicas[slot, r] = state.replicas[r]
    signals.logged[slot] = state.cache.logged[0]


@inlined
def receive_reports(signals, state, now):  # type: ignore[no-untyped-def]
    """The latest report that is old enough becomes what the router sees; older ones are dropped."""
    slot, seen_s = -1, seen_at(signals, now)
    while signals.under_way[0] > 0 and signals.taken_s[signals.first[0]] <= seen_s:
        slot = signals.first[0]
        signals.first[0] = (slot + 1) % len(signals.taken_s)
        signals.under_way[0] -= 1
    if slot < 0:
        return
    signals.seen_s[0] = signals.taken_s[slot]
    for r in range(len(signals.seen_load)):
        signals.reported_load[r] = signals.load[slot, r]
        signals.sent_then[r] = signals.sent[slot, r]
        signals.seen_replicas[r] = signals.replicas[slot, r]
    apply_changes(signals, state.cache, signals.logged[slot])
    kept = 0
    for position in range(signals.awaited_count[0]):
        index = signals.awaited[position]
        copy = state.flights.copies[index]
        if has_landed(copy, signals.landed_s[slot]):
            signals.seen_prefixes[copy.prefix].in_flight -= 1
        else:
            signals.awaited[kept] = index
            kept += 1
    signals.awaited_count[0] = kept


@inlined
def note_decision(signals, state, r, ordered):  # type: ignore[no-untyped-def]
    """The router knows what it has decided: a request goes to replica r, the last `ordered` copies are under way."""
    signals.sent_now[r] += 1
    for index in range(state.flights.started[0] - ordered, state.flights.started[0]):
        signals.awaited[signals.awaited_count[0]] = index
        signals.awaited_count[0] += 1
        signals.seen_prefixes[state.flights.copies[index].prefix].in_flight += 1


@inlined
def observe(signals, state, now):  # type: ignore[no-untyped-def]
    """Bring what the router sees up to date, before it decides on an arrival at `now`."""
    signals.landed_now_s[0] = now
    if next_report(signals, state) <= now:  # of this very moment: what landed now is in it
        take_report(signals, state, now)
    receive_reports(signals, state, now)
    for r in range(len(signals.seen_load)):
        signals.seen_load[r] = signals.reported_load[r] + signals.sent_now[r] - signals.sent_then[r]
