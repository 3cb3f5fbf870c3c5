"""The prefix cache of a replica: match, insert, evict, in whole runs.

Block by block the rule is: inserting takes blocks in order, each leaves RAM if it was there and becomes the most
recently used HBM block; after the whole list is in, least recently used blocks move to RAM while HBM is over budget.
Blocks never leave RAM. So a run is on a replica whole or not at all, lies in the LRU order as one stretch, and loses
its front first: its state is one count (`ram_blocks`) and one place in the list.
"""

from btbench.engine.pairs import find_pair
from btbench.jit import inlined
from btbench.policies.bits import bit, has


@inlined
def match_prefix(cache, work, i, r):  # type: ignore[no-untyped-def]
    """(h, m): blocks of request i's prompt that replica r holds from the start on, in HBM and in RAM."""
    h = 0
    m = 0
    replicas = len(cache.oldest)
    for k in range(work.run_offsets[i], work.run_offsets[i + 1]):
        run = work.runs[k]
        if not has(cache.resident[run], r):
            break
        blocks = work.run_blocks[run]
        if not has(cache.in_hbm[run], r):
            place, _ = find_pair(cache.table, run * replicas + r)
            in_ram = cache.ram_blocks[place]
            m += in_ram
            blocks -= in_ram
        h += blocks
    return h, m


@inlined
def match_disk(cache, work, i):  # type: ignore[no-untyped-def]
    """Blocks of request i's prompt on the shared disk, from the start on."""
    blocks = 0
    for k in range(work.run_offsets[i], work.run_offsets[i + 1]):
        run = work.runs[k]
        if not cache.on_disk[run]:
            break
        blocks += work.run_blocks[run]
    return blocks


@inlined
def append_newest(cache, place, r):  # type: ignore[no-untyped-def]
    """Make a place that is in no list the most recently used one of replica r."""
    newest = cache.newest[r]
    cache.older[place] = newest
    cache.newer[place] = -1
    if newest >= 0:
        cache.newer[newest] = place
    else:
        cache.oldest[r] = place
    cache.newest[r] = place


@inlined
def unlink(cache, place, r):  # type: ignore[no-untyped-def]
    """Take a place out of replica r's list."""
    older = cache.older[place]
    newer = cache.newer[place]
    if older >= 0:
        cache.newer[older] = newer
    else:
        cache.oldest[r] = newer
    if newer >= 0:
        cache.older[newer] = older
    else:
        cache.newest[r] = older


@inlined
def insert_run(cache, work, run, r):  # type: ignore[no-untyped-def]
    """A whole run becomes the most recently used of replica r; nothing is evicted yet."""
    place, _ = find_pair(cache.table, run * len(cache.oldest) + r)
    blocks = work.run_blocks[run]
    if not has(cache.resident[run], r):
        cache.resident[run, r >> 6] |= bit(r)
        cache.in_hbm[run, r >> 6] |= bit(r)
        cache.hbm_blocks[r] += blocks
    else:
        in_ram = cache.ram_blocks[place]
        if in_ram > 0:
            cache.hbm_blocks[r] += in_ram
            cache.ram_blocks[place] = 0
            cache.in_hbm[run, r >> 6] |= bit(r)
        if in_ram < blocks:
            if cache.newest[r] == place:
                return
            unlink(cache, place, r)
    append_newest(cache, place, r)


@inlined
def insert_own_blocks(cache, work, i, r):  # type: ignore[no-untyped-def]
    """Request i's own blocks enter replica r's HBM; they are never matched, only take room."""
    if work.own_blocks[i] > 0:
        append_newest(cache, len(cache.older) - len(work.own_blocks) + i, r)
        cache.hbm_blocks[r] += work.own_blocks[i]


@inlined
def evict(cache, work, rates, r):  # type: ignore[no-untyped-def]
    """While replica r's HBM holds more than its cache budget, the least recently used blocks move to RAM."""
    excess = cache.hbm_blocks[r] - rates.cache_budget[r]
    if excess <= 0:
        return
    replicas = len(cache.oldest)
    first_own = len(cache.older) - len(work.own_blocks)
    cache.hbm_blocks[r] -= excess
    while excess > 0:
        place = cache.oldest[r]
        if place >= first_own:
            blocks = work.own_blocks[place - first_own]
        else:
            run = (place if len(cache.table) == 0 else cache.table[place]) // replicas
            blocks = work.run_blocks[run]
            cache.in_hbm[run, r >> 6] &= ~bit(r)
        moved = min(blocks - cache.ram_blocks[place], excess)
        cache.ram_blocks[place] += moved
        excess -= moved
        if cache.ram_blocks[place] == blocks:
            unlink(cache, place, r)
