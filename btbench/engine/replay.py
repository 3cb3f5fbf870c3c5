"""The one door of the engine: `replay` for one window, `replay_grid` for all of a scenario."""

from __future__ import annotations

import random
import time
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.cluster.setup import ServingOptions, Setup
from btbench.engine import allocate
from btbench.engine.loop import (
    DONE,
    OUT_OF_COPIES,
    OUT_OF_DRAWS,
    TOO_LARGE,
    WRONG_ORDER,
    WRONG_REPLICA,
    replay_requests,
    replay_requests_uncached,
)
from btbench.engine.records import Costs, Records, State
from btbench.engine.run import Copies, Run, Served
from btbench.engine.signals import new_signals
from btbench.engine.workload import Workload, build_workload
from btbench.errors import CapacityError, PolicyError, TraceError
from btbench.jit import compiled_kernels
from btbench.policies.compiled import check_compiles
from btbench.policies.custom import Callback
from btbench.policies.memory import PluginMemory, new_memory
from btbench.policies.registry import Policy
from btbench.policies.view import Draws
from btbench.trace import Trace


@lru_cache(maxsize=2)
def twister_outputs(seed: int, count: int) -> npt.NDArray[np.uint32]:
    """The first `count` 32-bit outputs of CPython's `random.Random(seed)`."""
    outputs = np.frombuffer(random.Random(seed).randbytes(4 * count), "<u4").astype(np.uint32)
    outputs.setflags(write=False)
    return outputs


def replay(trace: Trace, setup: Setup, policy: Policy, options: ServingOptions, seed: int) -> Run:
    """Replay one window (`trace` as a whole) on a fresh cluster.

    Raises CapacityError where the model does not fit a replica, or a request its KV budget; TraceError where the
    trace has no times or no block size.
    """
    check_replayable(trace)
    policy = policy.for_blocks(trace.block_tokens)
    work = build_workload(trace, policy.parameters.btb)
    idle = allocate.idle_replicas(setup, options, trace.block_tokens)
    return replay_workload(trace, work, setup, idle, policy, options, seed)


def check_replayable(trace: Trace) -> None:
    """Raises TraceError where a trace cannot be replayed at all."""
    if not trace.has_times:
        raise TraceError(
            f"{trace.name}: has no timestamps, so it cannot be replayed", "Use a trace with arrival times."
        )
    if trace.block_tokens < 1:
        raise TraceError(
            f"{trace.name}: does not tell its block size, and the cluster model needs one",
            "Say it: --block-tokens, or block_tokens in [trace] of the scenario, e.g. block_tokens = 256.",
        )


class _Attempt(NamedTuple):
    """One pass of the kernel over a window."""

    status: int
    request: int  # the one it stopped at
    where: int  # the replica
    state: State
    callback: Callback | None
    engine_s: float
    was_compiled: bool  # whether the kernel had to be compiled (or read from disk) first


def replay_workload(
    trace: Trace, work: Workload, setup: Setup, idle: Records, policy: Policy, options: ServingOptions, seed: int
) -> Run:
    """`replay` of a window whose workload and idle replicas are at hand; room for draws and copies grows as needed."""
    n = len(work.requests)
    costs = allocate.costs_of(setup, options, trace.block_tokens, policy.parameters.btb.prefix_blocks)
    # a pick takes 2 outputs on average, with a spread of sqrt(2): 12 standard deviations of all picks are enough
    draw_room = 2 * n + int(17 * n**0.5) + 1024
    copy_room = n + 1024 if policy.moves_kv else 1
    while True:
        attempt = _attempt(work, idle, costs, policy, options, seed, draw_room, copy_room)
        if attempt.status == OUT_OF_DRAWS:
            draw_room *= 2
        elif attempt.status == OUT_OF_COPIES:
            copy_room *= 2
        elif not attempt.was_compiled:  # else once more, so that engine_s holds no compiling
            break
    _check(attempt, trace, setup, idle, policy)
    state = attempt.state
    unknown_tokens = work.requests.input_tokens - work.known_tokens
    flown = state.flights.copies[: state.flights.started[0]]
    return Run(
        served=Served(*(np.ascontiguousarray(state.served[name]) for name in Served._fields)),
        copies=Copies(*(np.ascontiguousarray(flown[name]) for name in Copies._fields)),
        block_bytes=costs.block_bytes,
        floor_ttft_s=costs.flops_per_token * unknown_tokens / idle.prefill_flops.max(),
        busy_s=np.ascontiguousarray(state.replicas.busy_s),
        engine_s=attempt.engine_s,
    )


def _attempt(
    work: Workload,
    idle: Records,
    costs: Costs,
    policy: Policy,
    options: ServingOptions,
    seed: int,
    draw_room: int,
    copy_room: int,
) -> _Attempt:
    kernel = replay_requests_uncached if policy.is_compiled_plugin else replay_requests
    compiled_before = compiled_kernels(kernel)
    draws = Draws(twister_outputs(seed, draw_room), np.zeros(1, np.int64))
    state = allocate.new_state(
        work, idle, copy_room, _copied_runs(work, policy, len(idle)), options.signal_delay_s > 0, options.copies_wait
    )
    signals = new_signals(work, state, options)
    view = allocate.view_of(work, state, costs, signals, policy.counts_itself)
    orders = allocate.new_orders(len(idle))
    callback = Callback(policy, view, orders, seed) if policy.is_python else None
    memory = callback.memory if callback else new_memory(policy, view)
    if isinstance(memory, PluginMemory):
        check_compiles(policy, view, memory.memory, draws, orders)
    started = time.thread_time()  # of this thread alone: not the wait for an interpreter that others hold
    try:
        status, request, where = kernel(
            policy.code, policy.kernel_parameters(), view, costs, state, signals, draws, memory, orders
        )
    except Exception as error:
        if not policy.is_compiled_plugin:
            raise
        routed = state.load.sum() + state.replicas.finished.sum()
        raise PolicyError(f"policy {policy.name!r}, request {routed}: {type(error).__name__}: {error}") from error
    engine_s = time.thread_time() - started
    was_compiled = compiled_kernels(kernel) > compiled_before
    return _Attempt(status, request, where, state, callback, engine_s, was_compiled)


def _copied_runs(work: Workload, policy: Policy, replicas: int) -> int:
    """How often copies can bring a run to a replica, at most: `btb` copies at bursts, one's own policy at any time."""
    requests = work.requests
    if policy.kind == "btb":
        return min(policy.parameters.btb.copies, replicas) * int(requests.prefix_runs[requests.burst].sum())
    return replicas * int(requests.prefix_runs.sum()) if policy.kind == "custom" else 0


def _check(attempt: _Attempt, trace: Trace, setup: Setup, idle: Records, policy: Policy) -> None:
    """Raises what stopped the replay, if anything did."""
    if attempt.callback and attempt.callback.error:
        raise attempt.callback.error
    if attempt.status == TOO_LARGE:
        raise _too_large(trace, setup, attempt.request, attempt.where, int(idle[attempt.where].token_budget))
    if attempt.status == WRONG_REPLICA:
        raise PolicyError(
            f"policy {policy.name!r}, request {attempt.request}: no replica {attempt.where}",
            f"Replicas are 0 … {len(idle) - 1}.",
        )
    if attempt.status == WRONG_ORDER:
        raise PolicyError(
            f"policy {policy.name!r}, request {attempt.request}: orders a copy or transfer that cannot be made",
            f"Replicas are 0 … {len(idle) - 1}. The source of a copy holds the request's first Y blocks in HBM, its "
            "target does not, and has one copy; a transfer takes the request's first shared runs from another replica "
            "that holds them.",
        )
    served = attempt.state.served
    is_missing = np.isnan(served.finish_s) & (served.replica >= 0)
    assert attempt.status == DONE and not is_missing.any(), "a request was neither served nor rejected"


def _too_large(trace: Trace, setup: Setup, request: int, replica: int, budget: int) -> CapacityError:
    window = trace.windows[0]
    place = f"request {request}" + (f" of window {window.name}" if window.name != "0" else "")
    tokens = int(trace.input_tokens[request] + trace.output_tokens[request])
    return CapacityError(
        f"setup {setup.name!r}: {place} of {trace.name} needs {tokens:,} tokens of KV "
        f"({trace.input_tokens[request]:,} input + {trace.output_tokens[request]:,} output), "
        f"replica {setup.replicas[replica].name!r} has room for {budget:,}",
        "Use more or larger GPUs a replica, or leave such requests out of the trace.",
    )
