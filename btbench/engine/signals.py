"""What a router can know: the cluster as it was some time ago, in reports that come at intervals.

With `signal_delay_s` d > 0 a report is taken at the first arrival at or after each multiple of `signal_interval_s`,
once the replicas have advanced to it, and reaches the router d later. It holds the load, the clocks and the cache
contents of every replica. Of its own decisions the router knows at once: requests it has sent since the report count
as load, and a copy it has ordered counts as under way until a report tells that it has landed. With d = 0 it sees the
present, as in the paper.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.cluster.setup import ServingOptions
from btbench.engine.copies import has_landed
from btbench.engine.records import REPLICA, Records, State
from btbench.engine.workload import Workload
from btbench.errors import ScenarioError
from btbench.jit import inlined
from btbench.timer import multiple_after

_MOST_BYTES = 4e9  # of reports under way; a finer interval than that is a mistake rather than a wish


class Signals(NamedTuple):
    """S reports under way, and what of them has reached the router; empty where it sees the present."""

    delay_s: float
    interval_s: float
    next_s: npt.NDArray[np.float64]  # (1,) when the next report is due
    taken_s: npt.NDArray[np.float64]  # (S,) ring of reports under way …
    load: npt.NDArray[np.int32]  # (S, R)
    sent: npt.NDArray[np.int32]  # (S, R) requests sent to each replica when the report was taken
    replicas: npt.NDArray[np.void]  # (S, R) REPLICA
    resident: npt.NDArray[np.uint64]  # (S, K, W)
    in_hbm: npt.NDArray[np.uint64]  # (S, K, W)
    first: npt.NDArray[np.int64]  # (1,) … from this one …
    under_way: npt.NDArray[np.int64]  # (1,) … so many
    sent_now: npt.NDArray[np.int32]  # (R,)
    sent_then: npt.NDArray[np.int32]  # (R,) at the report that is seen
    seen_load: npt.NDArray[np.int32]  # (R,) the router's view …
    reported_load: npt.NDArray[np.int32]  # (R,) … before its own decisions
    seen_replicas: Records  # (R,)
    seen_resident: npt.NDArray[np.uint64]  # (K, W)
    seen_in_hbm: npt.NDArray[np.uint64]  # (K, W)
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
    report_bytes = runs * words * 16 + replicas * (REPLICA.itemsize + 8)
    if size * report_bytes > _MOST_BYTES:
        raise ScenarioError(
            f"router.signal_interval_s = {options.signal_interval_s}: {size:,} reports of {report_bytes:,} bytes would "
            f"be under way at once, {size * report_bytes / 1e9:.1f} GB",
            "Use a longer signal_interval_s or a shorter signal_delay_s.",
        )
    return Signals(
        delay_s=float(options.signal_delay_s),
        interval_s=float(options.signal_interval_s),
        next_s=np.zeros(1),
        taken_s=np.zeros(size),
        load=np.zeros((size, replicas), np.int32),
        sent=np.zeros((size, replicas), np.int32),
        replicas=np.zeros((size, replicas), state.replicas.dtype),
        resident=np.zeros((size, runs, words), np.uint64),
        in_hbm=np.zeros((size, runs, words), np.uint64),
        first=np.zeros(1, np.int64),
        under_way=np.zeros(1, np.int64),
        sent_now=np.zeros(replicas, np.int32),
        sent_then=np.zeros(replicas, np.int32),
        seen_load=np.zeros(replicas, np.int32),
        reported_load=np.zeros(replicas, np.int32),
        seen_replicas=state.replicas[:replicas].copy().view(np.recarray),
        seen_resident=np.zeros((runs, words), np.uint64),
        seen_in_hbm=np.zeros((runs, words), np.uint64),
        awaited=np.zeros(copies, np.int32),
        awaited_count=np.zeros(1, np.int64),
        seen_prefixes=state.flights.prefixes[:prefixes].copy().view(np.recarray),
    )


@inlined
def copy_words(source, target):  # type: ignore[no-untyped-def]
    """Copy one table of replica bits over another."""
    for k in range(source.shape[0]):
        for word in range(source.shape[1]):
            target[k, word] = source[k, word]


@inlined
def take_report(signals, state, now):  # type: ignore[no-untyped-def]
    """The cluster as it is sets out towards the router."""
    slot = (signals.first[0] + signals.under_way[0]) % len(signals.taken_s)
    signals.under_way[0] += 1
    signals.taken_s[slot] = now
    for r in range(len(state.load)):
        signals.load[slot, r] = state.load[r]
        signals.sent[slot, r] = signals.sent_now[r]
        signals.replicas[slot, r] = state.replicas[r]
    copy_words(state.cache.resident, signals.resident[slot])
    copy_words(state.cache.in_hbm, signals.in_hbm[slot])
    signals.next_s[0] = multiple_after(now, signals.interval_s)


@inlined
def receive_reports(signals, state, now):  # type: ignore[no-untyped-def]
    """The latest report that is old enough becomes what the router sees; older ones are dropped."""
    slot = -1
    while signals.under_way[0] > 0 and signals.taken_s[signals.first[0]] + signals.delay_s <= now:
        slot = signals.first[0]
        signals.first[0] = (slot + 1) % len(signals.taken_s)
        signals.under_way[0] -= 1
    if slot < 0:
        return
    for r in range(len(signals.seen_load)):
        signals.reported_load[r] = signals.load[slot, r]
        signals.sent_then[r] = signals.sent[slot, r]
        signals.seen_replicas[r] = signals.replicas[slot, r]
    copy_words(signals.resident[slot], signals.seen_resident)
    copy_words(signals.in_hbm[slot], signals.seen_in_hbm)
    kept = 0
    for position in range(signals.awaited_count[0]):
        index = signals.awaited[position]
        copy = state.flights.copies[index]
        if has_landed(copy, signals.taken_s[slot]):
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
    """Bring what the router sees up to date, before it decides on an arrival."""
    if now >= signals.next_s[0]:
        take_report(signals, state, now)
    receive_reports(signals, state, now)
    for r in range(len(signals.seen_load)):
        signals.seen_load[r] = signals.reported_load[r] + signals.sent_now[r] - signals.sent_then[r]
