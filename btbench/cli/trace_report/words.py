"""An analysis in a few sentences: the answer, and the facts it rests on."""

from __future__ import annotations

from typing import NamedTuple

from btbench.analysis.audit import TraceAnalysis
from btbench.analysis.detection import Detection
from btbench.analysis.headline import PRESENT
from btbench.policies.parameters import DEFAULT_PARAMETERS
from btbench.results import numbers


class Fact(NamedTuple):
    """A word, and what there is to say of it."""

    about: str
    text: str


def answer(a: TraceAnalysis) -> str:
    """Whether the trace holds the bursts that break routers, in one or two sentences."""
    deep = a.deep_sync
    if deep is None:
        return f"{a.name}: {a.fanout_why}."
    within = f"within {deep.window_s:g} s"
    if deep.present:
        text = (
            f"{a.name} holds deep bursts: {deep.max_fanout:,} requests that share {deep.depth_blocks:,} blocks "
            f"({deep.depth_tokens or 0:,} tokens) arrive {within}, over {numbers.duration(deep.span_s)}."
        )
    else:
        most = f"at most {deep.max_fanout:,} arrive" if deep.max_fanout > 1 else "no two arrive"
        text = (
            f"{a.name} holds no deep bursts: of the requests that share {deep.min_depth_blocks} blocks or more, "
            f"{most} {within}; from {PRESENT} on it would be one.{_below(a)}"
        )
    return text + _second_opinion(a)


def _below(a: TraceAnalysis) -> str:
    """What a trace without deep bursts has all the same."""
    below = a.shallower
    if below is None or below.max_fanout < PRESENT:
        return ""
    return (
        f" Shallower: {below.max_fanout:,} requests within {below.window_s:g} s share "
        f"{counted(below.depth_blocks, 'block')} ({below.depth_tokens:,} tokens)."
    )


def _second_opinion(a: TraceAnalysis) -> str:
    deep = a.deep_sync
    assert deep is not None
    text = ""
    if deep.largest_any_class > deep.max_fanout:
        text += (
            f" A group of {deep.largest_any_class:,} is not counted: its prompts grow as in one conversation. Counting "
            f"all but those where each prompt extends the one before, the largest has {deep.chain_max_fanout:,}."
        )
    elif deep.chain_max_fanout < deep.max_fanout:
        text += (
            " Without groups where each prompt extends the one before, as in one conversation, it would be "
            f"{deep.chain_max_fanout:,}."
        )
    if deep.rests_on_ticks:
        text += " Half of the requests or more share a timestamp: check with --tie spread."
    return text


def facts(a: TraceAnalysis) -> list[Fact]:
    """What else one wants to know, a line each."""
    found = [Fact("requests", _load(a)), *_clock(a), Fact("blocks", _blocks(a)), *_reuse(a), *_dispersion(a)]
    for about, values in (("input", a.lengths.input_tokens), ("output", a.lengths.output_tokens)):
        if values:
            median = counted(round(values["p50"]), "token")
            text = f"{median} at the median, {values['p90']:,.0f} at p90, {values['p99']:,.0f} at p99"
            found.append(Fact(about, text))
    found += [Fact("btb", _btb(published))] if (published := _as_published(a)) else []
    return found


def _load(a: TraceAnalysis) -> str:
    if a.span_s is None:
        return f"{a.requests:,}, without timestamps"
    rate = f", {numbers.digits(a.mean_rate_per_s)}/s" if a.mean_rate_per_s else ""
    windows = f" in {a.windows:,} windows" if a.windows > 1 else ""
    peaks = ", ".join(f"{peak.max_requests:,} in {peak.window_s:g} s" for peak in a.arrival_peaks)
    return f"{a.requests:,} over {numbers.duration(a.span_s)}{windows}{rate}; at most {peaks}"


def _clock(a: TraceAnalysis) -> list[Fact]:
    if a.ticks is None or not a.ticks.ticked:
        return []
    step = f", {numbers.duration(a.ticks.median_step_s)} apart" if a.ticks.median_step_s else ""
    text = f"ticks: {a.ticks.distinct_times:,} timestamps{step}; up to {a.ticks.largest:,} requests on one"
    return [Fact("clock", text)]


def _blocks(a: TraceAnalysis) -> str:
    if not a.requests_with_blocks:
        return "none"
    text = f"of {a.block_tokens:,} tokens"
    if a.requests_with_blocks < a.requests:
        text += f", in {a.requests_with_blocks:,} of the requests"
    if a.root_prefixes:
        root = a.root_prefixes[0]
        where = "every prompt" if a.windows == 1 else f"every prompt of {len(a.root_prefixes):,} windows"
        kept = "left out here" if a.without_root else "--without-root leaves that out"
        text += f"; {where} begins with the same {counted(root.blocks, 'block')} ({kept})"
    return text


def _reuse(a: TraceAnalysis) -> list[Fact]:
    if a.reuse is None:
        return [Fact("reuse", "cannot be measured without blocks")] if a.requests_with_blocks else []
    reuse, lru = a.reuse, a.reuse.lru
    text = (
        f"{numbers.share(reuse.token_hit_rate)} of tokens, {numbers.share(reuse.block_hit_rate)} of blocks; "
        f"{numbers.share(reuse.mean_request_block_hit_rate)} as the mean of per-request rates"
    )
    if reuse.gaps_s:
        gaps = [numbers.duration(reuse.gaps_s[point]) for point in ("p50", "p90")]
        text += f"; after {gaps[0]} at the median, {gaps[1]} at p90"
    found = [Fact("reuse", text)]
    here = next((size for size in lru.hbm if size.blocks == lru.hbm_blocks), None)
    most = next((size for size in lru.needed if size.share_of_unlimited == 0.9), None)
    if here and most and most.gb is not None and here.gb is not None:
        text = (
            f"one replica of {lru.setup}, {numbers.size(here.gb * 1e9)} of HBM beside the weights, hits "
            f"{numbers.share(here.token_hit_rate)} of tokens; 90% of all reuse needs {numbers.size(most.gb * 1e9)}"
        )
        found.append(Fact("cache", text))
    for owners, across in (("sessions", reuse.across_sessions), ("users", reuse.across_users)):
        if across and across.across_share is not None:
            text = f"{numbers.share(across.across_share)} of the reuse is of blocks that only others had"
            found.append(Fact(owners, f"{across.owners:,}; {text}"))
    return found


def _dispersion(a: TraceAnalysis) -> list[Fact]:
    if a.arrivals is None or not a.arrivals.dispersion:
        return []
    indices = ", ".join(f"{numbers.digits(d.index)} at {d.window_s:g} s" for d in a.arrivals.dispersion)
    return [Fact("arrivals", f"index of dispersion {indices}; a Poisson process has 1")]


def _as_published(a: TraceAnalysis) -> Detection | None:
    """The grid's row with the parameters of the paper."""
    btb = DEFAULT_PARAMETERS.btb
    wanted = (btb.threshold, btb.prefix_blocks, btb.window_s)
    return next((d for d in a.btb or () if (d.threshold, d.prefix_blocks, d.window_s) == wanted), None)


def _btb(d: Detection) -> str:
    text = f"with X {d.threshold}, Y {d.prefix_blocks:,} blocks, Z {d.window_s:g} s: "
    if not d.requests_with_key:
        return f"{text}no request is that deep"
    if not d.detected:
        return f"{text}detects nothing in {d.requests_with_key:,} requests that deep"
    assert d.after_requests and d.after_s
    return (
        f"{text}detects {counted(d.detected, 'burst')}, after {counted(int(d.after_requests['p50']), 'request')} and "
        f"{numbers.duration(d.after_s['p50'])}; {d.following:,} follow, {counted(d.false_alarms, 'false alarm')}"
    )


def counted(count: int, noun: str) -> str:
    """1 block, 2 blocks."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
