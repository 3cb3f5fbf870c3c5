"""A replica's clock: admission with its prefill, decoding, and the end of requests."""

import math

from btbench.engine.batch import join_batch, leave_batch
from btbench.engine.cache import evict, insert_own_blocks, insert_run, match_disk, match_prefix
from btbench.engine.copies import prove_copy
from btbench.jit import inlined

HBM, RAM, DISK, MISS = 0, 1, 2, 3  # as `btbench.engine.run.TIERS`


@inlined
def prefill_s(costs, rates, tokens, r):  # type: ignore[no-untyped-def]
    """2 × active parameters × tokens / (FLOP/s × mfu)."""
    return costs.flops_per_token * tokens / rates.prefill_flops[r]


@inlined
def decode_s(costs, rates, steps, batch, context, r):  # type: ignore[no-untyped-def]
    """Time of `steps` decode steps of `batch` sequences whose contexts sum to `context` tokens at the start.

    Each step reads the active weights once and every sequence's KV, which grows by a token a step.
    """
    kv_tokens = steps * context + batch * steps * (steps - 1) / 2
    return (costs.active_bytes * steps + costs.kv_bytes_per_token * kv_tokens) / rates.decode_bytes_per_s[r]


@inlined
def steps_within(costs, rates, limit_s, most, batch, context, r):  # type: ignore[no-untyped-def]
    """The largest number of steps, at least 1 and below `most`, that takes no longer than `limit_s`.

    decode_s is a parabola in the steps, A s + B s² = limit × bandwidth: its root is a guess, the formula decides.
    """
    square = costs.kv_bytes_per_token * batch / 2
    linear = costs.active_bytes + costs.kv_bytes_per_token * context - square
    room = limit_s * rates.decode_bytes_per_s[r]
    guess = 2 * room / (linear + math.sqrt(linear * linear + 4 * square * room))
    steps = max(1, min(int(guess), most - 1))
    while steps > 1 and decode_s(costs, rates, steps, batch, context, r) > limit_s:
        steps -= 1
    while steps + 1 < most and decode_s(costs, rates, steps + 1, batch, context, r) <= limit_s:
        steps += 1
    return steps


@inlined
def reuse(cache, work, costs, rates, flights, out, i, r):  # type: ignore[no-untyped-def]
    """Match request i on replica r, choose between its own tiers and the disk; sets hit tokens, tier and reuse_s."""
    h, m = match_prefix(cache, work, i, r)
    blocks = h + m
    load_s = m * costs.block_bytes / rates.pcie_bytes_per_s[r]
    tier = HBM if m == 0 else RAM
    if costs.disk_cache:
        disk_blocks = match_disk(cache, work, i)
        disk_s = disk_blocks * costs.block_bytes / rates.disk_bytes_per_s[r]
        if disk_blocks > blocks or (disk_blocks == blocks and disk_s < load_s):
            blocks = disk_blocks
            load_s = disk_s
            tier = DISK
    hit_tokens = min(blocks * costs.block_tokens, work.cacheable_tokens[i])
    out.hit_tokens[i] = hit_tokens
    out.tier[i] = tier if hit_tokens > 0 else MISS
    out.reuse_s[i] = min(load_s, prefill_s(costs, rates, hit_tokens, r))  # recompute where loading is slower
    if tier != DISK and blocks >= costs.copy_blocks:
        prove_copy(flights, work, i, r)


@inlined
def admit(clocks, links, cache, work, costs, rates, flights, out, i, r):  # type: ignore[no-untyped-def]
    """Request i leaves the queue of replica r, is prefilled and joins the batch."""
    clocks.queue_head[r] = links.next_queued[i]
    reuse(cache, work, costs, rates, flights, out, i, r)
    out.prefill_s[i] = prefill_s(costs, rates, work.input_tokens[i] - out.hit_tokens[i], r)
    out.start_s[i] = clocks.now[r]
    taken_s = out.reuse_s[i] + out.prefill_s[i]
    clocks.now[r] += taken_s
    clocks.busy_s[r] += taken_s
    clocks.used_tokens[r] += work.input_tokens[i] + work.output_tokens[i]
    clocks.context_tokens[r] += work.input_tokens[i]
    links.last_step[i] = clocks.steps[r] + work.output_tokens[i]
    join_batch(clocks, links, i, r)
    for k in range(work.run_offsets[i], work.run_offsets[i + 1]):
        insert_run(cache, work, work.runs[k], r)
        cache.on_disk[work.runs[k]] = True
    insert_own_blocks(cache, work, i, r)
    evict(cache, work, rates, r)


@inlined
def decode(clocks, links, work, costs, rates, out, bounded, until, r):  # type: ignore[no-untyped-def]
    """Decode until the first sequence ends, or as far as fits before `until` (at least one step)."""
    batch = clocks.batch[r]
    context = clocks.context_tokens[r]
    steps = links.last_step[clocks.batch_root[r]] - clocks.steps[r]
    taken_s = decode_s(costs, rates, steps, batch, context, r)
    if bounded and taken_s > until - clocks.now[r] and steps > 1:
        steps = steps_within(costs, rates, until - clocks.now[r], steps, batch, context, r)
        taken_s = decode_s(costs, rates, steps, batch, context, r)
    clocks.now[r] += taken_s
    clocks.busy_s[r] += taken_s
    clocks.steps[r] += steps
    clocks.context_tokens[r] += batch * steps
    while clocks.batch[r] > 0 and links.last_step[clocks.batch_root[r]] == clocks.steps[r]:
        i = leave_batch(clocks, links, r)
        out.finish_s[i] = clocks.now[r]
        tokens = work.input_tokens[i] + work.output_tokens[i]
        clocks.used_tokens[r] -= tokens
        clocks.context_tokens[r] -= tokens
        clocks.load[r] -= 1


@inlined
def advance(clocks, links, cache, work, costs, rates, flights, out, bounded, until, r):  # type: ignore[no-untyped-def]
    """Advance a working replica to time `until`, or to its end; returns a request that can never fit, or -1."""
    while True:
        while clocks.queue_head[r] >= 0 and clocks.batch[r] < costs.max_batch:
            i = clocks.queue_head[r]
            needed = work.input_tokens[i] + work.output_tokens[i]
            if clocks.used_tokens[r] + needed > rates.token_budget[r]:
                if clocks.batch[r] == 0:
                    return i
                break
            admit(clocks, links, cache, work, costs, rates, flights, out, i, r)
        if (bounded and clocks.now[r] >= until) or clocks.batch[r] == 0:
            return -1
        decode(clocks, links, work, costs, rates, out, bounded, until, r)
