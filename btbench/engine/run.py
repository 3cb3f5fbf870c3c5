"""Run: what one replay of one window yields, as arrays by request."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TIERS = ("hbm", "ram", "disk", "miss")  # index = code in `Served.tier`


class Served(NamedTuple):
    """One entry a request, in arrival order. Durations other than these derive from `start_s` and `arrival_s`."""

    replica: npt.NDArray[np.int32]  # position in the cluster; -1 = turned away: no times, no hits, tier miss
    start_s: npt.NDArray[np.float64]  # admission
    reuse_s: npt.NDArray[np.float64]  # loading (or recomputing, where that is faster) the cached part
    prefill_s: npt.NDArray[np.float64]
    finish_s: npt.NDArray[np.float64]
    hit_tokens: npt.NDArray[np.int64]
    tier: npt.NDArray[np.int8]  # index into TIERS


class Copies(NamedTuple):
    """One entry a copy of a prefix over RDMA, in the order they were started."""

    request: npt.NDArray[np.int32]  # at whose arrival it was asked for
    source: npt.NDArray[np.int32]  # replica that held the prefix
    target: npt.NDArray[np.int32]  # replica it was copied to
    start_s: npt.NDArray[np.float64]
    ready_s: npt.NDArray[np.float64]
    blocks: npt.NDArray[np.int32]
    used: npt.NDArray[np.bool_]  # a later request with this prefix was admitted at the target and found it


@dataclass(frozen=True)
class Run:
    """One window replayed on one setup under one policy."""

    served: Served
    copies: Copies
    block_bytes: float  # KV of one block
    floor_ttft_s: npt.NDArray[np.float64]  # (N,) what no policy can beat, see `btbench.engine.floor`
    busy_s: npt.NDArray[np.float64]  # (replicas,) time spent prefilling, loading, decoding or receiving a copy
    engine_s: float  # time of one core in the compiled replay: no parsing, packing, compiling or waiting
