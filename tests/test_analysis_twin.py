"""The analysis against its naive twin, on small traces with ties, flat block ids and several windows."""

from itertools import pairwise

import naive_analysis as naive
import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from btbench.analysis.audit import analyze
from btbench.analysis.options import BtbGrid, Options
from btbench.analysis.prepared import prepare
from btbench.analysis.stack_distance import reuse_distances
from btbench.runs import join_runs
from btbench.trace import Trace, Window

BLOCK_TOKENS = strategies.BLOCK_TOKENS


def pack(rows: list[naive.Row]) -> Trace:
    """Rows, window by window and in order of time within each, as a trace."""
    ids: dict = {}
    symbols = np.array([ids.setdefault(block, len(ids)) for row in rows for block in row.blocks], np.int32)
    offsets = np.cumsum([0, *(len(row.blocks) for row in rows)], dtype=np.int64)
    packed = join_runs(symbols, offsets, np.ones(len(ids), np.int32), np.zeros(len(rows), np.int32))
    numbers = np.array([row.window for row in rows])
    bounds = [int(np.searchsorted(numbers, w)) for w in range(numbers[-1] + 2)]
    return Trace(
        name="test",
        block_tokens=BLOCK_TOKENS,
        arrival_s=np.array([row.arrival_s for row in rows], np.float64),
        input_tokens=np.array([row.input_tokens for row in rows], np.int64),
        output_tokens=np.array([row.output_tokens for row in rows], np.int64),
        run_offsets=packed.offsets,
        runs=packed.runs,
        run_blocks=packed.run_blocks,
        tail_blocks=packed.tail_blocks,
        windows=tuple(Window(f"w{k}", "", a, b) for k, (a, b) in enumerate(pairwise(bounds))),
        session=np.array([row.session for row in rows], np.int32),
    )


@st.composite
def rows(draw, max_requests=25):
    """One to three windows; sessions known for some."""
    made = []
    for window in range(draw(st.sampled_from([1, 1, 2, 3]))):
        requests = draw(strategies.requests(max_requests=max_requests))
        sessions = draw(st.lists(st.integers(-1, 2), min_size=len(requests), max_size=len(requests)))
        made += [
            naive.Row(window, r.arrival_s, r.input_tokens, r.output_tokens, tuple(map(str, r.blocks)), session)
            for r, session in zip(requests, sessions, strict=True)
        ]
    return made


depths = st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True).map(tuple)
time_windows = st.sampled_from([0.0, 0.25, 0.5, 2.0, 100.0])
thresholds = st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True).map(lambda t: tuple(sorted(t)))


@given(rows(), depths, st.lists(time_windows, min_size=1, max_size=3, unique=True), thresholds)
def test_every_cell_is_the_definition(made, depths, windows_s, thresholds):
    options = Options(depths_blocks=depths, windows_s=tuple(windows_s), thresholds=thresholds)
    found = analyze(pack(made), options)
    assert len(found.fanout) == len(depths) * len(windows_s)
    for cell in found.fanout:
        expected = naive.fanout(made, cell.depth_blocks, cell.window_s, thresholds, BLOCK_TOKENS)
        for kind in ("bursts", "independent_bursts", "chain_independent_bursts"):
            counts = expected.pop(kind)
            per_hour = getattr(cell, f"{kind}_per_hour")
            if found.span_s:
                assert {t: round(rate * found.span_s / 3600) for t, rate in per_hour.items()} == counts
            else:
                assert per_hour is None
        for key, value in expected.items():
            assert getattr(cell, key) == (pytest.approx(value, abs=1e-9) if "span" in key else value), key


@given(rows(), depths, time_windows)
def test_listed_bursts_are_bursts(made, depths, window_s):
    trace = pack(made)
    found = analyze(trace, Options(depths_blocks=depths, thresholds=(2,), burst_window_s=window_s)).bursts
    possible = [
        burst
        for depth in depths
        for group in naive.groups_at(made, depth)
        for burst in naive.bursts_of(group, window_s, 2)
    ]
    facts = [
        (len(b), b[0].arrival_s, naive.shared_blocks(b), sum(row.input_tokens for row in b), f"w{b[0].window}")
        for b in possible
    ]
    costs = [(len(b) - 1) * naive.shared_blocks(b) for b in possible]
    for burst in found.top:
        assert (burst.requests, burst.start_s, burst.shared_blocks, burst.input_tokens, burst.window) in facts
    assert bool(found.top) == bool(possible)
    if possible:
        assert (found.top[0].requests - 1) * found.top[0].shared_blocks == max(costs)
    assert found.found == len(found.timeline.requests) >= len(found.top)


@given(rows())
def test_the_root_is_what_all_requests_of_a_window_share(made):
    trace = pack(made)
    found = analyze(trace, Options()).root_prefixes
    expected = {w.name: naive.root_blocks(made, k) for k, w in enumerate(trace.windows)}
    assert {root.window: root.blocks for root in found} == {w: blocks for w, blocks in expected.items() if blocks}


@given(rows(), depths)
def test_groups_without_the_root(made, depths):
    found = analyze(pack(made), Options(depths_blocks=depths, without_root=True))
    for cell in found.fanout:
        depth = cell.depth_blocks
        kept = [row for row in made if depth > naive.root_blocks(made, row.window)]
        expected = naive.fanout(kept, depth, cell.window_s, (5, 10, 20, 50, 100), BLOCK_TOKENS)
        assert (cell.groups, cell.max_fanout) == (expected["groups"], expected["max_fanout"])


@given(rows(), st.integers(1, 8), st.sampled_from([1, 2, 3, 4]), time_windows)
def test_detection_is_the_rule_of_btb(made, depth, threshold, window_s):
    grid = BtbGrid(thresholds=(threshold,), prefix_blocks=(depth,), windows_s=(window_s,))
    (found,) = analyze(pack(made), Options(btb=grid)).btb
    trains = naive.detect(made, depth, threshold, window_s)
    assert found.detected == len(trains)
    assert found.following == sum(train["following"] for train in trains)
    assert found.false_alarms == sum(train["following"] == 0 for train in trains)
    if trains:
        assert found.after_requests["max"] == max(train["after"] for train in trains)
        assert found.after_requests["mean"] == pytest.approx(np.mean([train["after"] for train in trains]))
        assert found.after_s["mean"] == pytest.approx(np.mean([train["after_s"] for train in trains]))


@given(rows())
def test_reuse_without_a_limit(made):
    found = analyze(pack(made), Options()).reuse
    matched = naive.matched(made)
    blocks = [len(row.blocks) for row in made]
    if not sum(blocks):
        assert found is None
        return
    tokens = [min(m * BLOCK_TOKENS, row.input_tokens) for m, row in zip(matched, made, strict=True)]
    rates = [m / b for m, b in zip(matched, blocks, strict=True) if b]
    assert (found.hit_blocks, found.hit_tokens) == (sum(matched), sum(tokens))
    assert found.block_hit_rate == pytest.approx(sum(matched) / sum(blocks))
    assert found.token_hit_rate == pytest.approx(sum(tokens) / sum(row.input_tokens for row in made))
    assert found.mean_request_block_hit_rate == pytest.approx(np.mean(rates))
    assert sum(prefix.reused_blocks for prefix in found.top_prefixes) <= found.hit_blocks
    gaps = naive.reuse_gaps(made)
    assert (found.gaps_s or {}).get("count", 0) == len(gaps)
    if gaps:
        assert found.gaps_s["p50"] == pytest.approx(sorted(gaps)[len(gaps) // 2], abs=1e-9)
        assert found.gaps_s["mean"] == pytest.approx(np.mean(gaps), abs=1e-9)
    own = naive.matched(made, same_session=True)
    known = [k for k, row in enumerate(made) if row.session >= 0]
    if known:
        assert found.across_sessions.hit_blocks == sum(matched[k] for k in known)
        assert found.across_sessions.across_blocks == sum(matched[k] - own[k] for k in known)
    else:
        assert found.across_sessions is None


@given(rows(), st.booleans())
def test_lru_hits_at_every_size(made, answers):
    trace = pack(made)
    prepared = prepare(trace)
    room = prepared.blocks
    if answers:
        room = np.maximum(room, -(-(trace.input_tokens + trace.output_tokens) // BLOCK_TOKENS))
    sizes = np.array([1, 2, 3, 5, 8, 9, 13, 21, 34, 55, 1000], np.int64)
    found = reuse_distances(trace, prepared.tree, room, sizes)
    for size, blocks, tokens in zip(sizes, found.hit_blocks, found.hit_tokens, strict=True):
        assert (blocks, tokens) == naive.lru_hits(made, size, BLOCK_TOKENS, answers), size


@given(rows())
def test_arrivals(made):
    found = analyze(pack(made), Options(windows_s=(0.25, 2.0)))
    assert [peak.max_requests for peak in found.arrival_peaks] == [naive.most_within(made, w) for w in (0.25, 2.0)]
    times = [(row.window, row.arrival_s) for row in made]
    sharing = sum(times.count(time) > 1 for time in times)
    assert (found.ticks.distinct_times, found.ticks.requests_sharing) == (len(set(times)), sharing)
    assert sum(found.arrivals.rate.requests) == len(made)
