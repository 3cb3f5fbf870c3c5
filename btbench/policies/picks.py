"""Picking a replica: the least loaded of some candidates, drawn uniformly among equals."""

import numpy as np

from btbench.jit import inlined
from btbench.policies.bits import NONE, ONE

REJECTED = -3  # in place of a replica: the policy turns the request away


@inlined
def next_output(draws):  # type: ignore[no-untyped-def]
    """The next 32-bit output, as an integer; 0 once they have run out, as with `choose`."""
    if draws.used[0] >= len(draws.outputs):
        draws.used[0] = len(draws.outputs) + 1
        return np.int64(0)
    draws.used[0] += 1
    return np.int64(draws.outputs[draws.used[0] - 1])


@inlined
def choose(draws, n):  # type: ignore[no-untyped-def]
    """An index below n, consuming outputs as CPython's `random.Random.choice` over n items does (also for n = 1).

    Takes the top n.bit_length() bits of the next output, again until the value is below n. Where the outputs have run
    out it returns 0 and leaves `draws.used` beyond their number, which the replay reports.
    """
    bits = 0
    while n >> bits:
        bits += 1
    while draws.used[0] < len(draws.outputs):
        value = np.int64(draws.outputs[draws.used[0]]) >> (32 - bits)
        draws.used[0] += 1
        if value < n:
            return value
    draws.used[0] = len(draws.outputs) + 1
    return 0


@inlined
def pick_least_loaded(load, draws):  # type: ignore[no-untyped-def]
    """The least loaded of all replicas."""
    least = load[0]
    for r in range(1, len(load)):
        if load[r] < least:
            least = load[r]
    ties = 0
    for r in range(len(load)):
        ties += load[r] == least
    rank = choose(draws, ties)
    for r in range(len(load)):
        if load[r] == least:
            if rank == 0:
                return r
            rank -= 1
    return 0


@inlined
def pick_least_loaded_of(load, candidates, draws):  # type: ignore[no-untyped-def]
    """The least loaded of the replicas whose bit is set in `candidates` (at least one is)."""
    least = 0
    ties = 0
    for word in range(len(candidates)):
        bits = candidates[word]
        r = 64 * word
        while bits != NONE:
            if bits & ONE != NONE:
                if ties == 0 or load[r] < least:
                    least = load[r]
                    ties = 1
                elif load[r] == least:
                    ties += 1
            bits >>= ONE
            r += 1
    rank = choose(draws, ties)
    for word in range(len(candidates)):
        bits = candidates[word]
        r = 64 * word
        while bits != NONE:
            if bits & ONE != NONE and load[r] == least:
                if rank == 0:
                    return r
                rank -= 1
            bits >>= ONE
            r += 1
    return 0


@inlined
def first_least_loaded(load):  # type: ignore[no-untyped-def]
    """The least loaded of all replicas, the first in order on ties; draws nothing."""
    least = 0
    for r in range(1, len(load)):
        if load[r] < load[least]:
            least = r
    return least


@inlined
def pick_of(candidates, draws):  # type: ignore[no-untyped-def]
    """Any of the replicas whose bit is set in `candidates` (at least one is), uniformly."""
    count = 0
    for word in range(len(candidates)):
        bits = candidates[word]
        while bits != NONE:
            count += 1
            bits &= bits - ONE
    rank = choose(draws, count)
    for word in range(len(candidates)):
        bits = candidates[word]
        r = 64 * word
        while bits != NONE:
            if bits & ONE != NONE:
                if rank == 0:
                    return r
                rank -= 1
            bits >>= ONE
            r += 1
    return 0


@inlined
def hold_prefix(masks, view, i, candidates):  # type: ignore[no-untyped-def]
    """Set `candidates` to the replicas whose bit is set in `masks` for each run of request i's prefix; True if any."""
    start = view.requests[i].runs_start
    stop = start + view.requests[i].prefix_runs
    any_left = False
    for word in range(len(candidates)):
        candidates[word] = masks[view.run_list[start], word]
        for k in range(start + 1, stop):
            candidates[word] &= masks[view.run_list[k], word]
        any_left |= candidates[word] != NONE
    return any_left
