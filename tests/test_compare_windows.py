"""Intervals over whole windows: the bootstrap said with plain loops, what it promises, and when it is used."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from results_samples import make_policy, make_runs, make_setup, make_trace

from btbench.results import window_draws
from btbench.results.bootstrap import SEED
from btbench.results.bootstrap import mean_interval as mean_of_requests
from btbench.results.compare import compare_results
from btbench.results.comparison_text import markdown_comparison
from btbench.results.files import load_result
from btbench.results.window_bootstrap import Windowed, mean_interval, percentile_interval
from btbench.results.window_draws import FEWEST, draw_windows
from btbench.results.writer import write_result

SIZES = (12, 3, 7, 20, 5, 9, 14)


def sample(sizes=SIZES, seed=1):
    """Values in two results, many of them equal, and the window of each."""
    rng = np.random.default_rng(seed)
    window = np.repeat(np.arange(len(sizes)), sizes)
    a = rng.exponential(1.0, len(window)).round(2)
    return a, (a * rng.uniform(0.5, 1.1, len(a))).round(2), window


def drawn(windows, stream):
    """The draws of the quick bootstrap."""
    return np.random.default_rng(SEED + stream).integers(0, windows, (1000, windows))


def plain_interval(a, b, window_a, window_b, statistic, paired):
    """The same draws, request by request."""
    differences = []
    draws = drawn(window_a.max() + 1, 0), drawn(window_b.max() + 1, 0 if paired else 1)
    for places_a, places_b in zip(*draws, strict=True):
        one = [value for w in places_a for value in a[window_a == w]]
        other = [value for w in places_b for value in b[window_b == w]]
        differences.append(statistic(other) - statistic(one))
    return np.quantile(differences, [0.025, 0.975])


@pytest.mark.parametrize("sizes", [SIZES, (1,) * 5, (200, 1, 1, 1, 1), (40,) * 30])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99])
def test_intervals_are_those_of_the_plain_bootstrap(sizes, share):
    a, b, window = sample(sizes)
    one, other = (Windowed(values, window, len(sizes)) for values in (a, b))
    mean = plain_interval(a, b, window, window, np.mean, True)
    assert mean_interval(one, other) == pytest.approx(mean, rel=1e-9, abs=1e-12)
    percentile = plain_interval(a, b, window, window, lambda all: sorted(all)[int(share * len(all))], True)
    assert percentile_interval(one, other, share) == pytest.approx(percentile, rel=1e-12)


def test_unpaired_windows_are_drawn_on_their_own():
    (a, _, window_a), (b, _, window_b) = sample(), sample((8, 8, 2, 30, 4, 4, 6), 2)
    one, other = Windowed(a, window_a, 7), Windowed(b, window_b, 7, stream=1)
    mean = plain_interval(a, b, window_a, window_b, np.mean, False)
    assert mean_interval(one, other) == pytest.approx(mean, rel=1e-9)
    median = plain_interval(a, b, window_a, window_b, lambda all: sorted(all)[int(0.5 * len(all))], False)
    assert percentile_interval(one, other, 0.5) == pytest.approx(median, rel=1e-12)
    assert not np.array_equal(draw_windows(7), draw_windows(7, stream=1))


def test_the_order_of_requests_does_not_matter():
    a, b, window = sample()
    mixed = np.random.default_rng(3).permutation(len(a))
    sorted_ = [Windowed(values, window, 7).percentiles(0.9) for values in (a, b)]
    shuffled = [Windowed(values[mixed], window[mixed], 7).percentiles(0.9) for values in (a, b)]
    assert np.array_equal(sorted_, shuffled)


def test_neighbours_are_drawn_together_where_there_are_very_many_windows(monkeypatch):
    a, b, window = sample((2,) * 60)
    alone = mean_interval(Windowed(a, window, 60), Windowed(b, window, 60))
    monkeypatch.setattr(window_draws, "MOST_DRAWN", 20)
    draw_windows.cache_clear()
    grouped = mean_interval(Windowed(a, window, 60), Windowed(b, window, 60))
    joined = mean_interval(Windowed(a, window // 3, 20), Windowed(b, window // 3, 20))
    draw_windows.cache_clear()
    assert grouped == joined != alone


def test_intervals_hold_the_true_difference_where_those_over_requests_do_not():
    """30 windows, each of 50 requests slowed by the same draw: 95% of the intervals should hold the true 0."""
    rng, held, held_by_requests, tried = np.random.default_rng(5), 0, 0, 200
    window = np.repeat(np.arange(30), 50)
    for _ in range(tried):
        base = rng.exponential(1.0, len(window))
        a, b = (base + rng.normal(0, 0.2, 30)[window] + rng.normal(0, 0.1, len(window)) for _ in range(2))
        low, high = mean_interval(Windowed(a, window, 30), Windowed(b, window, 30))
        held += low <= 0 <= high
        low, high = mean_of_requests(a, b, True)
        held_by_requests += low <= 0 <= high
    assert 0.88 <= held / tried <= 0.99
    assert held_by_requests / tried < 0.5


def write(folder, sizes, slowness=1.0, seed=0, **changes):
    labels = tuple("ab"[k < 3] for k in range(len(sizes)))  # three windows of b, the rest of a
    trace = replace(make_trace(sizes, labels), **changes)
    with write_result(folder, trace, "btb") as writer:
        writer.add(make_setup(), make_policy("btb"), make_runs(trace, make_setup(), slowness, seed))
        writer.finish(scenario="s", scenario_toml="", seed=42, command="")
    return load_result(folder)


def compared(a, b):
    comparison = compare_results(a, b, force=True)
    return comparison, {change.part: change for change in comparison.changes}


def test_windows_are_drawn_where_there_are_enough_and_the_footnote_says_so(tmp_path):
    sizes = (30,) * (FEWEST + 3)
    a, b = write(tmp_path / "a", sizes), write(tmp_path / "b", sizes, seed=1)
    comparison, of = compared(a, b)
    assert {part: (change.windows, change.paired) for part, change in of.items()} == {
        "all": ((8, 8), True),
        "a": ((5, 5), True),
        "b": (None, True),
    }
    text = markdown_comparison(comparison, [])
    said = "1,000 bootstrap resamples of 5 to 8 windows, requests paired by identity, in 4 of 6 rows; of requests"
    assert said in text
    assert "drawn as if independent; they are not: the interval is too narrow" in text
    text = markdown_comparison(compare_results(a, b, parts=["all"]), [])
    assert "1,000 bootstrap resamples of 8 windows, requests paired by identity.\n" in text
    assert "too narrow" not in text
    frames = [pl.read_parquet(result.folder / "requests.parquet") for result in (a, b)]
    window = frames[0]["window"].str.slice(1).cast(pl.Int64).to_numpy()
    one, other = (Windowed(frame["ttft_s"].to_numpy(), window, 8) for frame in frames)
    assert compared(a, b)[1]["all"].interval == percentile_interval(one, other, 0.95)


def test_windows_of_another_trace_are_drawn_on_their_own_and_the_footnote_says_so(tmp_path):
    a = write(tmp_path / "a", (30,) * 8)
    b = write(tmp_path / "b", (30,) * 9, digest="xxh3_128:ff")
    comparison, of = compared(a, b)
    assert (of["all"].windows, of["all"].paired) == ((8, 9), False)
    text = markdown_comparison(compare_results(a, b, parts=["all"], force=True), [])
    assert "1,000 bootstrap resamples of 8 windows of A and 9 of B, each on their own." in text
    assert "Unpaired: the traces differ, or are not known to be the same." in comparison.notes


def test_windows_stay_paired_where_a_policy_turned_some_requests_away(tmp_path):
    a, b = write(tmp_path / "a", (30,) * 8), write(tmp_path / "b", (30,) * 8, seed=1)
    file = b.folder / "requests.parquet"
    left = pl.read_parquet(file).filter(pl.col("request") != 3)
    left.write_parquet(file)
    for row in b.rows:
        ttft_s = left.filter(pl.col("part").is_in([row.part]) | (row.part == "all"))["ttft_s"].to_numpy()
        p95_ttft_s = np.sort(ttft_s)[int(0.95 * len(ttft_s))]
        row.values.update(rejected=row["requests"] // 30, mean_ttft_s=ttft_s.mean(), p95_ttft_s=p95_ttft_s)
    comparison, of = compared(a, b)
    assert (of["all"].windows, of["all"].paired) == ((8, 8), True)
    assert of["b"].paired is False  # drawn one by one
    assert "Unpaired: 70b_h100x4 btb served other requests of the trace." in comparison.notes


def test_other_windows_by_the_same_names_are_not_paired(tmp_path):
    a, b = write(tmp_path / "a", (30,) * 8), write(tmp_path / "b", (31,) * 8)
    assert compared(a, b)[1]["all"].paired is False


def test_the_same_input_gives_the_same_interval(tmp_path):
    a, b = write(tmp_path / "a", (30,) * 8), write(tmp_path / "b", (30,) * 8, seed=1)
    one = [change.interval for change in compared(a, b)[0].changes]
    draw_windows.cache_clear()
    assert [change.interval for change in compared(a, b)[0].changes] == one
