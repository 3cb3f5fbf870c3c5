"""The state of one replay, as bundles of arrays: R replicas, N requests, K runs, W words of replica bits."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.engine.run import Served


class Rates(NamedTuple):
    """What each replica can do, (R,) each; constant through a replay."""

    prefill_flops: npt.NDArray[np.float64]  # FLOP/s × mfu
    decode_bytes_per_s: npt.NDArray[np.float64]  # HBM bandwidth × mbu
    pcie_bytes_per_s: npt.NDArray[np.float64]
    rdma_bytes_per_s: npt.NDArray[np.float64]
    disk_bytes_per_s: npt.NDArray[np.float64]
    token_budget: npt.NDArray[np.int64]  # KV tokens admitted at once
    cache_budget: npt.NDArray[np.int64]  # blocks of the prefix cache in HBM


class Costs(NamedTuple):
    """Numbers of the model and of the serving options."""

    flops_per_token: float  # 2 × active parameters
    active_bytes: float  # weights read in one decode step
    kv_bytes_per_token: float
    block_bytes: float
    block_tokens: int
    copy_blocks: int  # Y
    max_batch: int
    disk_cache: bool


class Clocks(NamedTuple):
    """Each replica's time, queue and batch, (R,) each."""

    now: npt.NDArray[np.float64]
    busy_s: npt.NDArray[np.float64]  # time spent loading, prefilling, decoding, receiving copies
    load: npt.NDArray[np.int32]  # queued and running
    batch: npt.NDArray[np.int32]  # running
    used_tokens: npt.NDArray[np.int64]  # input + output of what runs
    context_tokens: npt.NDArray[np.int64]  # of what runs, as far as it is decoded
    steps: npt.NDArray[np.int64]  # decode steps done since the start
    queue_head: npt.NDArray[np.int32]  # request, -1 = empty
    queue_tail: npt.NDArray[np.int32]
    batch_root: npt.NDArray[np.int32]  # running request that finishes first, root of a skew heap; -1 = empty
    working: npt.NDArray[np.int32]  # replicas with load > 0, in cluster order …
    workers: npt.NDArray[np.int64]  # (1,) … and how many


class Links(NamedTuple):
    """What ties requests into queues and batches, (N,) each."""

    next_queued: npt.NDArray[np.int32]
    last_step: npt.NDArray[np.int64]  # `Clocks.steps` at which a running request has its last token
    heap_left: npt.NDArray[np.int32]
    heap_right: npt.NDArray[np.int32]


class Cache(NamedTuple):
    """The prefix caches of all replicas.

    A *place* is a run on a replica, or (behind those) a request's own blocks. On each replica its places form an LRU
    list; eviction eats a place from its front, so how many of its leading blocks are in RAM says all about it.
    """

    table: npt.NDArray[np.int64]  # run × R + replica to place; empty where that product is the place
    resident: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the run, in HBM or RAM
    in_hbm: npt.NDArray[np.uint64]  # (K, W) bit r: … all of it in HBM
    on_disk: npt.NDArray[np.bool_]  # (K,)
    older: npt.NDArray[np.int32]  # (places,) towards the least recently used, -1 = end
    newer: npt.NDArray[np.int32]  # (places,)
    ram_blocks: npt.NDArray[np.int32]  # (places,) leading blocks moved out to RAM
    oldest: npt.NDArray[np.int32]  # (R,) place, -1 = nothing in HBM
    newest: npt.NDArray[np.int32]  # (R,)
    hbm_blocks: npt.NDArray[np.int64]  # (R,) occupancy


class Flights(NamedTuple):
    """Copies: every one ever started (in order), and which of them are under way."""

    request: npt.NDArray[np.int32]
    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    start_s: npt.NDArray[np.float64]
    ready_s: npt.NDArray[np.float64]
    used: npt.NDArray[np.bool_]
    started: npt.NDArray[np.int64]  # (1,) how many were ever started
    flying: npt.NDArray[np.int32]  # copies under way, in the order they were started
    prefix: npt.NDArray[np.int32]  # of each in `flying`
    to: npt.NDArray[np.int32]  # target of each in `flying`
    count: npt.NDArray[np.int64]  # (1,) how many are under way
    in_flight: npt.NDArray[np.int32]  # (prefixes,) how many of each prefix
    next_ready_s: npt.NDArray[np.float64]  # (1,) when the first of them lands
    unproven: npt.NDArray[np.int32]  # (prefixes,) newest landed copy that no request has used yet, -1 = none …
    next_unproven: npt.NDArray[np.int32]  # … and the one before it, for each copy


class State(NamedTuple):
    """All of it."""

    clocks: Clocks
    links: Links
    cache: Cache
    flights: Flights
    out: Served
