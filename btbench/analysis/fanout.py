"""Same-prefix fan-out: how many requests that begin alike arrive together, for each depth and window."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.analysis.bursts import Kinds, find_bursts
from btbench.analysis.groups import Groups
from btbench.analysis.prepared import Prepared
from btbench.analysis.statistics import Distribution, distribution

Kind = Literal["fanout", "session"]


@dataclass(frozen=True)
class Fanout:
    """One depth and one window. Groups of one request count in `groups` alone.

    *independent* counts only groups whose widest window is no session by the length rule, *chain_…* by the block rule.
    """

    depth_blocks: int
    depth_tokens: int
    window_s: float
    groups: int
    max_fanout: int
    max_fanout_span_s: float
    max_fanout_class: Kind
    max_fanout_independent: int
    max_fanout_independent_span_s: float
    groups_at_least: dict[str, int]
    independent_groups_at_least: dict[str, int]
    chain_max_fanout_class: Kind
    chain_max_fanout_independent: int
    chain_max_fanout_independent_span_s: float
    chain_independent_groups_at_least: dict[str, int]
    max_fanout_distinct_times: int  # different timestamps among the requests of the largest fan-out
    rests_on_ticks: bool  # half of them or more only repeat a timestamp
    independent_rests_on_ticks: bool  # the same of the largest independent one
    chain_independent_rests_on_ticks: bool
    fanout_distribution: Distribution | None  # of the widest windows of groups of two or more
    bursts_per_hour: dict[str, float] | None  # by threshold, over the time span of the trace
    independent_bursts_per_hour: dict[str, float] | None
    chain_independent_bursts_per_hour: dict[str, float] | None


class Largest(NamedTuple):
    """The first largest of some fan-outs; place -1, size and span 0 where there is none."""

    place: int
    size: int
    span_s: float
    distinct_times: int

    @property
    def rests_on_ticks(self) -> bool:
        """Whether half of the requests or more only repeat a timestamp."""
        return self.size > 1 and 2 * self.distinct_times <= self.size


def _largest(size: npt.NDArray[np.int64], span_s: npt.NDArray[np.float64], kinds: Kinds) -> Largest:
    if size.max(initial=0) == 0:
        return Largest(-1, 0, 0.0, 0)
    best = int(size.argmax())
    return Largest(best, int(size[best]), float(span_s[best]), int(kinds.distinct_times[best]))


def _class(is_session: npt.NDArray[np.bool_], best: Largest) -> Kind:
    return "session" if best.size and is_session[best.place] else "fanout"


def reaching(size: npt.NDArray[np.int64], thresholds: tuple[int, ...]) -> dict[str, int]:
    """How many are at least as large as each threshold."""
    return {str(threshold): int((size >= threshold).sum()) for threshold in thresholds}


def measure_fanout(
    prepared: Prepared, groups: Groups, depth: int, window_s: float, thresholds: tuple[int, ...], trace_span_s: float
) -> Fanout:
    """The fan-out of all groups of one depth within one window; `thresholds` ascend, `trace_span_s` is for rates."""
    widest, bursts = find_bursts(groups, prepared.trace.arrival_s, window_s, max(2, thresholds[0]))
    kinds, burst_kinds = prepared.kinds(groups, widest), prepared.kinds(groups, bursts)
    span_s = prepared.span_s(groups, widest)
    independent = np.where(kinds.is_session, 0, widest.size)
    unchained = np.where(kinds.is_chain, 0, widest.size)
    leader = _largest(widest.size, span_s, kinds)
    independent_leader = _largest(independent, span_s, kinds)
    unchained_leader = _largest(unchained, span_s, kinds)

    def per_hour(chosen: npt.NDArray[np.int64]) -> dict[str, float] | None:
        if trace_span_s == 0:
            return None
        return {key: count * 3600 / trace_span_s for key, count in reaching(chosen, thresholds).items()}

    return Fanout(
        depth_blocks=depth,
        depth_tokens=depth * prepared.trace.block_tokens,
        window_s=window_s,
        groups=len(groups),
        max_fanout=leader.size,
        max_fanout_span_s=leader.span_s,
        max_fanout_class=_class(kinds.is_session, leader),
        max_fanout_independent=independent_leader.size,
        max_fanout_independent_span_s=independent_leader.span_s,
        groups_at_least=reaching(widest.size, thresholds),
        independent_groups_at_least=reaching(independent, thresholds),
        chain_max_fanout_class=_class(kinds.is_chain, leader),
        chain_max_fanout_independent=unchained_leader.size,
        chain_max_fanout_independent_span_s=unchained_leader.span_s,
        chain_independent_groups_at_least=reaching(unchained, thresholds),
        max_fanout_distinct_times=leader.distinct_times,
        rests_on_ticks=leader.rests_on_ticks,
        independent_rests_on_ticks=independent_leader.rests_on_ticks,
        chain_independent_rests_on_ticks=unchained_leader.rests_on_ticks,
        fanout_distribution=distribution(widest.size),
        bursts_per_hour=per_hour(bursts.size),
        independent_bursts_per_hour=per_hour(bursts.size[~burst_kinds.is_session]),
        chain_independent_bursts_per_hour=per_hour(bursts.size[~burst_kinds.is_chain]),
    )
