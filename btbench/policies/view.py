"""What a policy sees of the cluster and of the requests, and the little it may write.

All arrays of `ClusterView` are read-only. A kernel that writes to a plain one does not compile; Numba does not look
inside records, so the tests also run every built-in policy interpreted, where NumPy refuses. The true output length is
not among them, since no router knows it. A policy asks for a copy through `CopyOrders`; the engine charges the links.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class ClusterView(NamedTuple):
    """N requests over K shared runs (`btbench.runs`), R replicas, W = ceil(R / 64) words of replica bits.

    Record fields are described in `btbench.engine.records`.
    """

    seen_s: npt.NDArray[np.float64]  # (1,) when the cluster was as it is seen; infinity where that is the present
    load: npt.NDArray[np.int32]  # (R,) requests in flight: running and queued
    resident: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the whole run, in HBM or RAM
    in_hbm: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the whole run in HBM
    replicas: npt.NDArray[np.void]  # (R,) REPLICA without what depends on output lengths
    answers: npt.NDArray[np.void]  # (R,) REPLICA: what has ended there, which the router sees itself
    requests: npt.NDArray[np.void]  # (N,) REQUEST without what depends on the output length
    run_list: npt.NDArray[np.int32]  # request i holds run_list[runs_start:runs_stop]
    run_blocks: npt.NDArray[np.int32]  # (K,) length of a run
    on_disk: npt.NDArray[np.bool_]  # (K,) whether it is on the shared disk, where there is one
    place_table: npt.NDArray[np.int64]  # run × R + replica to place, as `btbench.pairs` has it
    places: npt.NDArray[np.void]  # PLACE: leading blocks of a resident run that are in RAM
    path: npt.NDArray[np.int32]  # of each entry of run_list, the node of the prompt tree it leads to
    parent: npt.NDArray[np.int32]  # (nodes,) -1 at the top
    node_blocks: npt.NDArray[np.int32]  # (nodes,) blocks of a node's last run
    served: npt.NDArray[np.void]  # (N,) SERVED: when prefills start and how long they take, and who ended when
    costs: Any  # `btbench.engine.records.Costs`
    copies: npt.NDArray[np.void]  # COPY: every copy started so far
    flying: npt.NDArray[np.int32]  # those under way, in the order they were started …
    flights: npt.NDArray[np.int64]  # (1,) … and how many
    prefixes: npt.NDArray[np.void]  # PREFIX: copies under way of each prefix


class CopyOrders(NamedTuple):
    """Moves of KV that a policy asks for, filled anew for each request.

    Copies take the request's first Y blocks to other replicas and land later. A transfer brings the request's first
    runs from `transfer_source` to the replica it is routed to, before anything else that replica does.
    """

    ordered: npt.NDArray[np.int64]  # (1,) how many copies
    target: npt.NDArray[np.int32]  # (R,)
    source: npt.NDArray[np.int32]  # (R,)
    transfer_runs: npt.NDArray[np.int64]  # (1,) 0 = no transfer
    transfer_source: npt.NDArray[np.int64]  # (1,)


class Draws(NamedTuple):
    """The 32-bit outputs of a Mersenne Twister, made ahead: randomness is data, so that kernels keep no state."""

    outputs: npt.NDArray[np.uint32]
    used: npt.NDArray[np.int64]  # (1,) outputs consumed; beyond len(outputs) once they ran out
