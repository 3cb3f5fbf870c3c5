"""Intervals of reductions over windows and seeds: the bootstrap said with plain loops, and what it promises."""

import numpy as np
import pytest
from results_samples import make_policy, make_replays, make_runs, make_setup, make_trace

from btbench.results import bootstrap, spread, window_draws
from btbench.results.requests import pool_requests
from btbench.results.spread import Spread
from btbench.results.summary import summary_rows
from btbench.results.window_draws import FEWEST

SETUP = make_setup()
SIZES = (12, 3, 7, 20, 5, 9, 14)
LABELS = ("art", "synthetic", "art", "art", "synthetic", "art", "art")
SLOWNESS = {"cache_aware": 1.0, "btb": 0.6}


def replayed(trace, seeds):
    """Runs of both policies with each seed, and the spread that took them."""
    runs = {(policy, seed): make_runs(trace, SETUP, slow, seed) for policy, slow in SLOWNESS.items() for seed in seeds}
    seen = Spread(trace)
    for (policy, _), of in runs.items():
        seen.add(SETUP.name, policy, pool_requests(trace, trace.windows, of))
    return runs, seen


def ttft_by_window(trace, runs):
    """Lists of TTFT, one a window."""
    return [
        (run.served.start_s - trace.arrival_s[w.start : w.stop] + run.served.reuse_s + run.served.prefill_s).tolist()
        for w, run in zip(trace.windows, runs, strict=True)
    ]


def plain_interval(trace, runs, seeds, windows):
    """The same draws, request by request."""
    ttft = {key: ttft_by_window(trace, of) for key, of in runs.items()}
    rng = np.random.default_rng(bootstrap.SEED)
    fixed = np.tile(np.arange(len(windows)), (1000, 1))
    drawn = rng.integers(0, len(windows), (1000, len(windows))) if len(windows) >= FEWEST else fixed
    of_seed = rng.integers(0, len(seeds), (1000, len(windows)))
    reductions = []
    for places, numbers in zip(drawn, of_seed, strict=True):
        means = {}
        for policy in SLOWNESS:
            pairs = zip(places, numbers, strict=True)
            values = [value for w, s in pairs for value in ttft[policy, seeds[s]][windows[w]]]
            means[policy] = sum(values) / len(values)
        reductions.append((means["cache_aware"] - means["btb"]) / means["cache_aware"] * 100)
    return np.quantile(reductions, [0.025, 0.975])


@pytest.mark.parametrize(
    ("seeds", "label"), [((1,), None), ((1, 2, 3), None), ((4, 9), "art"), ((1, 2, 3, 4, 5), "synthetic")]
)
def test_intervals_are_those_of_the_plain_bootstrap(seeds, label):
    trace = make_trace(SIZES, LABELS)
    windows = [k for k, name in enumerate(LABELS) if label in (None, name)]
    runs, seen = replayed(trace, seeds)
    interval = seen.reduction_pct(SETUP.name, "btb", "cache_aware", label)
    assert interval == pytest.approx(plain_interval(trace, runs, seeds, windows), rel=1e-9)


def test_too_few_windows_and_seeds_say_nothing():
    trace = make_trace(SIZES, LABELS)
    _, seen = replayed(trace, (1, 2, 3))
    assert LABELS.count("synthetic") < FEWEST
    assert seen.reduction_pct(SETUP.name, "btb", "cache_aware", "synthetic") is None
    assert seen.reduction_pct(SETUP.name, "btb", "nobody", None) is None


def test_neighbours_are_drawn_together_where_there_are_very_many_windows(monkeypatch):
    trace = make_trace((2,) * 60, ("",) * 60)
    monkeypatch.setattr(window_draws, "MOST_DRAWN", 20)
    window_draws.draw_windows.cache_clear()
    _, seen = replayed(trace, (1,))
    grouped = seen.reduction_pct(SETUP.name, "btb", "cache_aware", None)
    monkeypatch.undo()
    window_draws.draw_windows.cache_clear()
    alone = seen.reduction_pct(SETUP.name, "btb", "cache_aware", None)
    assert grouped != alone
    assert grouped == pytest.approx(alone, abs=15)


def test_intervals_hold_the_true_reduction_about_as_often_as_they_say():
    """Windows whose mean TTFT is exponential, the policy's 40 % below: 95 % of the intervals should hold 40."""
    rng, held, tried = np.random.default_rng(1), 0, 300
    trace = make_trace((1,) * 40, ("",) * 40)
    seen = Spread(trace)
    for k in range(tried):
        base = rng.exponential(1.0, 40)
        for policy, ttft_s in (("cache_aware", base), ("btb", 0.6 * base * rng.exponential(1.0, 40))):
            seen._seen[str(k), policy] = [spread._Replayed(ttft_s, np.ones(40))]
        low, high = seen.reduction_pct(str(k), "btb", "cache_aware", None)
        held += low <= 40 <= high
    assert 0.88 <= held / tried <= 0.99


def test_the_summary_has_the_intervals_beside_the_reduction_of_the_first_seed():
    trace = make_trace(SIZES, LABELS)
    first = list(make_replays(trace, SLOWNESS, SETUP))
    again = [(setup, policy, make_runs(trace, setup, SLOWNESS[policy.name], 7)) for setup, policy, _ in first]
    alone = {row.key: row for row in summary_rows(trace, first, "cache_aware")}
    both = {row.key: row for row in summary_rows(trace, first, "cache_aware", [again])}
    key = (SETUP.name, "btb", "all")
    ends = ("mean_reduction_low_pct", "mean_reduction_high_pct")
    for rows in (alone, both):
        low, high = (rows[key][end] for end in ends)
        assert low < rows[key]["mean_reduction_pct"] < high
        assert [rows[SETUP.name, "cache_aware", "all"][end] for end in ends] == [None, None]
        assert [rows[SETUP.name, "btb", "synthetic"][end] for end in ends] == [None, None]
    assert [both[key][end] for end in ends] != [alone[key][end] for end in ends]
    changed = {name for name in both[key].values if both[key][name] != alone[key][name]}
    assert changed == set(ends)


def test_a_policy_that_does_as_the_baseline_differs_by_nothing():
    trace = make_trace(SIZES, LABELS)
    seen = Spread(trace)
    requests = pool_requests(trace, trace.windows, make_runs(trace, SETUP))
    for policy in ("cache_aware", "twin"):
        seen.add(SETUP.name, make_policy(policy).name, requests)
    assert seen.reduction_pct(SETUP.name, "twin", "cache_aware", None) == (0, 0)
