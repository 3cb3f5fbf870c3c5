"""The analysis of a trace small enough to work out on paper, and what traces that lack something get."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from btbench.analysis.audit import analyze
from btbench.analysis.headline import Shallower
from btbench.analysis.options import BtbGrid, Options
from btbench.analysis.prepared import first_requests
from btbench.analysis.statistics import distribution
from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica, Setup
from btbench.sources import open_trace
from btbench.trace import Trace
from btbench.trace_spec import TraceSpec

SETUP = Setup("8b", MODELS["qwen3-8b"], (Replica("node0", GPUS["h100"], 1),))

# arrival, input, blocks of 10 tokens: all begin with block s; a job of four at 5 s, a conversation that grows
ROWS = (
    (0.0, 25, "s a b"),
    (1.0, 45, "s a d e f"),  # goes on from the first, whose third block was part filled
    (5.0, 40, "s j k l"),
    (5.0, 40, "s j k l"),
    (5.0, 45, "s j k l x"),
    (5.5, 45, "s j k l y"),
    (20.0, 65, "s a d e g h i"),  # goes on from the second
    (20.0, 10, "s"),
    (30.0, 5, ""),
    (64.0, 45, "s j k l z"),
)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    lines = (
        {"arrival_s": time, "input_length": tokens, "output_length": 2, "hash_ids": blocks.split()}
        for time, tokens, blocks in ROWS
    )
    (tmp_path / "hand.jsonl").write_bytes(b"\n".join(msgspec.json.encode(line) for line in lines))
    return open_trace(TraceSpec(source="hand.jsonl", block_tokens=10), tmp_path, seed=0)


def test_cells(trace: Trace) -> None:
    options = Options(depths_blocks=(1, 3), depths_tokens=(11,), windows_s=(0.5, 60.0), thresholds=(2, 4))
    found = analyze(trace, options)
    cells = {(c.depth_blocks, c.window_s): c for c in found.fanout or ()}
    assert list(cells) == [(1, 0.5), (1, 60.0), (2, 0.5), (2, 60.0), (3, 0.5), (3, 60.0)]
    job = cells[3, 0.5]
    assert (job.depth_tokens, job.groups) == (30, 3)  # s a b; s a d; s j k
    assert (job.max_fanout, job.max_fanout_span_s, job.max_fanout_class) == (4, 0.5, "fanout")
    assert (job.max_fanout_distinct_times, job.rests_on_ticks) == (2, True)
    assert job.groups_at_least == {"2": 1, "4": 1}
    talk = cells[3, 60.0]
    assert talk.groups_at_least == {"2": 2, "4": 1}  # s a d twice within 19 s; the job, once more within 59 s
    assert (talk.max_fanout, talk.max_fanout_span_s, talk.chain_max_fanout_class) == (5, 59.0, "fanout")
    assert cells[1, 60.0].max_fanout == 8  # up to 20 s; the last one, from 5 s on, would have 7
    assert cells[1, 60.0].groups == 1


def test_a_conversation_is_a_chain_and_too_short_for_the_length_rule(trace: Trace) -> None:
    found = analyze(trace, Options(depths_blocks=(2,), windows_s=(20.0,), thresholds=(2,)))
    (cell,) = found.fanout or ()
    # groups s a (25, 45 and 65 tokens: longest over twice the shortest, growing) and s j; the job is larger
    assert (cell.max_fanout, cell.max_fanout_class, cell.chain_max_fanout_class) == (4, "fanout", "fanout")
    assert cell.groups_at_least["2"] == 2
    assert cell.independent_groups_at_least["2"] == 1 and cell.chain_independent_groups_at_least["2"] == 1


def test_the_root_and_groups_without_it(trace: Trace) -> None:
    options = Options(depths_blocks=(1, 2), windows_s=(60.0,), thresholds=(2,), without_root=True)
    found = analyze(trace, options)
    (root,) = found.root_prefixes
    assert (root.prefix, root.blocks, root.tokens, root.requests) == ("0/0[:1]", 1, 10, 9)
    assert [(c.groups, c.max_fanout) for c in found.fanout or ()] == [(0, 0), (2, 5)]


def test_the_largest_below_the_deep_ones_is_beyond_the_root(trace: Trace) -> None:
    for without_root in (False, True):
        found = analyze(trace, Options(depths_blocks=(1, 2, 3, 16), without_root=without_root))
        assert found.shallower == Shallower(10.0, 4, 3, 30, 0.5)  # the job; with the root it would be 6, 1 block deep
        assert found.root_blocks == (0 if without_root else 1)
    assert analyze(trace, Options(depths_blocks=(1, 16))).shallower is None


def test_one_request_of_a_window_has_no_root(trace: Trace) -> None:
    windows = tuple(trace.windows[0].__class__(name, "", a, b) for name, a, b in (("x", 0, 1), ("y", 1, 10)))
    found = analyze(trace.with_changes(windows=windows), Options())
    assert [(root.prefix, root.requests) for root in found.root_prefixes] == [("y/0[:1]", 8)]


@pytest.mark.parametrize(("lengths", "kind"), [((9, 9, 9, 18, 8, 9), "session"), ((9, 9, 18, 8, 7, 9), "fanout")])
def test_a_session_may_shrink_at_one_step_of_five(trace: Trace, lengths: tuple[int, ...], kind: str) -> None:
    same = first_requests(trace, 6).with_changes(arrival_s=np.arange(6.0), input_tokens=np.array(lengths))
    (cell,) = analyze(same, Options(depths_blocks=(1,), windows_s=(60.0,))).fanout or ()
    assert (cell.max_fanout, cell.max_fanout_class) == (6, kind)


def test_the_burst_and_its_cost(trace: Trace) -> None:
    found = analyze(trace, Options(depths_blocks=(2, 4), thresholds=(3,), setup=SETUP, top=3)).bursts
    assert found is not None and found.found == 1
    (burst,) = found.top
    assert (burst.prefix, burst.first_request, burst.requests) == ("0/2[:4]", 2, 4)
    assert (burst.start_s, burst.span_s, burst.shared_tokens, burst.repeated_tokens) == (5.0, 0.5, 40, 120)
    assert burst.input_tokens == 170
    once = 2 * 8.19e9 * 40 / (989e12 * 0.5)
    assert burst.prefill_once_s == pytest.approx(once) and burst.prefill_each_s == pytest.approx(4 * once)


def test_what_btb_would_notice(trace: Trace) -> None:
    grid = BtbGrid(thresholds=(1, 3), prefix_blocks=(), prefix_tokens=(31,), windows_s=(1.0,))
    first, third = analyze(trace, Options(btb=grid)).btb or ()
    assert (third.prefix_blocks, third.requests_with_key) == (4, 7)
    assert (third.detected, third.following, third.false_alarms) == (1, 1, 0)
    assert third.after_requests and third.after_requests["max"] == 3 and third.after_s and third.after_s["max"] == 0
    # X = 1 fires at every train: s a d e at 1 and at 20 s, the job, and its late request
    assert (first.detected, first.following, first.false_alarms) == (4, 3, 3)


def test_reuse(trace: Trace) -> None:
    found = analyze(trace, Options(setup=SETUP)).reuse
    assert found is not None
    # hits: 0, 2 (s a), 1 (s), 4, 4, 4, 4 (s a d e), 1, –, 4
    assert (found.prompt_blocks, found.hit_blocks, found.distinct_blocks) == (39, 24, 15)
    assert found.hit_tokens == 240 and found.token_hit_rate == pytest.approx(240 / 365)
    assert found.requests_without_hit == 2
    hottest = found.top_prefixes[0]
    assert (hottest.prefix, hottest.from_block, hottest.to_block) == ("0/2[:4]", 1, 4)
    assert (hottest.requests, hottest.reused_blocks, hottest.share_of_reuse) == (5, 12, 0.5)
    assert found.lru.hbm_blocks == int((80e9 - 2 * 8.19e9) / (2 * 36 * 8 * 128 * 2 * 10))
    # four blocks hold: s a for the second, s j k l twice, and s from the eighth request for the last
    sizes = {size.blocks: size.block_hit_rate for size in found.lru.curve}
    assert sizes[4] == pytest.approx(11 / 39) and sizes[16] == pytest.approx(24 / 39)
    needed = {size.share_of_unlimited: size.blocks for size in found.lru.needed}
    assert (needed[0.5], needed[1.0]) == (5, 11)  # the last finds j k l behind y and s a d e g h i


def test_several_windows_are_taken_by_themselves(trace: Trace) -> None:
    windows = tuple(trace.windows[0].__class__(name, "", a, b) for name, a, b in (("x", 0, 4), ("y", 4, 10)))
    found = analyze(
        trace.with_changes(windows=windows), Options(depths_blocks=(4,), windows_s=(60.0,), thresholds=(2,))
    )
    (cell,) = found.fanout or ()
    assert cell.groups == 4  # s a d e and s j k l in each window
    assert (cell.max_fanout, cell.groups_at_least) == (3, {"2": 2})
    assert found.span_s == 5.0 + 59.0
    assert found.reuse is not None and found.reuse.hit_blocks == 0 + 2 + 1 + 4 + 0 + 4 + 1 + 1 + 4


def test_without_hashes(trace: Trace) -> None:
    bare = trace.with_changes(
        has_blocks=False, run_offsets=np.zeros(11, np.int64), runs=trace.runs[:0], tail_blocks=trace.tail_blocks * 0
    )
    found = analyze(bare, Options())
    assert found.fanout is None and found.deep_sync is None and found.reuse is None and found.btb is None
    assert found.fanout_why is not None and "no block hashes" in found.fanout_why
    assert found.arrivals is not None and found.arrival_peaks[0].max_requests == 4
    assert found.lengths.input_tokens is not None and found.lengths.cacheable_tokens is None


def test_without_times(trace: Trace) -> None:
    found = analyze(trace.with_changes(has_times=False, arrival_s=np.zeros(10)), Options())
    assert found.fanout is None and found.arrivals is None and found.span_s is None
    assert found.fanout_why is not None and "no timestamps" in found.fanout_why
    assert found.reuse is not None and found.reuse.hit_blocks == 24 and found.reuse.gaps_s is None


def test_the_first_requests(trace: Trace) -> None:
    assert first_requests(trace, 10) is trace
    cut = first_requests(trace, 4)
    assert len(cut) == 4 and cut.windows[0].stop == 4
    assert analyze(cut, Options()).reuse == analyze(first_requests(cut, 99), Options()).reuse


def test_percentiles_are_elements_by_rank() -> None:
    found = distribution(np.arange(1, 1001))
    assert found is not None
    assert (found["p1"], found["p50"], found["p99.9"], found["mean"]) == (11, 501, 1000, 500.5)
    assert distribution(np.array([])) is None
    assert distribution(np.array([5.0, 1.0]), np.array([1, 3])) == distribution(np.array([1.0, 1.0, 1.0, 5.0]))
