"""`art-like` against the published statistics of ART-Chat-2.5M (JW Labs, burst audit of 22 July 2026)."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from btbench.engine import replay
from btbench.errors import TraceError
from btbench.scenario import load_scenario
from btbench.sources import open_trace
from btbench.sources.art_like import art_like_trace
from btbench.sources.generator import generate_trace
from btbench.trace import Trace
from btbench.trace_spec import TraceSpec, WindowSpec

# depth in blocks -> widest fan-out within 1, 10 and 60 s, and number of prefix groups
AUDITED = {
    1: (28, 74, 337, 4167),
    2: (12, 41, 177, 6956),
    4: (12, 30, 108, 4087),
    8: (11, 25, 103, 3925),
    16: (11, 25, 82, 4888),
    32: (8, 20, 82, 7365),
}


@pytest.fixture(scope="module", params=[1, 20260721])
def trace(request: pytest.FixtureRequest) -> Trace:
    return art_like_trace(seed=request.param)


def most_within(times: npt.NDArray[np.float64], window_s: float) -> int:
    return int((np.searchsorted(times, times + window_s, side="right") - np.arange(len(times))).max())


def first_seen(trace: Trace) -> npt.NDArray[np.bool_]:
    """Whether each entry of `runs` is the first of its kind."""
    first = np.zeros(len(trace.runs), np.bool_)
    first[np.unique(trace.runs, return_index=True)[1]] = True
    return first


def groups_at(trace: Trace, depth: int) -> list[npt.NDArray[np.float64]]:
    """Times of the requests of each group that shares its first `depth` blocks."""
    owner = np.repeat(np.arange(len(trace)), np.diff(trace.run_offsets))
    blocks = trace.run_blocks[trace.runs].astype(np.int64)
    ends = np.cumsum(blocks)
    ends -= np.concatenate([[0], ends])[trace.run_offsets[:-1]][owner]
    holds = (ends >= depth) & (ends - blocks < depth)  # the run that the block at this depth lies in
    order = np.lexsort((trace.arrival_s[owner[holds]], trace.runs[holds]))
    times, runs = trace.arrival_s[owner[holds]][order], trace.runs[holds][order]
    shared = np.split(times, np.flatnonzero(np.diff(runs)) + 1)
    alone = (trace.prompt_blocks() >= depth) & ~np.isin(np.arange(len(trace)), owner[holds])
    return shared + [trace.arrival_s[i : i + 1] for i in np.flatnonzero(alone)]


def test_rate_and_peaks(trace):
    assert len(trace) == 300_000
    assert len(trace) / trace.arrival_s[-1] == pytest.approx(3.37, rel=0.01)
    for window_s, audited in ((1, 98), (10, 343), (60, 1656)):
        assert audited / 1.5 < most_within(trace.arrival_s, window_s) < audited * 1.5


def test_lengths(trace):
    assert trace.input_tokens.mean() == pytest.approx(17_500, rel=0.05)
    assert trace.input_tokens.min() >= 1
    assert trace.input_tokens.max() <= 260_000
    assert (trace.output_tokens.min(), trace.output_tokens.max()) == (1, 128)
    assert np.array_equal(trace.prompt_blocks(), -(-trace.input_tokens // 256))


def test_most_requests_are_tiny_pings_of_few_users(trace):
    tiny = trace.input_tokens <= 768
    assert 0.5 < tiny.mean() < 0.65
    assert trace.user is not None
    assert len(np.unique(trace.user[tiny])) < 30
    assert len(np.unique(trace.user)) > 500


def test_reuse(trace):
    owner = np.repeat(np.arange(len(trace)), np.diff(trace.run_offsets))
    blocks = trace.run_blocks[trace.runs]
    known = np.bincount(owner, np.where(first_seen(trace), 0, blocks), len(trace))
    reused = np.minimum(known * 256, trace.input_tokens).sum() / trace.input_tokens.sum()
    assert 0.86 <= reused <= 0.92


def test_prompts_of_a_session_grow(trace):
    assert trace.session is not None
    order = np.lexsort((trace.arrival_s, trace.session))
    session, tokens = trace.session[order], trace.input_tokens[order]
    same = (session[1:] == session[:-1]) & (session[1:] >= 0)
    assert same.sum() > 90_000
    assert (tokens[1:] - tokens[:-1])[same].min() > -256


@pytest.mark.parametrize("depth", AUDITED)
def test_fan_out(trace, depth):
    groups = groups_at(trace, depth)
    *widest, audited_groups = AUDITED[depth]
    assert len(groups) == pytest.approx(audited_groups, rel=0.25)
    for window_s, audited in zip((1, 10, 60), widest, strict=True):
        found = max(most_within(times, window_s) for times in groups)
        assert audited / 1.5 <= found <= audited * 1.5


def test_same_seed_same_trace_and_another_seed_another():
    few = [art_like_trace(50_000, seed=seed).digest for seed in (1, 1, 2)]
    assert few[0] == few[1] != few[2]


def test_too_few_rows_are_refused():
    with pytest.raises(TraceError, match="1000 rows"):
        art_like_trace(1_000)


def test_it_can_be_named_and_cut_like_any_trace():
    spec = TraceSpec(source="art-like", windows=WindowSpec(count=2, rows=500, start=1_000))
    trace = open_trace(spec, Path("."), seed=1)
    assert [window.name for window in trace.windows] == ["rows 1000-1499", "rows 1500-1999"]
    assert (trace.name, trace.format, trace.block_tokens) == ("art-like", "art-like", 256)


@pytest.mark.parametrize("setup", ["70b_h100x4", "qwen3_8b_h100x4"])
def test_looking_for_bursts_gains_and_costs_next_to_nothing(setup):
    """As published of ART-Chat itself: the reduction of `btb` against `cache_aware` is within 3 %."""
    scenario = load_scenario("default")
    assert scenario.trace.generator is not None
    trace = generate_trace(scenario.trace.generator)
    cluster = next(s for s in scenario.setups if s.name == setup)
    windows = [trace.window(window) for window in trace.windows if window.label == "art-like"]
    assert len(windows) == 15
    mean_s = {}
    for policy in scenario.policies:
        if policy.name in ("cache_aware", "btb"):
            runs = [replay(window, cluster, policy, scenario.options, scenario.seed) for window in windows]
            ttft_s = [
                run.served.start_s - window.arrival_s + run.served.reuse_s + run.served.prefill_s
                for window, run in zip(windows, runs, strict=True)
            ]
            mean_s[policy.name] = np.concatenate(ttft_s).mean()
    assert abs(1 - mean_s["btb"] / mean_s["cache_aware"]) < 0.03
