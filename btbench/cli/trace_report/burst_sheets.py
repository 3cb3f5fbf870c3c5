"""Tables of what a trace says of bursts."""

from __future__ import annotations

from btbench.analysis.audit import TraceAnalysis
from btbench.analysis.fanout import Fanout
from btbench.cli.trace_report.sheet import Column, Sheet, columns
from btbench.results import numbers


def seconds(value: float) -> str:
    """A window's length as it was asked for."""
    return f"{value:g} s"


def fanout_matrix(a: TraceAnalysis) -> Sheet:
    """The largest fan-out by depth and window, with marks: what fits a screen."""
    cells = a.fanout or []
    windows = sorted({cell.window_s for cell in cells})
    depths = sorted({(cell.depth_blocks, cell.depth_tokens) for cell in cells})
    by_place = {(cell.depth_blocks, cell.window_s): cell for cell in cells}
    rows = tuple(
        (f"{blocks:,}", f"{tokens:,}", *(_marked(by_place[blocks, window], a.root_blocks) for window in windows))
        for blocks, tokens in depths
    )
    beyond = [cell for cell in cells if cell.depth_blocks > a.root_blocks]
    marks = [
        ("a", "all prompts begin so, which is no burst", len(beyond) < len(cells)),
        ("s", "prompts grow as in one session", any(c.max_fanout_class == "session" for c in beyond)),
        ("c", "each prompt extends the one before", any(c.chain_max_fanout_class == "session" for c in beyond)),
        ("t", "half or more share a timestamp", any(c.rests_on_ticks for c in beyond)),
    ]
    note = "; ".join(f"{mark}: {meaning}" for mark, meaning, used in marks if used)
    heads = ("blocks", "tokens", *(f"{seconds(w)}    " for w in windows))
    return Sheet("Largest fan-out of one prefix: requests within", columns(*heads), rows, note + "." if note else "")


def _marked(cell: Fanout, root_blocks: int) -> str:
    marks = "s" * (cell.max_fanout_class == "session") + "c" * (cell.chain_max_fanout_class == "session")
    marks = "a" if cell.depth_blocks <= root_blocks else marks + "t" * cell.rests_on_ticks
    return f"{cell.max_fanout:,} {marks:<3}"


def fanout_sheet(a: TraceAnalysis) -> Sheet:
    """Every cell: the largest group of any class and of class fan-out, by both rules."""
    rows = tuple(
        (
            f"{c.depth_blocks:,}",
            f"{c.depth_tokens:,}",
            seconds(c.window_s),
            f"{c.groups:,}",
            f"{c.max_fanout:,}{' t' if c.rests_on_ticks else ''}",
            numbers.duration(c.max_fanout_span_s),
            c.max_fanout_class,
            f"{c.max_fanout_independent:,}",
            numbers.duration(c.max_fanout_independent_span_s),
            c.chain_max_fanout_class,
            f"{c.chain_max_fanout_independent:,}",
        )
        for c in a.fanout or ()
    )
    heads = (
        "blocks",
        "tokens",
        "within",
        "groups",
        "largest",
        "over",
        "class",
        "indep.",
        "over ",
        "by chain",
        "indep. ",
    )
    note = (
        "Groups share their first blocks. Largest: most requests of one group within the window. Class: a session by "
        "lengths where prompts grow as in one conversation, by chain where each extends the one before. Indep.: the "
        "largest that is no session. t: half of its requests or more share a timestamp."
    )
    return Sheet("Fan-out by depth and window", columns(*heads, spare=("tokens", "over ")), rows, note)


def frequency_sheet(a: TraceAnalysis) -> Sheet:
    """How many groups and how many bursts an hour reach each threshold."""
    cells = a.fanout or []
    levels = list(cells[0].groups_at_least) if cells else []
    rows = tuple(
        (
            f"{c.depth_blocks:,}",
            seconds(c.window_s),
            *(f"{c.groups_at_least[k]:,} ({c.independent_groups_at_least[k]:,})" for k in levels),
            *(numbers.digits(c.bursts_per_hour[k]) if c.bursts_per_hour else numbers.NOTHING for k in levels),
            *(f"{c.fanout_distribution[p]:,}" if c.fanout_distribution else numbers.NOTHING for p in ("p50", "p99")),
        )
        for c in cells
    )
    heads = [Column("blocks"), Column("within")]
    heads += [Column(f"≥ {k}") for k in levels] + [Column(f"≥ {k}/h", spare=len(levels) > 3) for k in levels]
    heads += [Column("median", spare=True), Column("p99", spare=True)]
    note = (
        "≥ 5: groups whose widest window holds 5 requests or more; in brackets, those that are no session by length. "
        "≥ 5/h: bursts per hour; a group's bursts share no request. Median and p99: widest windows of all groups of "
        "two or more."
    )
    return Sheet("How often", tuple(heads), rows, note.replace("5", levels[0] if levels else "5"))


def burst_sheet(a: TraceAnalysis) -> Sheet:
    """The list of top bursts."""
    assert a.bursts is not None
    shown = a.bursts.top
    rows = tuple(
        (
            b.prefix,
            f"{b.requests:,}",
            numbers.duration(b.start_s) if b.start_s < 1 else f"{b.start_s:,.1f} s",
            numbers.duration(b.span_s),
            f"{b.shared_tokens:,}",
            f"{b.repeated_tokens:,}",
            b.kind + ("" if b.kind == b.chain_kind else f"/{b.chain_kind}"),
            numbers.count(b.sessions),
            numbers.count(b.users),
            numbers.duration(b.prefill_once_s),
            numbers.duration(b.prefill_each_s),
        )
        for b in shown
    )
    heads = columns(
        *("prefix", "requests", "start", "over", "shares", "repeats", "class", "sessions", "users", "once", "each"),
        text=("prefix",),
        spare=("class", *(("sessions",) if not any(b.sessions for b in shown) else ()), "users", "once"),
    )
    note = (
        "Prefix: window/request[:blocks], the first blocks of that request of that window. Shares: tokens all have in "
        "common. Repeats: shared tokens of all but the first. Once, each: prefill of the shared tokens once, and for "
        "every request, on one replica of the setup. An event is listed once, at its dearest depth."
    )
    title = f"Top bursts within {seconds(a.bursts.window_s)}: {len(shown):,} of {a.bursts.found:,}"
    return Sheet(title, heads, rows, note)


def btb_sheet(a: TraceAnalysis) -> Sheet:
    """What btb's rule would notice."""
    rows = tuple(
        (
            f"{d.threshold:,}",
            f"{d.prefix_blocks:,}",
            f"{d.prefix_tokens:,}",
            seconds(d.window_s),
            f"{d.requests_with_key:,}",
            f"{d.detected:,}",
            f"{d.after_requests['p50']:,}" if d.after_requests else numbers.NOTHING,
            numbers.duration(d.after_s["p50"]) if d.after_s else numbers.NOTHING,
            f"{d.following:,}",
            f"{d.false_alarms:,}",
            f"{d.bursts_caught:,}/{d.bursts:,}",
        )
        for d in a.btb or ()
    )
    heads = ("X", "Y", "Y tokens", "Z", "keyed", "detected", "after", "after s", "follow", "false", "caught")
    note = (
        "Keyed: requests of Y blocks or more. A train: requests with the same first Y blocks, each within Z of the one "
        "before. Detected: trains in which X requests lie within Z; after: requests and seconds up to then, medians. "
        "Follow: requests of the train behind that. False: detections that nothing follows. Caught: bursts of 20 or "
        "more within 10 s during which the rule fired."
    )
    return Sheet("What btb would notice", columns(*heads, spare=("Y tokens",)), rows, note)


def burst_sheets(a: TraceAnalysis) -> list[Sheet]:
    """All of them, as far as the trace allows."""
    return [fanout_sheet(a), frequency_sheet(a), burst_sheet(a), btb_sheet(a)] if a.fanout is not None else []
