"""The prefix cache of a replica: match, insert, evict, in whole runs.

Block by block the rule is: inserting takes blocks in order, each leaves RAM if it was there and becomes the most
recently used HBM block; after the whole list is in, least recently used blocks move to RAM while HBM is over budget.
Blocks never leave RAM. So a run is on a replica whole or not at all, lies in the LRU order as one stretch, and loses
its front first: its state is one count (`ram_blocks`) and one place in the list.
"""

from btbench.jit import inlined
from btbench.lru import append_newest, unlink
from btbench.pairs import find_pair, place_of
from btbench.policies.bits import bit, has

CAME, LEFT_HBM = 0, 1  # whole into HBM; no longer whole there


@inlined
def match_prefix(cache, replicas, request, r):  # type: ignore[no-untyped-def]
    """(h, m): blocks of a request's prompt that replica r holds from the start on, in HBM and in RAM."""
    h = 0
    m = 0
    for k in range(request.runs_start, request.runs_stop):
        run = cache.run_list[k]
        if not has(cache.resident[run], r):
            break
        blocks = cache.runs[run].blocks
        if not has(cache.in_hbm[run], r):
            place, _ = find_pair(cache.table, run * len(replicas) + r)
            in_ram = cache.places[place].ram_blocks
            m += in_ram
            blocks -= in_ram
        h += blocks
    return h, m


@inlined
def match_disk(cache, request):  # type: ignore[no-untyped-def]
    """Blocks of a request's prompt on the shared disk, from the start on."""
    blocks = 0
    for k in range(request.runs_start, request.runs_stop):
        run = cache.runs[cache.run_list[k]]
        if not run.on_disk:
            break
        blocks += run.blocks
    return blocks


@inlined
def log_change(cache, run, r, change):  # type: ignore[no-untyped-def]
    """Where a router sees old caches, what becomes of a run on replica r is kept until it hears of it."""
    if len(cache.log) > 0:
        entry = cache.log[cache.logged[0]]
        entry.run = run
        entry.replica = r
        entry.change = change
        cache.logged[0] += 1


@inlined
def insert_run(cache, replicas, run, r, ready_s):  # type: ignore[no-untyped-def]
    """A whole run becomes the most recently used of replica r; nothing is evicted yet.

    Where it was absent it will be there at `ready_s`: whoever brings it in first says when, and nothing takes it away.
    """
    replica = replicas[r]
    place, _ = find_pair(cache.table, run * len(replicas) + r)
    blocks = cache.runs[run].blocks
    if not has(cache.resident[run], r):
        cache.resident[run, r >> 6] |= bit(r)
        cache.in_hbm[run, r >> 6] |= bit(r)
        replica.hbm_blocks += blocks
        log_change(cache, run, r, CAME)
        if len(cache.ready_s) > 0:
            cache.ready_s[place] = ready_s
    else:
        in_ram = cache.places[place].ram_blocks
        if in_ram > 0:
            replica.hbm_blocks += in_ram
            cache.places[place].ram_blocks = 0
            cache.in_hbm[run, r >> 6] |= bit(r)
            log_change(cache, run, r, CAME)
        if in_ram < blocks:
            if replica.newest == place:
                return
            unlink(cache.places, replica, place)
    append_newest(cache.places, replica, place)


@inlined
def run_ready_s(cache, replicas, run, r):  # type: ignore[no-untyped-def]
    """When a run is, or was, there on replica r, where copies wait; time zero if r does not hold it at all."""
    if not has(cache.resident[run], r):
        return 0.0
    return cache.ready_s[place_of(cache.table, run * len(replicas) + r)]


@inlined
def insert_own_blocks(cache, replica, requests, i):  # type: ignore[no-untyped-def]
    """Request i's own blocks enter a replica's HBM; they are never matched, only take room."""
    if requests[i].own_blocks > 0:
        append_newest(cache.places, replica, len(cache.places) - len(requests) + i)
        replica.hbm_blocks += requests[i].own_blocks


@inlined
def evict(cache, replicas, requests, r):  # type: ignore[no-untyped-def]
    """While replica r's HBM holds more than its cache budget, the least recently used blocks move to RAM."""
    replica = replicas[r]
    excess = replica.hbm_blocks - replica.cache_budget
    if excess <= 0:
        return
    first_own = len(cache.places) - len(requests)
    replica.hbm_blocks -= excess
    while excess > 0:
        place = replica.oldest
        if place >= first_own:
            blocks = requests[place - first_own].own_blocks
        else:
            run = (place if len(cache.table) == 0 else cache.table[place]) // len(replicas)
            blocks = cache.runs[run].blocks
            if has(cache.in_hbm[run], r):
                cache.in_hbm[run, r >> 6] &= ~bit(r)
                log_change(cache, run, r, LEFT_HBM)
        moved = min(blocks - cache.places[place].ram_blocks, excess)
        cache.places[place].ram_blocks += moved
        excess -= moved
        if cache.places[place].ram_blocks == blocks:
            unlink(cache.places, replica, place)
