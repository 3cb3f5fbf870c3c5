"""How much of a prompt each replica holds, and what a router can make of it."""

import numpy as np

from btbench.jit import inlined
from btbench.pairs import place_of
from btbench.policies.bits import NONE, ONE, has


@inlined
def count_leading(masks, symbols, lengths, start, stop, candidates, blocks):  # type: ignore[no-untyped-def]
    """Set blocks[r] to the length of the leading symbols[start:stop] whose bit r is set in `masks`, for every replica.

    Symbol by symbol, only the replicas that hold all so far are looked at; `candidates` is scratch.
    """
    for r in range(len(blocks)):
        blocks[r] = 0
    for k in range(start, stop):
        symbol = symbols[k]
        any_left = NONE
        for word in range(len(candidates)):
            bits = masks[symbol, word] if k == start else masks[symbol, word] & candidates[word]
            candidates[word] = bits
            any_left |= bits
            r = 64 * word
            while bits != NONE:
                if bits & ONE != NONE:
                    blocks[r] += lengths[symbol]
                bits >>= ONE
                r += 1
        if any_left == NONE:
            break


@inlined
def count_resident(view, i, candidates, blocks):  # type: ignore[no-untyped-def]
    """Set blocks[r] to how many leading blocks of request i's prompt replica r holds, in HBM or RAM."""
    request = view.requests[i]
    count_leading(
        view.resident, view.run_list, view.run_blocks, request.runs_start, request.runs_stop, candidates, blocks
    )


@inlined
def longest(blocks):  # type: ignore[no-untyped-def]
    """The replica with the most blocks, the first in order on ties."""
    most = 0
    for r in range(1, len(blocks)):
        if blocks[r] > blocks[most]:
            most = r
    return most


@inlined
def ram_blocks(view, i, r):  # type: ignore[no-untyped-def]
    """How many of the leading blocks of request i's prompt that replica r holds lie in RAM."""
    blocks = 0
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        run = view.run_list[k]
        if not has(view.resident[run], r):
            break
        if not has(view.in_hbm[run], r):
            blocks += view.places[place_of(view.place_table, run * len(view.load) + r)].ram_blocks
    return blocks


@inlined
def disk_blocks(view, i):  # type: ignore[no-untyped-def]
    """How many leading blocks of request i's prompt are on the shared disk; 0 where there is none."""
    blocks = 0
    if view.costs.disk_cache:
        for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
            run = view.run_list[k]
            if not view.on_disk[run]:
                break
            blocks += view.run_blocks[run]
    return blocks


@inlined
def hit_tokens(view, i, blocks):  # type: ignore[no-untyped-def]
    """Tokens of request i's input that its first `blocks` blocks save from prefill."""
    return min(blocks * view.costs.block_tokens, view.requests[i].cacheable_tokens)


@inlined
def prompt_blocks(view, i):  # type: ignore[no-untyped-def]
    """Blocks that request i's prompt takes: those listed, and one for each block of tokens beyond them."""
    needed = -(-view.requests[i].input_tokens // view.costs.block_tokens)
    return max(needed, np.int64(view.requests[i].prompt_blocks))


@inlined
def order_transfer(view, i, blocks, source, orders):  # type: ignore[no-untyped-def]
    """Ask for request i's first `blocks` blocks to be brought from `source`, which holds them, ahead of it."""
    runs = 0
    while blocks > 0:
        blocks -= view.run_blocks[view.run_list[view.requests[i].runs_start + runs]]
        runs += 1
    orders.transfer_runs[0] = runs
    orders.transfer_source[0] = source
