"""Making the arrays of one replay. Large ones are left untouched, so that only what a replay reaches takes memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from btbench.cluster.setup import ServingOptions, Setup
from btbench.engine.records import (
    CHANGE,
    COPY,
    PLACE,
    PREFIX,
    REPLICA,
    RUN,
    SEEN_OF_ANSWERS,
    SEEN_OF_REPLICA,
    SEEN_OF_REQUEST,
    SEEN_OF_SERVED,
    SERVED,
    Cache,
    Costs,
    Flights,
    Records,
    State,
)
from btbench.engine.signals import Signals
from btbench.engine.workload import Workload
from btbench.jit import read_only
from btbench.pairs import dense_or_empty
from btbench.policies.view import ClusterView, CopyOrders


def records(array: npt.NDArray[np.void]) -> Records:
    """The same memory, its fields as attributes."""
    return array.view(np.recarray)


def idle_replicas(setup: Setup, options: ServingOptions, block_tokens: int) -> Records:
    """The replicas of a setup, idle and empty. Raises CapacityError where the model does not fit one of them."""
    of = setup.replicas
    replicas = records(np.zeros(len(of), REPLICA))
    replicas["prefill_flops"] = [r.flops * options.mfu for r in of]
    replicas["decode_bytes_per_s"] = [r.hbm_bytes_per_s * options.mbu for r in of]
    replicas["pcie_bytes_per_s"] = [r.pcie_bytes_per_s for r in of]
    replicas["rdma_bytes_per_s"] = [r.rdma_bytes_per_s for r in of]
    replicas["disk_bytes_per_s"] = [r.disk_bytes_per_s for r in of]
    replicas["token_budget"] = [setup.kv_token_budget(r, block_tokens) for r in of]
    replicas["cache_budget"] = [setup.cache_budget_blocks(r, block_tokens) for r in of]
    for name in ("batch_root", "queue_head", "queue_tail", "oldest", "newest", "last_finished"):
        replicas[name] = -1
    return replicas


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
        copies_wait=options.copies_wait,
    )


def new_cache(work: Workload, replicas: int, copied_runs: int, logs_changes: bool, copies_wait: bool) -> Cache:
    """Empty caches; `copied_runs` bounds how often copies can bring a run to a replica."""
    # a request's runs come with it, or with a transfer before; what has come can leave once
    changes = 2 * (2 * len(work.run_list) + copied_runs) + 1 if logs_changes else 0
    runs = len(work.run_blocks)
    words = (replicas + 63) // 64
    table = dense_or_empty(max(1, runs * replicas), len(work.run_list) + copied_runs)
    places = len(table) or runs * replicas
    run_records = records(np.zeros(runs, RUN))
    run_records["blocks"] = work.run_blocks
    return Cache(
        run_list=work.run_list,
        runs=run_records,
        resident=np.zeros((runs, words), np.uint64),
        in_hbm=np.zeros((runs, words), np.uint64),
        table=table,
        places=records(np.zeros(places + len(work.requests), PLACE)),
        log=records(np.empty(changes, CHANGE)),
        logged=np.zeros(1, np.int64),
        ready_s=np.empty(places if copies_wait else 0),
    )


def new_state(
    work: Workload,
    idle: Records,
    copy_room: int,
    copied_runs: int,
    logs_changes: bool = False,
    copies_wait: bool = False,
) -> State:
    """A fresh cluster before the first arrival.

    Its caches log changes where a router is to see old ones, and know when KV is there where copies wait for it.
    """
    prefixes = records(np.zeros(int(work.requests.prefix.max(initial=-1)) + 1, PREFIX))
    prefixes["unproven"] = -1
    served = records(np.empty(len(work.requests), SERVED))
    served["start_s"] = served["finish_s"] = np.nan  # a request that is never finished would keep it
    flights = Flights(
        copies=records(np.empty(copy_room, COPY)),
        started=np.zeros(1, np.int64),
        flying=np.empty(copy_room, np.int32),
        under_way=np.zeros(1, np.int64),
        next_ready_s=np.full(1, np.inf),
        prefixes=prefixes,
    )
    return State(
        replicas=records(idle.copy()),
        load=np.zeros(len(idle), np.int32),
        working=np.empty(len(idle), np.int32),
        workers=np.zeros(1, np.int64),
        requests=work.requests,
        served=served,
        cache=new_cache(work, len(idle), copied_runs, logs_changes, copies_wait),
        flights=flights,
    )


def view_of(work: Workload, state: State, costs: Costs, signals: Signals, counts_itself: bool = False) -> ClusterView:
    """What a policy may look at: the same memory, read-only, without the length of answers.

    One that `counts_itself` (the answers it has sent on and not seen end) knows the load whatever reports say.
    """
    flights = state.flights
    load, resident, in_hbm, replicas = state.load, state.cache.resident, state.cache.in_hbm, state.replicas
    flying, flights_now, prefixes = flights.flying, flights.under_way, flights.prefixes
    if signals.delay_s > 0:
        load = state.load if counts_itself else signals.seen_load
        replicas = signals.seen_replicas
        resident, in_hbm = signals.seen_resident, signals.seen_in_hbm
        flying, flights_now, prefixes = signals.awaited, signals.awaited_count, signals.seen_prefixes
    return ClusterView(
        seen_s=read_only(signals.seen_s),
        load=read_only(load),
        resident=read_only(resident),
        in_hbm=read_only(in_hbm),
        replicas=records(read_only(replicas[SEEN_OF_REPLICA])),
        answers=records(read_only(state.replicas[SEEN_OF_ANSWERS])),
        requests=records(read_only(work.requests[SEEN_OF_REQUEST])),
        run_list=read_only(work.run_list),
        run_blocks=read_only(work.run_blocks),
        on_disk=read_only(state.cache.runs["on_disk"]),
        place_table=read_only(state.cache.table),
        places=records(read_only(state.cache.places[["ram_blocks"]])),
        path=work.path,
        parent=work.parent,
        node_blocks=work.node_blocks,
        served=records(read_only(state.served[SEEN_OF_SERVED])),
        costs=costs,
        copies=records(read_only(flights.copies)),
        flying=read_only(flying),
        flights=read_only(flights_now),
        prefixes=records(read_only(prefixes)),
    )


def new_orders(replicas: int) -> CopyOrders:
    """An empty list of copies."""
    return CopyOrders(
        ordered=np.zeros(1, np.int64),
        target=np.empty(replicas, np.int32),
        source=np.empty(replicas, np.int32),
        transfer_runs=np.zeros(1, np.int64),
        transfer_source=np.zeros(1, np.int64),
    )
