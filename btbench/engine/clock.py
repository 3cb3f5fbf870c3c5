"""A replica's clock: admission with its prefill, decoding, and the end of requests."""

import math

from btbench.cluster.timing import decode_s, move_s, prefill_s
from btbench.engine.batch import join_batch, leave_batch
from btbench.engine.cache import evict, insert_own_blocks, insert_run, match_disk, match_prefix
from btbench.engine.copies import prove_copy
from btbench.jit import inlined

HBM, RAM, DISK, MISS = 0, 1, 2, 3  # as `btbench.engine.run.TIERS`


@inlined
def steps_within(costs, replica, limit_s, most):  # type: ignore[no-untyped-def]
    """The largest number of steps, at least 1 and below `most`, that takes no longer than `limit_s`.

    decode_s is a parabola in the steps, A s + B s² = limit × bandwidth: its root is a guess, the formula decides.
    """
    square = costs.kv_bytes_per_token * replica.batch / 2
    linear = costs.active_bytes + costs.kv_bytes_per_token * replica.context_tokens - square
    room = limit_s * replica.decode_bytes_per_s
    guess = 2 * room / (linear + math.sqrt(linear * linear + 4 * square * room))
    steps = max(1, min(int(guess), most - 1))
    while steps > 1 and decode_s(costs, replica, steps) > limit_s:
        steps -= 1
    while steps + 1 < most and decode_s(costs, replica, steps + 1) <= limit_s:
        steps += 1
    return steps


@inlined
def reuse(state, costs, i, r):  # type: ignore[no-untyped-def]
    """Match request i on replica r, choose between its own tiers and the disk; sets hit tokens, tier and reuse_s."""
    request = state.requests[i]
    served = state.served[i]
    replica = state.replicas[r]
    h, m = match_prefix(state.cache, state.replicas, request, r)
    blocks = h + m
    load_s = move_s(costs, m, replica.pcie_bytes_per_s)
    tier = HBM if m == 0 else RAM
    if costs.disk_cache:
        disk_blocks = match_disk(state.cache, request)
        disk_s = move_s(costs, disk_blocks, replica.disk_bytes_per_s)
        if disk_blocks > blocks or (disk_blocks == blocks and disk_s < load_s):
            blocks = disk_blocks
            load_s = disk_s
            tier = DISK
    served.hit_tokens = min(blocks * costs.block_tokens, request.cacheable_tokens)
    served.tier = tier if served.hit_tokens > 0 else MISS
    served.reuse_s = min(load_s, prefill_s(costs, replica, served.hit_tokens))  # recompute where loading is slower
    if tier != DISK and blocks >= costs.copy_blocks:
        prove_copy(state.flights, request.prefix, r)


@inlined
def admit(state, costs, i, r):  # type: ignore[no-untyped-def]
    """Request i leaves the queue of replica r, is prefilled and joins the batch; its blocks enter the cache."""
    request = state.requests[i]
    served = state.served[i]
    replica = state.replicas[r]
    replica.queue_head = served.next_queued
    replica.queued_tokens -= request.input_tokens
    reuse(state, costs, i, r)
    served.prefill_s = prefill_s(costs, replica, request.input_tokens - served.hit_tokens)
    served.start_s = replica.now
    replica.now += served.reuse_s + served.prefill_s
    replica.busy_s += served.reuse_s + served.prefill_s
    replica.used_tokens += request.input_tokens + request.output_tokens
    replica.context_tokens += request.input_tokens
    served.last_step = replica.steps + request.output_tokens
    join_batch(replica, state.served, i)
    cache = state.cache
    for k in range(request.runs_start, request.runs_stop):
        insert_run(cache, state.replicas, cache.run_list[k], r, replica.now)
        cache.runs[cache.run_list[k]].on_disk = True
    insert_own_blocks(cache, replica, state.requests, i)
    evict(cache, state.replicas, state.requests, r)


@inlined
def decode(state, costs, bounded, until, r):  # type: ignore[no-untyped-def]
    """Decode until the first sequence ends, or as far as fits before `until` (at least one step)."""
    replica = state.replicas[r]
    steps = state.served[replica.batch_root].last_step - replica.steps
    taken_s = decode_s(costs, replica, steps)
    if bounded and taken_s > until - replica.now and steps > 1:
        steps = steps_within(costs, replica, until - replica.now, steps)
        taken_s = decode_s(costs, replica, steps)
    replica.now += taken_s
    replica.busy_s += taken_s
    replica.steps += steps
    replica.context_tokens += replica.batch * steps
    while replica.batch > 0 and state.served[replica.batch_root].last_step == replica.steps:
        i = leave_batch(replica, state.served)
        state.served[i].finish_s = replica.now
        state.served[i].finished_before = replica.last_finished
        replica.last_finished = i
        replica.finished += 1
        replica.answered_tokens += state.requests[i].output_tokens
        tokens = state.requests[i].input_tokens + state.requests[i].output_tokens
        replica.used_tokens -= tokens
        replica.context_tokens -= tokens
        state.load[r] -= 1


@inlined
def advance(state, costs, bounded, until, r):  # type: ignore[no-untyped-def]
    """Advance a working replica to time `until`, or to its end; returns a request that can never fit, or -1."""
    replica = state.replicas[r]
    while True:
        while replica.queue_head >= 0 and replica.batch < costs.max_batch:
            i = replica.queue_head
            needed = state.requests[i].input_tokens + state.requests[i].output_tokens
            if replica.used_tokens + needed > replica.token_budget:
                if replica.batch == 0:
                    return i
                break
            admit(state, costs, i, r)
        if (bounded and replica.now >= until) or replica.batch == 0:
            return -1
        decode(state, costs, bounded, until, r)
