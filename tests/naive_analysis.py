"""The definitions of the analysis a second time, slow and obvious: lists, dictionaries, every window tried."""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Row:
    """A request; blocks are ids in prompt order, which may mean anything by themselves."""

    window: int
    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple
    session: int = -1


def groups_at(rows, depth):
    """Lists of rows by window and first blocks, in order of first appearance."""
    groups = {}
    for row in rows:
        if len(row.blocks) >= depth:
            groups.setdefault((row.window, row.blocks[:depth]), []).append(row)
    return list(groups.values())


def in_time(group):
    return sorted(group, key=lambda row: (row.arrival_s, row.input_tokens))


def windows_of(group, window_s):
    """The stretch that ends at each request and reaches back as far as the window does."""
    group = in_time(group)
    return [
        [row for row in group[: last + 1] if group[last].arrival_s - row.arrival_s <= window_s]
        for last in range(len(group))
    ]


def widest(group, window_s):
    return max(windows_of(group, window_s), key=len)  # the first of several


def span(stretch):
    return stretch[-1].arrival_s - stretch[0].arrival_s


def is_session(stretch):
    """The published rule, by input lengths."""
    lengths = [row.input_tokens for row in stretch]
    if len(lengths) < 3 or max(lengths) < 2 * min(lengths):
        return False
    kept = sum(b >= a for a, b in pairwise(lengths))
    return kept / (len(lengths) - 1) >= 0.8


def is_chain(stretch, block_tokens):
    """Each prompt is longer than the one before and begins with all its whole blocks."""

    def extends(earlier, later):
        whole = min(earlier.input_tokens // block_tokens, len(earlier.blocks))
        return later.input_tokens > earlier.input_tokens and later.blocks[:whole] == earlier.blocks[:whole]

    return len(stretch) > 1 and all(extends(a, b) for a, b in pairwise(stretch))


def bursts_of(group, window_s, at_least):
    """The widest window, then the widest that shares no request with those taken, and so on."""
    rows = in_time(group)
    windows, taken, found = windows_of(group, window_s), set(), []
    for last in sorted(range(len(rows)), key=lambda k: (-len(windows[k]), k)):
        places = set(range(last - len(windows[last]) + 1, last + 1))
        if len(places) >= at_least and not places & taken:
            taken |= places
            found.append(windows[last])
    return found


def fanout(rows, depth, window_s, thresholds, block_tokens):
    """One cell of the audit."""
    groups = groups_at(rows, depth)
    best = [widest(group, window_s) for group in groups if len(group) > 1]
    independent = [stretch for stretch in best if not is_session(stretch)]
    unchained = [stretch for stretch in best if not is_chain(stretch, block_tokens)]
    bursts = [burst for group in groups for burst in bursts_of(group, window_s, max(2, min(thresholds)))]

    def size_and_span(stretches):
        top = max(stretches, key=len, default=None)
        return (len(top), span(top)) if top else (0, 0.0)

    def reaching(stretches):
        return {str(t): sum(len(stretch) >= t for stretch in stretches) for t in thresholds}

    top = max(best, key=len, default=[])
    times = len({row.arrival_s for row in top})
    return {
        "groups": len(groups),
        "max_fanout": len(top),
        "max_fanout_span_s": span(top) if top else 0.0,
        "max_fanout_class": "session" if top and is_session(top) else "fanout",
        "chain_max_fanout_class": "session" if top and is_chain(top, block_tokens) else "fanout",
        "max_fanout_independent": size_and_span(independent)[0],
        "max_fanout_independent_span_s": size_and_span(independent)[1],
        "chain_max_fanout_independent": size_and_span(unchained)[0],
        "chain_max_fanout_independent_span_s": size_and_span(unchained)[1],
        "groups_at_least": reaching(best),
        "independent_groups_at_least": reaching(independent),
        "chain_independent_groups_at_least": reaching(unchained),
        "max_fanout_distinct_times": times,
        "rests_on_ticks": len(top) > 1 and 2 * times <= len(top),
        "bursts": reaching(bursts),
        "independent_bursts": reaching([burst for burst in bursts if not is_session(burst)]),
        "chain_independent_bursts": reaching([burst for burst in bursts if not is_chain(burst, block_tokens)]),
    }


def shared_blocks(stretch):
    """Length of the longest prefix that all have."""
    length = 0
    while all(len(row.blocks) > length for row in stretch) and len({row.blocks[: length + 1] for row in stretch}) == 1:
        length += 1
    return length


def root_blocks(rows, window):
    """What all requests with blocks of a window share, where there are two at least."""
    some = [row for row in rows if row.window == window and row.blocks]
    return shared_blocks(some) if len(some) > 1 else 0


def detect(rows, depth, threshold, window_s):
    """Each train the rule fires in: requests and seconds up to then, requests after it; by the rule's own words."""
    trains = []
    for group in groups_at(rows, depth):
        recent, train = [], None
        for row in in_time(group):
            recent = [t for t in recent if t >= row.arrival_s - window_s]
            if not recent:
                train = {"start": row.arrival_s, "requests": 0, "after": None, "after_s": None, "following": 0}
                trains.append(train)
            recent.append(row.arrival_s)
            train["requests"] += 1
            if train["after"] is not None:
                train["following"] += 1
            elif len(recent) >= threshold:
                train["after"], train["after_s"] = train["requests"], row.arrival_s - train["start"]
    return [train for train in trains if train["after"] is not None]


def common(a, b):
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def matched(rows, same_session=False):
    """Of each row, the longest prefix an earlier row of its window (and session) had."""
    return [
        max(
            (
                common(row.blocks, earlier.blocks)
                for earlier in rows[:i]
                if earlier.window == row.window and (not same_session or earlier.session == row.session)
            ),
            default=0,
        )
        for i, row in enumerate(rows)
    ]


def lru_hits(rows, capacity, block_tokens, answers=False):
    """Blocks and tokens that a cache of prefixes finds, new at each window; looked up, then touched in order."""
    hit_blocks = hit_tokens = 0
    cache, window = OrderedDict(), None
    for place, row in enumerate(rows):
        if row.window != window:
            cache, window = OrderedDict(), row.window
        prefixes = [row.blocks[: k + 1] for k in range(len(row.blocks))]
        found = next((k for k, prefix in enumerate(prefixes) if prefix not in cache), len(prefixes))
        hit_blocks += found
        hit_tokens += min(found * block_tokens, row.input_tokens)
        if answers:
            resident = -(-(row.input_tokens + row.output_tokens) // block_tokens)
            prefixes += [("answer", place, k) for k in range(len(prefixes), resident)]
        for prefix in prefixes:
            cache[prefix] = None
            cache.move_to_end(prefix)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hit_blocks, hit_tokens


def reuse_gaps(rows):
    """Seconds since a block was last touched, for each block touched again."""
    gaps, last, window = [], {}, None
    for row in rows:
        if row.window != window:
            last, window = {}, row.window
        for k in range(len(row.blocks)):
            prefix = row.blocks[: k + 1]
            if prefix in last:
                gaps.append(row.arrival_s - last[prefix])
            last[prefix] = row.arrival_s
    return gaps


def most_within(rows, window_s):
    """The largest number of requests of one window that arrive within so many seconds."""
    return max(
        sum(o.window == row.window and 0 <= o.arrival_s - row.arrival_s <= window_s for o in rows) for row in rows
    )
