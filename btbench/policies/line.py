"""Who still waits where: a router's own account of the requests it has sent, in order, until their prefill has got on.

The model admits whatever fits at once and lets the replica's clock run ahead, so its queue is short where a real one is
long: a request that is admitted but whose prefill lies in the future has not begun for anybody who looks at the clock.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import inlined

MEMBER = np.dtype([("tokens", "i8"), ("behind", "i4")], align=True)  # to prefill, as the router reckons; -1 = the last
FRONT = np.dtype([("first", "i4"), ("last", "i4"), ("requests", "i8"), ("tokens", "i8")], align=True)  # first -1 = none


class Line(NamedTuple):
    """One line for each of R replicas, of N requests in all."""

    fronts: npt.NDArray[np.void]  # (R,) FRONT
    members: npt.NDArray[np.void]  # (N,) MEMBER


def new_line(requests: int, replicas: int) -> Line:
    """Nobody waits."""
    fronts = np.zeros(replicas, FRONT)
    fronts["first"] = -1
    return Line(fronts.view(np.recarray), np.zeros(requests, MEMBER).view(np.recarray))


@inlined
def join_line(line, i, r, tokens):  # type: ignore[no-untyped-def]
    """Request i, with so many tokens to prefill, goes to the end of replica r's line."""
    front = line.fronts[r]
    if front.first < 0:
        front.first = i
    else:
        line.members[front.last].behind = i
    front.last = i
    front.requests += 1
    front.tokens += tokens
    line.members[i].tokens = tokens
    line.members[i].behind = -1


@inlined
def leave_line(line, front):  # type: ignore[no-untyped-def]
    """The first leaves."""
    front.requests -= 1
    front.tokens -= line.members[front.first].tokens
    front.first = line.members[front.first].behind


@inlined
def leave_lines(line, view, now, to_first_token):  # type: ignore[no-untyped-def]
    """Those whose prefill has started by `now` leave (`to_first_token`: has ended); prefills go in order of arrival."""
    for r in range(len(line.fronts)):
        front = line.fronts[r]
        while front.first >= 0:
            served = view.served[front.first]
            left_s = served.start_s + (served.reuse_s + served.prefill_s if to_first_token else 0.0)
            if not left_s <= now:  # nor where it is not admitted yet: not a number
                break
            leave_line(line, front)


@inlined
def leave_admitted(line, view):  # type: ignore[no-untyped-def]
    """Those that are admitted, as far as is known, leave: what runs and waits, less what runs, waits."""
    for r in range(len(line.fronts)):
        front = line.fronts[r]
        while front.first >= 0 and front.requests > view.load[r] - view.replicas[r].batch:
            leave_line(line, front)
