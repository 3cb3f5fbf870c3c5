"""Making the arrays of one replay. Large ones are left untouched, so that only what a replay reaches takes memory."""

from __future__ import annotations

import numpy as np

from btbench.cluster.setup import ServingOptions, Setup
from btbench.engine.arrays import Cache, Clocks, Costs, Flights, Links, Rates, State
from btbench.engine.pairs import dense_or_empty
from btbench.engine.run import Served
from btbench.engine.workload import Workload
from btbench.jit import read_only
from btbench.policies.view import ClusterView, CopyOrders, Memory


def rates_of(setup: Setup, options: ServingOptions, block_tokens: int) -> Rates:
    """What the replicas of a setup can do. Raises CapacityError where the model does not fit one of them."""
    replicas = setup.replicas
    return Rates(
        prefill_flops=np.array([r.flops * options.mfu for r in replicas]),
        decode_bytes_per_s=np.array([r.hbm_bytes_per_s * options.mbu for r in replicas]),
        pcie_bytes_per_s=np.array([r.pcie_bytes_per_s for r in replicas]),
        rdma_bytes_per_s=np.array([r.rdma_bytes_per_s for r in replicas]),
        disk_bytes_per_s=np.array([r.disk_bytes_per_s for r in replicas]),
        token_budget=np.array([setup.kv_token_budget(r, block_tokens) for r in replicas]),
        cache_budget=np.array([setup.cache_budget_blocks(r, block_tokens) for r in replicas]),
    )


def costs_of(setup: Setup, options: ServingOptions, block_tokens: int, copy_blocks: int) -> Costs:
    """The model's numbers, and the serving options."""
    model = setup.model
    return Costs(
        flops_per_token=float(2 * model.active_params),
        active_bytes=float(model.active_bytes),
        kv_bytes_per_token=float(model.kv_bytes_per_token),
        block_bytes=float(model.kv_bytes_per_token * block_tokens),
        block_tokens=block_tokens,
        copy_blocks=copy_blocks,
        max_batch=options.max_batch,
        disk_cache=options.disk_cache,
    )


def new_state(work: Workload, replicas: int, copy_room: int, copies_per_request: int) -> State:
    """A fresh cluster before the first arrival."""
    n = len(work.arrival_s)
    prefixes = int(work.prefix.max(initial=-1)) + 1
    nobody = np.full(replicas, -1, np.int32)
    clocks = Clocks(
        now=np.zeros(replicas),
        busy_s=np.zeros(replicas),
        load=np.zeros(replicas, np.int32),
        batch=np.zeros(replicas, np.int32),
        used_tokens=np.zeros(replicas, np.int64),
        context_tokens=np.zeros(replicas, np.int64),
        steps=np.zeros(replicas, np.int64),
        queue_head=nobody,
        queue_tail=nobody.copy(),
        batch_root=nobody.copy(),
        working=np.empty(replicas, np.int32),
        workers=np.zeros(1, np.int64),
    )
    links = Links(
        next_queued=np.empty(n, np.int32),
        last_step=np.empty(n, np.int64),
        heap_left=np.empty(n, np.int32),
        heap_right=np.empty(n, np.int32),
    )
    flights = Flights(
        request=np.empty(copy_room, np.int32),
        source=np.empty(copy_room, np.int32),
        target=np.empty(copy_room, np.int32),
        start_s=np.empty(copy_room),
        ready_s=np.empty(copy_room),
        used=np.empty(copy_room, np.bool_),
        started=np.zeros(1, np.int64),
        flying=np.empty(copy_room, np.int32),
        prefix=np.empty(copy_room, np.int32),
        to=np.empty(copy_room, np.int32),
        count=np.zeros(1, np.int64),
        in_flight=np.zeros(prefixes, np.int32),
        next_ready_s=np.full(1, np.inf),
        unproven=np.full(prefixes, -1, np.int32),
        next_unproven=np.empty(copy_room, np.int32),
    )
    return State(clocks, links, _new_cache(work, replicas, copies_per_request), flights, new_outcome(n))


def _new_cache(work: Workload, replicas: int, copies_per_request: int) -> Cache:
    n = len(work.arrival_s)
    runs = len(work.run_blocks)
    words = (replicas + 63) // 64
    touches = len(work.runs) + copies_per_request * int(work.prefix_runs[work.burst].sum())
    table = dense_or_empty(max(1, runs * replicas), touches)
    places = (len(table) or runs * replicas) + n
    return Cache(
        table=table,
        resident=np.zeros((runs, words), np.uint64),
        in_hbm=np.zeros((runs, words), np.uint64),
        on_disk=np.zeros(runs, np.bool_),
        older=np.empty(places, np.int32),
        newer=np.empty(places, np.int32),
        ram_blocks=np.zeros(places, np.int32),
        oldest=np.full(replicas, -1, np.int32),
        newest=np.full(replicas, -1, np.int32),
        hbm_blocks=np.zeros(replicas, np.int64),
    )


def new_outcome(n: int) -> Served:
    """What a replay fills in; a request that is never finished would keep its NaN."""
    return Served(
        replica=np.full(n, -1, np.int32),
        start_s=np.empty(n),
        reuse_s=np.empty(n),
        prefill_s=np.empty(n),
        finish_s=np.full(n, np.nan),
        hit_tokens=np.empty(n, np.int64),
        tier=np.empty(n, np.int8),
    )


def view_of(work: Workload, state: State) -> ClusterView:
    """What a policy may look at: the same memory, read-only."""

    seen = {
        "load": state.clocks.load,
        "resident": state.cache.resident,
        "in_hbm": state.cache.in_hbm,
        "in_flight": state.flights.in_flight,
        "flight_prefix": state.flights.prefix,
        "flight_target": state.flights.to,
        "flights": state.flights.count,
    }
    return ClusterView(
        **{name: read_only(seen[name] if name in seen else getattr(work, name)) for name in ClusterView._fields}
    )


def new_orders(replicas: int) -> CopyOrders:
    """An empty list of copies."""
    return CopyOrders(np.zeros(1, np.int64), np.empty(replicas, np.int32), np.empty(replicas, np.int32))


def new_memory(replicas: int) -> Memory:
    """What policies remember, before the first request."""
    return Memory(np.zeros(1, np.int64), np.zeros((replicas + 63) // 64, np.uint64), np.zeros(replicas, np.bool_))
