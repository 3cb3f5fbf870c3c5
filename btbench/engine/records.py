"""The nouns of a replay as records: replicas, requests, runs, places in the caches, copies. Times in seconds.

Arrays of records keep what is used together together, and a bundle of few arrays compiles fast. They are
`numpy.recarray`s, so that kernels read `replica.now` whether compiled or not.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Records = np.recarray[tuple[int], np.dtype[np.void]]

REPLICA = np.dtype(
    [
        ("now", "f8"),  # its clock
        ("busy_s", "f8"),  # time spent loading, prefilling, decoding, receiving copies
        ("prefill_flops", "f8"),  # FLOP/s × mfu
        ("decode_bytes_per_s", "f8"),  # HBM bandwidth × mbu
        ("pcie_bytes_per_s", "f8"),
        ("rdma_bytes_per_s", "f8"),
        ("disk_bytes_per_s", "f8"),
        ("token_budget", "i8"),  # KV tokens admitted at once
        ("cache_budget", "i8"),  # blocks of the prefix cache in HBM
        ("used_tokens", "i8"),  # input + output of what runs
        ("context_tokens", "i8"),  # of what runs, as far as it is decoded
        ("steps", "i8"),  # decode steps done since the start
        ("queued_tokens", "i8"),  # input of what waits
        ("hbm_blocks", "i8"),  # occupancy of the prefix cache in HBM
        ("batch", "i4"),  # running requests
        ("batch_root", "i4"),  # the one that finishes first, root of a skew heap; -1 = none runs
        ("queue_head", "i4"),  # the request admitted next; -1 = none waits
        ("queue_tail", "i4"),
        ("oldest", "i4"),  # place used longest ago among those with blocks in HBM; -1 = none
        ("newest", "i4"),
        ("last_finished", "i4"),  # the request that ended here last; -1 = none yet
        ("finished", "i4"),  # requests that ended here …
        ("answered_tokens", "i8"),  # … and the length of their answers in all
    ],
    align=True,
)

REQUEST = np.dtype(
    [
        ("arrival_s", "f8"),
        ("input_tokens", "i8"),
        ("cacheable_tokens", "i8"),  # min(prompt blocks × block_tokens, input)
        ("runs_start", "i8"),  # its shared runs are runs[runs_start:runs_stop]
        ("runs_stop", "i8"),
        ("prefix", "i4"),  # id of the first Y blocks; -1 where no other request can share them
        ("prefix_runs", "i4"),  # how many runs they are
        ("prompt_blocks", "i4"),  # as listed, which may be fewer or more than the input takes
        ("burst", "?"),  # X requests with this prefix within Z s, this one included
        ("output_tokens", "i8"),
        ("own_blocks", "i8"),  # blocks no other request can hit: the prompt's tail and the answer's room
    ],
    align=True,
)

# what a policy may know of a request: all but how long its answer will be, and what follows from that
SEEN_OF_REQUEST = [name for name in REQUEST.names or () if name not in ("output_tokens", "own_blocks")]

# and of a replica: what it can do, its clock and what it holds; not what it has admitted answers for
SEEN_OF_ANSWERS = ["last_finished", "finished", "answered_tokens"]  # a router sees answers end, without any report
_UNSEEN_OF_REPLICA = ("used_tokens", "steps", "batch_root", "hbm_blocks", *SEEN_OF_ANSWERS)
SEEN_OF_REPLICA = [name for name in REPLICA.names or () if name not in _UNSEEN_OF_REPLICA]

SERVED = np.dtype(
    [
        ("start_s", "f8"),  # admission; not a number before
        ("reuse_s", "f8"),
        ("prefill_s", "f8"),
        ("finish_s", "f8"),
        ("hit_tokens", "i8"),
        ("last_step", "i8"),  # `steps` of its replica at its last token
        ("replica", "i4"),
        ("tier", "i1"),  # index into `run.TIERS`
        ("next_queued", "i4"),  # behind it in the queue; -1 = nobody
        ("finished_before", "i4"),  # the one that ended before it on its replica; -1 = nobody
        ("heap_left", "i4"),  # below it in the batch's heap; -1 = nobody
        ("heap_right", "i4"),
    ],
    align=True,
)

# and of what became of a request: when its prefill starts and ends; not how long its answer takes
SEEN_OF_SERVED = ["start_s", "reuse_s", "prefill_s", "finished_before"]

RUN = np.dtype([("blocks", "i4"), ("on_disk", "?")], align=True)

CHANGE = np.dtype([("run", "i4"), ("replica", "i4"), ("change", "i4")], align=True)  # `cache.CAME` or LEFT_HBM

# A run on a replica, or (behind those) a request's own blocks. On each replica its places form an LRU list; eviction
# eats a place from its front, so how many of its leading blocks are in RAM says all about it.
PLACE = np.dtype(
    [
        ("older", "i4"),  # towards the least recently used; -1 = end
        ("newer", "i4"),
        ("ram_blocks", "i4"),  # leading blocks moved out to RAM
    ],
    align=True,
)

COPY = np.dtype(
    [
        ("start_s", "f8"),
        ("ready_s", "f8"),
        ("request", "i4"),  # at whose arrival it was ordered; the blocks are this one's first Y
        ("prefix", "i4"),  # -1: a transfer on a request's own path
        ("source", "i4"),
        ("target", "i4"),
        ("blocks", "i4"),
        ("next_unproven", "i4"),  # earlier landed copy of the prefix that no request has used yet; -1 = none
        ("used", "?"),
    ],
    align=True,
)

PREFIX = np.dtype(
    [
        ("in_flight", "i4"),  # copies under way
        ("unproven", "i4"),  # latest landed copy that no request has used yet; -1 = none
    ],
    align=True,
)


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
    copies_wait: bool  # KV leaves a replica no earlier than it is there


class Cache(NamedTuple):
    """The prefix caches of all R replicas over K runs, W = ceil(R / 64) words of replica bits."""

    run_list: npt.NDArray[np.int32]  # the requests' runs, one request after the other
    runs: Records  # (K,) RUN
    resident: npt.NDArray[np.uint64]  # (K, W) bit r: replica r holds the run, in HBM or RAM
    in_hbm: npt.NDArray[np.uint64]  # (K, W) bit r: … all of it in HBM
    table: npt.NDArray[np.int64]  # run × R + replica to place; empty where that product is the place
    places: Records  # PLACE, the last N for the requests' own blocks
    log: Records  # CHANGE of bits, in order; empty where nobody sees old caches
    logged: npt.NDArray[np.int64]  # (1,) how many
    ready_s: npt.NDArray[np.float64]  # of each place of a run, when it is there; empty where copies do not wait


class Flights(NamedTuple):
    """Copies: every one ever started, and which of them are under way."""

    copies: Records  # COPY, in the order they were started
    started: npt.NDArray[np.int64]  # (1,) how many
    flying: npt.NDArray[np.int32]  # copies under way, in the order they were started
    under_way: npt.NDArray[np.int64]  # (1,) how many
    next_ready_s: npt.NDArray[np.float64]  # (1,) when the first of them is ready
    prefixes: Records  # PREFIX


class State(NamedTuple):
    """A cluster in the middle of a replay: R replicas, N requests."""

    replicas: Records  # (R,) REPLICA
    load: npt.NDArray[np.int32]  # (R,) requests in flight: queued and running
    working: npt.NDArray[np.int32]  # replicas with load > 0, in cluster order …
    workers: npt.NDArray[np.int64]  # (1,) … and how many
    requests: Records  # (N,) REQUEST, read-only
    served: Records  # (N,) SERVED
    cache: Cache
    flights: Flights
