"""What a policy sees of the cluster and of the requests, and the little it may write.

All arrays of `ClusterView` are read-only: a kernel that writes to them does not compile. The true output length is not
among them, since no router knows it. A policy asks for a copy through `CopyOrders`; the engine charges the links.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class ClusterView(NamedTuple):
    """N requests over K shared runs (`btbench.runs`), R replicas, W = ceil(R / 64) words of replica bits.

    Record fields are described in `btbench.engine.records`.
    """

    load: npt.NDArray[np.int32]  # (R,) requests in flight: running and queued
    resident: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the whole run, in HBM or RAM
    in_hbm: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the whole run in HBM
    requests: npt.NDArray[np.void]  # (N,) REQUEST without what depends on the output length
    run_list: npt.NDArray[np.int32]  # request i holds run_list[runs_start:runs_stop]
    run_blocks: npt.NDArray[np.int32]  # (K,) length of a run
    copies: npt.NDArray[np.void]  # COPY: every copy started so far
    flying: npt.NDArray[np.int32]  # those under way, in the order they were started …
    flights: npt.NDArray[np.int64]  # (1,) … and how many
    prefixes: npt.NDArray[np.void]  # PREFIX: copies under way of each prefix


class CopyOrders(NamedTuple):
    """Copies of a request's first Y blocks that a policy asks for, filled anew for each request."""

    ordered: npt.NDArray[np.int64]  # (1,) how many
    target: npt.NDArray[np.int32]  # (R,)
    source: npt.NDArray[np.int32]  # (R,)


class Draws(NamedTuple):
    """The 32-bit outputs of a Mersenne Twister, made ahead: randomness is data, so that kernels keep no state."""

    outputs: npt.NDArray[np.uint32]
    used: npt.NDArray[np.int64]  # (1,) outputs consumed; beyond len(outputs) once they ran out


class Memory(NamedTuple):
    """What policies keep between requests of one replay."""

    turn: npt.NDArray[np.int64]  # (1,) round_robin's counter
    candidates: npt.NDArray[np.uint64]  # (W,) scratch: replica bits
    taken: npt.NDArray[np.bool_]  # (R,) scratch: replicas a copy may not go to
