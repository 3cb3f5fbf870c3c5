"""The published audit of the real Mooncake conversation trace: every cell, the headline, and known reuse rates."""

from pathlib import Path

import pytest
from cases import folder_of

from btbench.analysis.audit import TraceAnalysis, analyze
from btbench.analysis.options import Options
from btbench.sources import open_trace
from btbench.trace_spec import TraceSpec

THRESHOLDS = (5, 10, 20, 50, 100)

# JW Labs, audit of 22 July 2026: depth: groups; then for 1, 10 and 60 s: largest, span, class, largest of class
# fan-out, its span, groups of any class and of class fan-out that reach each threshold
NONE, ONE = (0, 0, 0, 0, 0), (1, 0, 0, 0, 0)
CELLS = {
    1: (
        1,
        (28, 0.0, "session", 0, 0.0, (1, 1, 1, 0, 0), NONE),
        (73, 8.999, "session", 0, 0.0, (1, 1, 1, 1, 0), NONE),
        (263, 60.0, "session", 0, 0.0, (1, 1, 1, 1, 1), NONE),
    ),
    2: (
        7373,
        (2, 0.0, "fanout", 2, 0.0, NONE, NONE),
        (2, 9.0, "fanout", 2, 9.0, NONE, NONE),
        (5, 24.0, "fanout", 5, 24.0, ONE, ONE),
    ),
    4: (
        6015,
        (1, 0.0, "fanout", 1, 0.0, NONE, NONE),
        (2, 9.0, "fanout", 2, 9.0, NONE, NONE),
        (5, 24.0, "fanout", 5, 24.0, ONE, ONE),
    ),
    8: (
        5277,
        (1, 0.0, "fanout", 1, 0.0, NONE, NONE),
        (2, 9.0, "fanout", 2, 9.0, NONE, NONE),
        (4, 57.0, "fanout", 4, 57.0, NONE, NONE),
    ),
    16: (
        3775,
        (1, 0.0, "fanout", 1, 0.0, NONE, NONE),
        (2, 6.0, "fanout", 2, 6.0, NONE, NONE),
        (4, 57.0, "fanout", 4, 57.0, NONE, NONE),
    ),
    32: (
        1945,
        (1, 0.0, "fanout", 1, 0.0, NONE, NONE),
        (2, 6.0, "fanout", 2, 6.0, NONE, NONE),
        (4, 57.0, "fanout", 4, 57.0, NONE, NONE),
    ),
}


def read(name: str, **spec: object):
    traces = folder_of("BTBENCH_TRACES")
    path = traces and traces / name
    if path is None or not path.exists():
        pytest.skip(f"BTBENCH_TRACES does not lead to {name}")
    return open_trace(TraceSpec(source=str(path), **spec), path.parent, seed=0)


@pytest.fixture(scope="module")
def conversation() -> TraceAnalysis:
    return analyze(read("mooncake/conversation_trace.jsonl.gz"), Options())


def test_every_cell(conversation: TraceAnalysis) -> None:
    expected = {
        (depth, window_s): (groups, *cell)
        for depth, (groups, *cells) in CELLS.items()
        for window_s, cell in zip((1.0, 10.0, 60.0), cells, strict=True)
    }
    assert conversation.fanout is not None
    found = {
        (c.depth_blocks, c.window_s): (
            c.groups,
            c.max_fanout,
            c.max_fanout_span_s,
            c.max_fanout_class,
            c.max_fanout_independent,
            c.max_fanout_independent_span_s,
            tuple(c.groups_at_least.values()),
            tuple(c.independent_groups_at_least.values()),
        )
        for c in conversation.fanout
    }
    assert found == expected


def test_the_headline(conversation: TraceAnalysis) -> None:
    deep, shallow = conversation.deep_sync, conversation.shallow_wide
    assert deep is not None and shallow is not None
    assert (deep.max_fanout, deep.depth_blocks, deep.span_s, deep.present) == (2, 16, 6.0, False)
    assert (deep.largest_any_class, deep.largest_class, deep.groups_at_least_20) == (2, "fanout", 0)
    assert (shallow.max_fanout, shallow.depth_blocks, shallow.span_s, shallow.reads_as) == (4, 8, 57.0, "steady")


def test_the_load(conversation: TraceAnalysis) -> None:
    assert (conversation.requests, conversation.requests_with_blocks) == (12031, 12031)
    assert conversation.span_s == 3536.999
    assert conversation.mean_rate_per_s == pytest.approx(3.4014711341450763, rel=1e-12)
    assert [(p.window_s, p.max_requests) for p in conversation.arrival_peaks] == [(1, 28), (10, 73), (60, 263)]
    assert conversation.ticks is not None
    assert (conversation.ticks.distinct_times, conversation.ticks.largest) == (1180, 28)


def test_what_other_tools_print_as_hit_rate(conversation: TraceAnalysis) -> None:
    assert conversation.reuse is not None
    assert round(conversation.reuse.block_hit_rate, 4) == 0.3664
    assert round(conversation.reuse.mean_request_block_hit_rate, 4) == 0.3843


def test_sessions_by_length_are_no_chains(conversation: TraceAnalysis) -> None:
    """Requests of one tick look like growing sessions when sorted by length; their blocks say otherwise."""
    shared_by_all = [c for c in conversation.fanout or () if c.depth_blocks == 1]
    assert all(c.max_fanout_class == "session" and c.chain_max_fanout_class == "fanout" for c in shared_by_all)
    assert all(c.rests_on_ticks for c in shared_by_all)


def test_spreading_ties_takes_a_fanout_that_rests_on_ticks_apart(conversation: TraceAnalysis) -> None:
    spread = analyze(read("mooncake/conversation_trace.jsonl.gz", tie="spread"), Options())
    cells = [
        next(c for c in a.fanout or () if (c.depth_blocks, c.window_s) == (1, 1.0)) for a in (conversation, spread)
    ]
    assert cells[0].max_fanout == 28 and cells[0].rests_on_ticks
    assert cells[1].max_fanout < 14 and not cells[1].rests_on_ticks


def test_the_detector_lights_up_on_a_generated_window() -> None:
    found = analyze(open_trace(TraceSpec(source="generated"), Path(), seed=0), Options())
    assert found.deep_sync is not None
    assert (found.deep_sync.max_fanout, found.deep_sync.depth_blocks, found.deep_sync.present) == (84, 16, True)
    assert found.deep_sync.chain_max_fanout == 84
    assert found.btb is not None
    caught = next(d for d in found.btb if (d.threshold, d.prefix_blocks, d.window_s) == (2, 256, 1.0))
    assert (caught.detected, caught.following, caught.false_alarms) == (8, 3984, 0)  # 8 jobs of 500; 120 decoys alone
