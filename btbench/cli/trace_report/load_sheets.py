"""Tables of what a trace says of reuse, arrivals and lengths, and several traces side by side."""

from __future__ import annotations

from collections.abc import Sequence

from btbench.analysis.audit import TraceAnalysis
from btbench.analysis.headline import DEEP_BLOCKS, DEEP_WINDOW_S, PRESENT
from btbench.analysis.reuse import CacheSize, NeededSize
from btbench.analysis.statistics import POINTS, Distribution
from btbench.cli.trace_report.burst_sheets import seconds
from btbench.cli.trace_report.sheet import Sheet, columns
from btbench.results import numbers


def side_by_side(analyses: Sequence[TraceAnalysis]) -> Sheet:
    """The published table: a line for each trace."""
    rows = tuple(
        (
            a.name,
            f"{a.requests:,}",
            _timestamps(a),
            f"{a.block_tokens:,} tokens" if a.requests_with_blocks else "none",
            f"{a.deep_sync.max_fanout:,}" if a.deep_sync else numbers.NOTHING,
            {True: "yes", False: "no", None: numbers.NOTHING}[a.deep_sync.present if a.deep_sync else None],
            f"{a.deep_sync.chain_max_fanout:,}" if a.deep_sync else numbers.NOTHING,
            numbers.share(a.reuse.token_hit_rate) if a.reuse else numbers.NOTHING,
            f"{numbers.digits(a.mean_rate_per_s)}/s" if a.mean_rate_per_s else numbers.NOTHING,
        )
        for a in analyses
    )
    heads = columns(
        *("trace", "requests", "timestamps", "blocks of", "largest\ntogether", "deep\nbursts"),
        *("by chain", "reuse", "rate"),
        text=("trace", "timestamps", "blocks of", "deep\nbursts"),
        spare=("by chain", "reuse", "rate"),
        whole=("trace",),
    )
    note = (
        f"Largest together: most requests that share {DEEP_BLOCKS} blocks or more and arrive within "
        f"{DEEP_WINDOW_S:g} s; groups whose prompts grow as in one conversation do not count (by chain: those where "
        f"each prompt extends the one before). Deep bursts: {PRESENT} or more. –: cannot be told without timestamps "
        "and block hashes."
    )
    return Sheet("Do these traces hold deep bursts?", heads, rows, note)


def _timestamps(a: TraceAnalysis) -> str:
    if a.ticks is None:
        return "none"
    if a.ticks.ticked and a.ticks.median_step_s:
        return f"{seconds(a.ticks.median_step_s)} ticks"
    return "yes"


def reuse_sheet(a: TraceAnalysis) -> Sheet:
    """Each hit rate with its definition."""
    r = a.reuse
    assert r is not None
    rows = [
        ("token hit rate", numbers.share(r.token_hit_rate), "hit tokens / input tokens"),
        ("block hit rate", numbers.share(r.block_hit_rate), "hit blocks / prompt blocks"),
        (
            "mean of rates, blocks",
            numbers.share(r.mean_request_block_hit_rate),
            "mean of each request's block hit rate",
        ),
        (
            "mean of rates, tokens",
            numbers.share(r.mean_request_token_hit_rate),
            "mean of each request's token hit rate",
        ),
        ("prompt blocks", f"{r.prompt_blocks:,}", f"{r.distinct_blocks:,} of them different"),
        ("requests without hit", f"{r.requests_without_hit:,}", f"of {a.requests:,}"),
    ]
    for owners, across in (("sessions", r.across_sessions), ("users", r.across_users)):
        if across:
            meaning = f"share of hit blocks that no earlier request of the same {owners[:-1]} had"
            rows.append((f"across {owners}", numbers.share(across.across_share), meaning))
    note = "By a cache that forgets nothing: the longest prefix that an earlier request of the same trace window had."
    return Sheet("Reuse", columns("measure", "value", "meaning", text=("measure", "meaning")), tuple(rows), note)


def cache_sheet(a: TraceAnalysis) -> Sheet:
    """Hit rate against cache size, and the size that a share of all reuse needs."""
    assert a.reuse is not None
    lru = a.reuse.lru

    def line(name: str, size: CacheSize | NeededSize) -> tuple[str, ...]:
        rates = (size.token_hit_rate, size.block_hit_rate) if isinstance(size, CacheSize) else (None, None)
        gb = numbers.size(size.gb * 1e9) if size.gb is not None else numbers.NOTHING
        multiple = f"{numbers.digits(size.hbm_multiple)} ×" if size.hbm_multiple else numbers.NOTHING
        return (name, f"{size.blocks:,}", gb, multiple, numbers.share(rates[0]), numbers.share(rates[1]))

    rows = [line("HBM", size) for size in lru.hbm] or [line("size", size) for size in lru.curve[::4]]
    rows += [line(f"{size.share_of_unlimited:.0%} of all reuse", size) for size in lru.needed]
    setup = f"HBM: what one replica of {lru.setup} ({lru.model}) holds beside the weights. " if lru.setup else ""
    answers = "Answers take room too. " if lru.answers_take_room else ""
    note = f"{setup}{answers}LRU, exact by stack distances; the sizes needed are rounded up by at most 2.2%."
    heads = columns("cache", "blocks", "KV", "of HBM", "of tokens", "of blocks", text=("cache",))
    return Sheet("Hit rate by cache size, one replica that serves every request", heads, tuple(rows), note)


def prefix_sheet(a: TraceAnalysis) -> Sheet:
    """The most reused stretches of blocks."""
    assert a.reuse is not None
    rows = tuple(
        (
            p.prefix,
            f"{p.from_block + 1:,}–{p.to_block:,}",
            f"{p.requests:,}",
            f"{p.reused_blocks:,}",
            numbers.share(p.share_of_reuse),
            numbers.count(p.sessions),
            numbers.count(p.users),
        )
        for p in a.reuse.top_prefixes
    )
    heads = columns(*("prefix", "blocks", "requests", "reused", "of all", "sessions", "users"), text=("prefix",))
    note = (
        "Blocks: the stretch that so many requests share, behind a shorter prefix that more share. Reused: its blocks "
        "× (requests − 1)."
    )
    return Sheet("Most reused prefixes", heads, rows, note)


def arrival_sheet(a: TraceAnalysis) -> Sheet:
    """Peaks and dispersion by window length."""
    assert a.arrivals is not None
    peaks = {peak.window_s: peak for peak in a.arrival_peaks}
    indices = {one.window_s: one for one in a.arrivals.dispersion}
    rows = []
    for window_s in sorted({*peaks, *indices}):
        peak, index = peaks.get(window_s), indices.get(window_s)
        ratio = numbers.digits(peak.peak_to_mean) if peak and peak.peak_to_mean else numbers.NOTHING
        rows.append(
            (
                seconds(window_s),
                numbers.count(peak.max_requests if peak else None),
                ratio,
                numbers.digits(index.index) if index else numbers.NOTHING,
                numbers.count(index.bins if index else None),
            )
        )
    note = (
        "Peak: most requests within any such window. Dispersion: variance over mean of the requests in each whole bin."
    )
    return Sheet("Arrivals", columns("within", "peak", "of mean", "dispersion", "bins"), tuple(rows), note)


def length_sheet(a: TraceAnalysis) -> Sheet:
    """Percentiles of everything that has a distribution."""
    spread: list[tuple[str, Distribution | None, bool]] = [
        ("input tokens", a.lengths.input_tokens, False),
        ("output tokens", a.lengths.output_tokens, False),
        ("cacheable tokens", a.lengths.cacheable_tokens, False),
        ("prompt blocks", a.lengths.prompt_blocks, False),
        ("reused blocks", a.reuse.shared_depth_blocks if a.reuse else None, False),
        ("reuse gap", a.reuse.gaps_s if a.reuse else None, True),
        ("arrival gap", a.arrivals.gaps_s if a.arrivals else None, True),
    ]
    keys = ("mean", *(f"p{point:g}" for point in POINTS), "max")
    rows = tuple(
        (name, *(numbers.duration(found[key]) if timed else numbers.count(found[key]) for key in keys))
        for name, found, timed in spread
        if found
    )
    heads = columns("of", *keys, text=("of",), spare=("p5", "p10", "p25", "p75", "p95", "p99.9"))
    note = "Percentile p: the sorted values' element at index int(p / 100 × n). Reuse gaps count each block."
    return Sheet("Distributions", heads, rows, note)


def group_sheet(a: TraceAnalysis) -> Sheet:
    """Requests per prefix group, by rank."""
    groups = a.prefix_groups or []
    ranks = max((len(g.rank_size) for g in groups), default=0)
    rows = tuple(
        (
            f"{g.depth_blocks:,}",
            f"{g.requests:,}",
            f"{g.groups:,}",
            *(f"{size:,}" for size in g.rank_size),
            *[numbers.NOTHING] * (ranks - len(g.rank_size)),
        )
        for g in groups
    )
    names = [f"#{2**k:,}" for k in range(ranks)]
    heads = columns("blocks", "requests", "groups", *names, spare=names[6:])
    return Sheet("Requests per prefix, by rank", heads, rows, "#8: requests of the eighth largest group of this depth.")


def load_sheets(a: TraceAnalysis) -> list[Sheet]:
    """All of them, as far as the trace allows."""
    sheets = [reuse_sheet(a), cache_sheet(a), prefix_sheet(a), group_sheet(a)] if a.reuse else []
    sheets += [arrival_sheet(a)] if a.arrivals else []
    return [*sheets, length_sheet(a)]
