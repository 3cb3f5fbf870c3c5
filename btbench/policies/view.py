"""What a policy sees of the cluster and of the requests, and the little it may write.

All arrays of `ClusterView` are read-only: a kernel that writes to them does not compile. The true output length is not
among them, since no router knows it. A policy asks for a copy through `CopyOrders`; the engine charges the links.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class ClusterView(NamedTuple):
    """N requests over K shared runs (`btbench.runs`), R replicas, W = ceil(R / 64) words of replica bits."""

    load: npt.NDArray[np.int32]  # (R,) requests in flight: running and queued
    resident: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the whole run, in HBM or RAM
    in_hbm: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the whole run in HBM
    arrival_s: npt.NDArray[np.float64]  # (N,)
    input_tokens: npt.NDArray[np.int64]  # (N,)
    run_offsets: npt.NDArray[np.int64]  # (N + 1,) request i has runs[run_offsets[i]:run_offsets[i + 1]]
    runs: npt.NDArray[np.int32]
    run_blocks: npt.NDArray[np.int32]  # (K,) length of a run
    prefix: npt.NDArray[np.int32]  # (N,) id of the first Y blocks (btb); -1 where no other request can share them
    prefix_runs: npt.NDArray[np.int32]  # (N,) how many runs make up the first Y blocks
    burst: npt.NDArray[np.bool_]  # (N,) whether btb counts X requests with this prefix within Z s, this one included
    in_flight: npt.NDArray[np.int32]  # (prefixes,) copies of the prefix under way
    flight_prefix: npt.NDArray[np.int32]  # copies under way, in the order they were started …
    flight_target: npt.NDArray[np.int32]  # … and the replica each goes to
    flights: npt.NDArray[np.int64]  # (1,) how many


class CopyOrders(NamedTuple):
    """Copies of a request's first Y blocks that a policy asks for, filled anew for each request."""

    count: npt.NDArray[np.int64]  # (1,)
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
