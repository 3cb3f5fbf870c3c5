"""A trace made ready for analysis: its prefix tree, its order in time, and names for its prefixes."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.analysis.bursts import Kinds, Spells, classify
from btbench.analysis.groups import Groups, order_by_time
from btbench.analysis.prefixes import PrefixTree, prefix_tree, window_numbers
from btbench.jit import read_only
from btbench.trace import Trace, Window


class PrefixName(NamedTuple):
    """A prefix as the first blocks of the first request that has it."""

    prefix: str  # <window>/<request>[:<blocks>]
    window: str
    first_request: int  # position in the window, in order of arrival


@dataclass(frozen=True)
class Prepared:
    """What every part of the analysis reads."""

    trace: Trace
    tree: PrefixTree
    window_of: npt.NDArray[np.int32]  # (N,) position in trace.windows
    by_time: npt.NDArray[np.int32]  # (N,)

    @property
    def blocks(self) -> npt.NDArray[np.int64]:
        """(N,) prompt blocks."""
        return self.tree.prompt_blocks

    def window(self, request: int) -> Window:
        """The trace window of a request."""
        return self.trace.windows[self.window_of[request]]

    def name_prefix(self, request: int, blocks: int) -> PrefixName:
        """Name the first blocks of a request."""
        window = self.window(request)
        return PrefixName(f"{window.name}/{request - window.start}[:{blocks}]", window.name, request - window.start)

    def span_s(self, groups: Groups, spells: Spells) -> npt.NDArray[np.float64]:
        """Last less first arrival of each spell, to the nanosecond: without the noise of the last bits."""
        times = self.trace.arrival_s
        return np.round(times[groups.members[spells.last]] - times[groups.members[spells.first]], 9)

    def kinds(self, groups: Groups, spells: Spells) -> Kinds:
        """The class of each spell by both rules."""
        return classify(spells, groups, self.trace, self.tree)


def prepare(trace: Trace) -> Prepared:
    """Grow the prefix tree of a trace and sort its requests."""
    arrays = {name: read_only(value) for name, value in vars(trace).items() if isinstance(value, np.ndarray)}
    trace = trace.with_changes(**arrays)  # one type, wherever a trace comes from: kernels compile once
    window_of = window_numbers(trace)
    return Prepared(
        trace=trace,
        tree=prefix_tree(trace, window_of),
        window_of=window_of,
        by_time=order_by_time(trace, window_of),
    )


def count_known(labels: npt.NDArray[np.int32] | None, requests: npt.NDArray[np.int32]) -> int | None:
    """Different sessions or users among some requests; None where none is known."""
    if labels is None:
        return None
    known = labels[requests]
    return len(np.unique(known[known >= 0])) or None


def first_requests(trace: Trace, count: int) -> Trace:
    """The first so many requests, window by window, in order of arrival."""
    if len(trace) <= count:
        return trace
    windows = tuple(replace(w, stop=min(w.stop, count)) for w in trace.windows if w.start < count)
    return trace.window(Window("", "", 0, count)).with_changes(windows=windows)
