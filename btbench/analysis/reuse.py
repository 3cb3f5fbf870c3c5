"""How much of the prompts a prefix cache can reuse, how far apart, by whom, and how large it must be.

A request reuses the longest prefix that an earlier request of its trace window had (windows are replayed on fresh
clusters). Blocks count whole; tokens of a reused prefix are at most the request's input.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from btbench.analysis.options import Options
from btbench.analysis.owners import Across, reuse_across
from btbench.analysis.prepared import Prepared, count_known
from btbench.analysis.stack_distance import ReuseDistances, reuse_distances, size_steps
from btbench.analysis.statistics import Distribution, distribution

HBM_MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
NEEDED_SHARES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class CacheSize:
    """An LRU cache of one replica that sees every request, and what it hits."""

    blocks: int
    gb: float | None  # of KV, for the model of the setup
    hbm_multiple: float | None  # of what the setup's first replica holds beside the weights
    block_hit_rate: float  # hit blocks / prompt blocks
    token_hit_rate: float  # hit tokens / input tokens


@dataclass(frozen=True)
class NeededSize:
    """The smallest cache, rounded up by at most 2.2 %, that hits this share of what an unlimited one hits."""

    share_of_unlimited: float
    blocks: int
    gb: float | None
    hbm_multiple: float | None


@dataclass(frozen=True)
class Lru:
    """Hit rate against cache size."""

    setup: str | None
    model: str | None
    kv_bytes_per_token: float | None
    hbm_blocks: int | None  # what the first replica of the setup holds
    answers_take_room: bool
    curve: list[CacheSize]  # two sizes to a doubling
    hbm: list[CacheSize]  # 1/4 … 16 times the setup's HBM
    needed: list[NeededSize]


@dataclass(frozen=True)
class HotPrefix:
    """A stretch of blocks that many requests share, and how much of all reuse it makes up."""

    prefix: str  # as in the list of bursts
    window: str
    first_request: int
    from_block: int  # the stretch begins behind so many blocks …
    to_block: int  # … and ends here, where requests part or end
    requests: int
    reused_blocks: int  # (requests - 1) × blocks of the stretch
    share_of_reuse: float
    sessions: int | None
    users: int | None


@dataclass(frozen=True)
class Reuse:
    """Reuse by a cache that never forgets, then by LRU caches of every size."""

    prompt_blocks: int
    distinct_blocks: int
    hit_blocks: int
    hit_tokens: int
    block_hit_rate: float  # hit blocks / prompt blocks
    token_hit_rate: float  # hit tokens / input tokens
    mean_request_block_hit_rate: float  # mean over requests with blocks of hit blocks / prompt blocks
    mean_request_token_hit_rate: float  # mean over all requests of hit tokens / input tokens
    requests_without_hit: int
    shared_depth_blocks: Distribution | None  # reused blocks of each request with blocks
    gaps_s: Distribution | None  # by block: seconds since it was last touched
    across_sessions: Across | None
    across_users: Across | None
    lru: Lru
    top_prefixes: list[HotPrefix]


def measure_reuse(prepared: Prepared, options: Options) -> Reuse | None:
    """Everything about reuse; None where no request has blocks."""
    trace, matched, blocks = prepared.trace, prepared.tree.matched_blocks, prepared.blocks
    total = int(blocks.sum())
    if total == 0:
        return None
    hit_tokens = np.minimum(matched.astype(np.int64) * trace.block_tokens, trace.input_tokens)
    some = blocks > 0
    distances, lru = _lru(prepared, options)
    return Reuse(
        prompt_blocks=total,
        distinct_blocks=total - int(matched.sum()),
        hit_blocks=int(matched.sum()),
        hit_tokens=int(hit_tokens.sum()),
        block_hit_rate=float(matched.sum() / total),
        token_hit_rate=float(hit_tokens.sum() / trace.input_tokens.sum()),
        mean_request_block_hit_rate=float((matched[some] / blocks[some]).mean()),
        mean_request_token_hit_rate=float((hit_tokens / trace.input_tokens).mean()),
        requests_without_hit=int((matched == 0).sum()),
        shared_depth_blocks=distribution(matched[some]),
        gaps_s=distribution(np.round(distances.gap_s, 9), distances.gap_blocks) if trace.has_times else None,
        across_sessions=reuse_across(prepared.tree, trace.session),
        across_users=reuse_across(prepared.tree, trace.user),
        lru=lru,
        top_prefixes=_top_prefixes(prepared, options.top),
    )


def _lru(prepared: Prepared, options: Options) -> tuple[ReuseDistances, Lru]:
    trace, setup = prepared.trace, options.setup
    room = prepared.blocks
    if options.answer_blocks:
        room = np.maximum(room, -(-(trace.input_tokens + trace.output_tokens) // trace.block_tokens))
    hbm = setup.cache_budget_blocks(setup.replicas[0], trace.block_tokens) if setup else None
    block_gb = setup.model.kv_bytes_per_token * trace.block_tokens / 1e9 if setup else None
    steps = size_steps(int(room.sum() - prepared.tree.matched_blocks.sum()))
    multiples = [(m, max(1, int(m * hbm))) for m in HBM_MULTIPLES] if hbm else []
    sizes = np.unique(np.concatenate([steps, np.array([blocks for _, blocks in multiples], np.int64)]))
    distances = reuse_distances(trace, prepared.tree, room, sizes)
    hits, total = distances.hit_blocks, int(prepared.blocks.sum())

    def measures(blocks: int) -> tuple[int, float | None, float | None]:
        return blocks, block_gb and blocks * block_gb, hbm and blocks / hbm

    def at(blocks: int) -> CacheSize:
        k = int(np.searchsorted(sizes, blocks))
        rates = hits[k] / total, distances.hit_tokens[k] / trace.input_tokens.sum()
        return CacheSize(*measures(blocks), *map(float, rates))

    shares = NEEDED_SHARES if hits[-1] else ()
    needed = [(share, int(sizes[np.searchsorted(hits, np.ceil(share * hits[-1]))])) for share in shares]
    lru = Lru(
        setup=setup.name if setup else None,
        model=setup.model.name if setup else None,
        kv_bytes_per_token=setup.model.kv_bytes_per_token if setup else None,
        hbm_blocks=hbm,
        answers_take_room=options.answer_blocks,
        curve=[at(int(size)) for size in np.unique(steps[np.searchsorted(steps, _curve_sizes(int(steps[-1])))])],
        hbm=[at(blocks) for _, blocks in multiples],
        needed=[NeededSize(share, *measures(size)) for share, size in needed],
    )
    return distances, lru


def _curve_sizes(largest: int) -> npt.NDArray[np.float64]:
    """Powers of the square root of 2 up to `largest`."""
    sizes = 2.0 ** (np.arange(2 * largest.bit_length() + 1) / 2)
    return sizes[sizes <= largest]


def _top_prefixes(prepared: Prepared, top: int) -> list[HotPrefix]:
    trace, tree = prepared.trace, prepared.tree
    starts = tree.start_blocks()
    reused = (tree.requests.astype(np.int64) - 1) * (tree.end_blocks - starts)
    total = int(reused.sum())
    rows = []
    for node in np.argsort(-reused, kind="stable")[:top]:
        if reused[node] == 0:
            break
        first = int(tree.first_request[node])
        through = np.searchsorted(tree.offsets, np.flatnonzero(tree.path == node), side="right").astype(np.int32) - 1
        end = int(tree.end_blocks[node])
        rows.append(
            HotPrefix(
                *prepared.name_prefix(first, end),
                from_block=int(starts[node]),
                to_block=end,
                requests=int(tree.requests[node]),
                reused_blocks=int(reused[node]),
                share_of_reuse=float(reused[node] / total),
                sessions=count_known(trace.session, through),
                users=count_known(trace.user, through),
            )
        )
    return rows
