"""`art-like`: a seeded stand-in for a day of ART-Chat traffic, for machines without a network. Never the real thing.

Made from what JW Labs published of the first 300,000 rows of ART-Chat-2.5M (burst audit of 22 July 2026) and on its
data-set card; `MATCHED` and `NOT_MATCHED` say how far the likeness goes. Four kinds of requests lie over each other:

- sessions: turn after turn extends the prompt; they open with the prompt of an app, and apps form a tree of prefixes
- one-shots: long prompts that share nothing
- pings: tiny prompts that few users repeat word for word, in bouts
- planted: one minute of surge, and the widest fan-outs of the audit, once in 300,000 rows (and at least once)

Draws come from NumPy's `RandomState`, whose streams are frozen, so a seed means the same trace with any release.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.errors import TraceError
from btbench.runs import join_runs
from btbench.sources.digests import content_digest
from btbench.trace import Trace, Window

NAME = "art-like"
BLOCK_TOKENS = 256
ROWS = 300_000  # as many as were audited
FEWEST_ROWS = 50_000
RATE_PER_S = 3.37  # audited: 300,000 rows in 89,019 s

MATCHED = (
    "mean rate; peaks within 1, 10 and 60 s; mean input; share of prompt tokens that an unlimited cache would reuse; "
    "majority of tiny prompts from few users; prompts that grow by turns; widest fan-out by prefix depth and window; "
    "number of prefix groups by depth"
)
NOT_MATCHED = (
    "time of day; output lengths beyond their range (1 to 128 tokens); who the users are; what any prompt says; "
    "everything that was not published"
)

SESSIONS_PER_ROW = 0.0475  # with the turns below, 43 % of the rows
TURNS_MEAN = 8.7
GAP_MEDIAN_S, PACE_SPREAD, GAP_SPREAD = 14.0, 1.2, 0.8  # between turns; log-normal over sessions and within one
SHORTEST_PACE_S = 1.0  # else a lone session would outdo the audited fan-outs
GROWTH_BLOCKS = 11.0  # mean of a turn, geometric
START_BLOCKS = 24.0  # of a session's own, behind the prompt of its app, geometric
LONGEST_BLOCKS = 1_015  # published: 260,000 tokens
APPS = 4_500  # audited: 7,365 prefixes of 32 blocks, those of one-shots among them
ROOTS = 250  # first blocks of apps
ROOT_SKEW, APP_SKEW = 0.5, 0.7  # exponents of their popularity
ONE_SHOTS_PER_ROW = 0.012  # audited: 4,167 first blocks
PING_USERS = 12
PING_OPENINGS = 80  # first blocks of pings
PING_PROMPTS = 3_000  # audited: 2,900 prefixes more at two blocks than at four
PING_SKEW = 1.3
BOUT_MEAN = 2.0  # pings in a row
# seconds and requests, one in the middle of the other; audited peaks: 98 within 1 s, 343 within 10 s, 1,656 within 60 s
SURGE = ((60.0, 1_350), (1.0, 64))
# audited widest fan-outs: requests, seconds, blocks they share
FANOUTS = (
    (337, 59.8, 1),
    (74, 9.9, 1),
    (28, 0.96, 1),
    (177, 59.8, 2),
    (41, 10.0, 2),
    (12, 0.9, 4),
    (108, 59.8, 4),
    (30, 9.6, 4),
    (103, 59.6, 8),
    (25, 2.8, 16),
    (11, 0.94, 16),
    (82, 59.2, 32),
    (20, 9.7, 32),
    (8, 0.92, 32),
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class _Rows(NamedTuple):
    """n requests of one kind, in any order."""

    arrival_s: Floats  # (n,)
    counts: Ints  # (n,) symbols of each
    symbols: Ints  # prefix pieces in prompt order
    tail_blocks: Ints  # (n,) blocks of its own behind them
    short_tokens: Ints  # (n,) tokens that its last block lacks
    output_tokens: Ints  # (n,)
    session: Ints  # (n,) -1: none
    user: Ints  # (n,)


class _Pieces:
    """Prefix pieces by number, each with its length in blocks."""

    def __init__(self) -> None:
        self.lengths: list[Ints] = []
        self.count = 0

    def add(self, blocks: Ints) -> Ints:
        """Numbers of new pieces of these lengths."""
        self.lengths.append(blocks)
        self.count += len(blocks)
        return np.arange(self.count - len(blocks), self.count)


def _zipf(rng: np.random.RandomState, kinds: int, exponent: float, size: int) -> Ints:
    """Ranks 0 … kinds − 1, with probability ∝ 1 / (rank + 1)^exponent."""
    weight = np.cumsum((np.arange(kinds) + 1.0) ** -exponent)
    return np.searchsorted(weight, rng.random_sample(size) * weight[-1], side="right")


def _outputs(rng: np.random.RandomState, size: int) -> Ints:
    return np.minimum(rng.geometric(1 / 40.0, size), 128)  # published range: 1 to 128


def _within(counts: Ints) -> Ints:
    """0, 1, …, count − 1 for each count."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _apps(rng: np.random.RandomState, pieces: _Pieces) -> Ints:
    """(APPS, 4) pieces of each app's prompt: its root, branches that part before 8, 16 and 32 blocks."""
    root = _zipf(rng, ROOTS, ROOT_SKEW, APPS)
    branch = np.unique(root * 3 + rng.randint(0, 3, APPS), return_inverse=True)[1]
    twig = np.unique(branch * 3 + rng.randint(0, 3, APPS), return_inverse=True)[1]
    path = [root]
    ends = rng.randint(1, 8, ROOTS)[root]  # depth in blocks at which the piece ends, by app
    numbers = [pieces.add(ends)]
    for node, low, high in ((branch, 8, 16), (twig, 16, 32), (np.arange(APPS), 32, 72)):
        end = rng.randint(low, high, APPS)[node]
        numbers.append(pieces.add(end - ends))
        ends = end
        path.append(node)
    first = [np.unique(node, return_index=True)[1][np.unique(node, return_inverse=True)[1]] for node in path]
    return np.stack([number[at] for number, at in zip(numbers, first, strict=True)], axis=1)


def _sessions(rng: np.random.RandomState, pieces: _Pieces, count: int, span_s: float) -> _Rows:
    """Sessions that start at any time of the trace and grow by turns; turns behind its end are left out."""
    app = _zipf(rng, APPS, APP_SKEW, count)
    app_pieces = _apps(rng, pieces)[app]
    turns = np.minimum(rng.geometric(1 / TURNS_MEAN, count), 250)
    pace_s = np.maximum(GAP_MEDIAN_S * rng.lognormal(0.0, PACE_SPREAD, count), SHORTEST_PACE_S)
    start_s = rng.random_sample(count) * span_s
    session = np.repeat(np.arange(count), turns)
    turn = _within(turns)
    gap_s = np.where(turn == 0, 0.0, pace_s[session] * rng.lognormal(0.0, GAP_SPREAD, len(session)))
    since_s = np.cumsum(gap_s)
    arrival_s = start_s[session] + since_s - since_s[np.cumsum(turns) - turns][session]
    grown = np.where(turn == 0, rng.geometric(1 / START_BLOCKS, len(turn)), rng.geometric(1 / GROWTH_BLOCKS, len(turn)))
    numbers = pieces.add(grown)
    opening = np.concatenate(pieces.lengths)[app_pieces].sum(axis=1)[session]
    since = np.cumsum(grown)
    blocks = opening + since - (since - grown)[np.cumsum(turns) - turns][session]
    keep = (arrival_s < span_s) & (blocks < LONGEST_BLOCKS)
    kept, depth = session[keep], turn[keep]
    counts = app_pieces.shape[1] + depth + 1
    place = _within(counts)
    row = np.repeat(np.flatnonzero(keep), counts)
    own = numbers[row] - np.repeat(depth, counts) + place - app_pieces.shape[1]
    symbols = np.where(
        place < app_pieces.shape[1], app_pieces[session[row], np.minimum(place, app_pieces.shape[1] - 1)], own
    )
    n = len(kept)
    return _Rows(
        arrival_s[keep],
        counts,
        symbols,
        np.ones(n, np.int64),  # the last, partly filled block of a turn is not that of the next
        rng.randint(1, BLOCK_TOKENS, n),
        _outputs(rng, n),
        kept,
        PING_USERS + app[kept] % 800,
    )


def _one_shots(rng: np.random.RandomState, count: int, span_s: float) -> _Rows:
    """Long prompts that share nothing."""
    none = np.zeros(count, np.int64)
    return _Rows(
        rng.random_sample(count) * span_s,
        none,
        np.zeros(0, np.int64),
        np.clip(rng.lognormal(np.log(60.0), 0.9, count).astype(np.int64), 8, LONGEST_BLOCKS),
        rng.randint(0, BLOCK_TOKENS, count),
        _outputs(rng, count),
        none - 1,
        PING_USERS + rng.randint(0, 800, count),
    )


class _Pings(NamedTuple):
    """The texts that are pinged: one to three blocks."""

    pieces: Ints  # (PING_PROMPTS, 2) opening and the rest, which may have no blocks
    rest_blocks: Ints  # (PING_PROMPTS,)
    short_tokens: Ints  # (PING_PROMPTS,)
    user: Ints  # (PING_PROMPTS,)


def _ping_texts(rng: np.random.RandomState, pieces: _Pieces) -> _Pings:
    opening = _zipf(rng, PING_OPENINGS, 0.5, PING_PROMPTS)
    openings = pieces.add(np.ones(PING_OPENINGS, np.int64))
    rest = rng.randint(1, 3, PING_PROMPTS)
    bare = rng.random_sample(PING_PROMPTS) < 0.1
    numbers = np.stack([openings[opening], pieces.add(rest)], axis=1)
    return _Pings(numbers, np.where(bare, 0, rest), rng.randint(0, BLOCK_TOKENS, PING_PROMPTS), opening % PING_USERS)


def _pings(rng: np.random.RandomState, texts: _Pings, text: Ints, arrival_s: Floats) -> _Rows:
    """Requests with these texts at these times."""
    n = len(text)
    counts = np.where(texts.rest_blocks[text] > 0, 2, 1)
    symbols = texts.pieces[np.repeat(text, counts), _within(counts)]
    none = np.zeros(n, np.int64)
    outputs = np.minimum(rng.geometric(0.2, n), 128)
    return _Rows(arrival_s, counts, symbols, none, texts.short_tokens[text], outputs, none - 1, texts.user[text])


def _bouts(rng: np.random.RandomState, count: int, span_s: float) -> tuple[Ints, Floats]:
    """Text and time of `count` pings: bouts of one text, a few seconds from ping to ping."""
    sizes = rng.geometric(1 / BOUT_MEAN, count)  # more than enough
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), count) + 1]
    text = _zipf(rng, PING_PROMPTS, PING_SKEW, len(sizes))
    bout = np.repeat(np.arange(len(sizes)), sizes)[:count]
    pace_s = rng.lognormal(np.log(6.0), 0.8, len(sizes))
    since_s = np.cumsum(pace_s[bout] * rng.exponential(1.0, count))
    first = np.searchsorted(bout, np.arange(len(sizes)))
    start_s = rng.random_sample(len(sizes)) * span_s
    arrival_s = start_s[bout] + since_s - since_s[first][bout]
    return text[bout], np.where(arrival_s < span_s, arrival_s, rng.random_sample(count) * span_s)


def _planted(rng: np.random.RandomState, pieces: _Pieces, texts: _Pings, span_s: float) -> list[_Rows]:
    """One surge of pings, and the widest fan-outs of each depth, each at a time of its own."""
    middle_s = span_s * rng.uniform(0.1, 0.9)
    surge_s = np.concatenate([middle_s + width_s * (rng.random_sample(requests) - 0.5) for width_s, requests in SURGE])
    parts = [_pings(rng, texts, rng.randint(0, PING_PROMPTS, len(surge_s)), surge_s)]
    for requests, width_s, depth in FANOUTS:
        start_s = rng.uniform(0.0, span_s - width_s)
        arrival_s = start_s + width_s * np.sort(np.concatenate([[0.0, 1.0], rng.random_sample(requests - 2)]))
        prefix = pieces.add(np.array([depth]))
        tail = np.zeros(requests, np.int64) if depth < 4 else rng.randint(1, 40, requests)
        parts.append(
            _Rows(
                arrival_s,
                np.ones(requests, np.int64),
                np.repeat(prefix, requests),
                tail,
                rng.randint(0, BLOCK_TOKENS, requests),
                _outputs(rng, requests),
                np.full(requests, -1),
                np.repeat(rng.randint(0, 800), requests),
            )
        )
    return parts


def art_like_trace(rows: int = ROWS, seed: int = 1) -> Trace:
    """So many rows of traffic like ART-Chat's. Raises TraceError below 50,000 rows, which the peaks would distort."""
    if rows < FEWEST_ROWS:
        raise TraceError(
            f"{NAME} of {rows} rows", f"Allowed: at least {FEWEST_ROWS}; windows cut from it may be smaller."
        )
    rng = np.random.RandomState(seed)
    pieces = _Pieces()
    span_s = rows / RATE_PER_S
    texts = _ping_texts(rng, pieces)
    parts = [
        _sessions(rng, pieces, round(rows * SESSIONS_PER_ROW), span_s),
        _one_shots(rng, round(rows * ONE_SHOTS_PER_ROW), span_s),
    ]
    for _ in range(max(1, rows // ROWS)):
        parts += _planted(rng, pieces, texts, span_s)
    left = rows - sum(len(part.arrival_s) for part in parts)
    parts.append(_pings(rng, texts, *_bouts(rng, left, span_s)))
    return _packed(parts, np.concatenate(pieces.lengths))


def _packed(parts: list[_Rows], lengths: Ints) -> Trace:
    """All requests in arrival order, on a clock of whole milliseconds as ART-Chat's."""
    rows = _Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    ms = np.floor(rows.arrival_s * 1000.0).astype(np.int64)
    order = np.argsort(ms, kind="stable")
    starts = np.cumsum(rows.counts) - rows.counts
    counts = rows.counts[order]
    symbols = rows.symbols[np.repeat(starts[order], counts) + _within(counts)]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    packed = join_runs(
        symbols.astype(np.int32), offsets, lengths.astype(np.int32), rows.tail_blocks[order].astype(np.int32)
    )
    trace = Trace(
        name=NAME,
        block_tokens=BLOCK_TOKENS,
        arrival_s=(ms[order] - ms[order[0]]) / 1000.0,
        input_tokens=np.zeros(0, np.int64),
        output_tokens=rows.output_tokens[order],
        run_offsets=packed.offsets,
        runs=packed.runs,
        run_blocks=packed.run_blocks,
        tail_blocks=packed.tail_blocks,
        windows=(Window("0", "", 0, len(order)),),
        session=rows.session[order].astype(np.int32),
        user=rows.user[order].astype(np.int32),
        format=NAME,
        source=NAME,
    )
    trace = trace.with_changes(input_tokens=trace.prompt_blocks() * BLOCK_TOKENS - rows.short_tokens[order])
    return trace.with_changes(digest=content_digest(trace))
