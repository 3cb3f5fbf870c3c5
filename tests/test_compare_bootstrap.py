"""The quick bootstrap against one that draws every request."""

import numpy as np
import pytest

from btbench.results.bootstrap import GROUPS, mean_interval, percentile_interval


def plain_intervals(a, b, share, paired, resamples=1000):
    """Intervals of both statistics, every resample drawn and sorted whole."""
    rng = np.random.default_rng(7)
    n, m = len(a), len(b)
    means, percentiles = [], []
    for _ in range(resamples):
        i = rng.integers(0, n, n)
        j = i if paired else rng.integers(0, m, m)
        means.append(b[j].mean() - a[i].mean())
        percentiles.append(np.sort(b[j])[int(share * m)] - np.sort(a[i])[int(share * n)])
    return [np.quantile(drawn, [0.025, 0.975]) for drawn in (means, percentiles)]


def sample(n, seed=3):
    rng = np.random.default_rng(seed)
    a = rng.exponential(1.0, n)
    return a, 0.9 * a + rng.exponential(0.05, n)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("n", [50, 3 * GROUPS + 17])
def test_intervals_are_those_of_the_plain_bootstrap(n, paired):
    a, b = sample(n)
    means, percentiles = plain_intervals(a, b, 0.95, paired)
    for quick, plain in (
        (mean_interval(a, b, paired), means),
        (percentile_interval(a, b, 0.95, paired), percentiles),
    ):
        width = plain[1] - plain[0]
        assert np.abs(np.array(quick) - plain).max() < 0.2 * width


def test_pairing_makes_intervals_narrower():
    a, b = sample(2000)
    for interval in (mean_interval, lambda *args: percentile_interval(*args[:2], 0.95, args[2])):
        paired, unpaired = interval(a, b, True), interval(a, b, False)
        assert paired.high - paired.low < 0.7 * (unpaired.high - unpaired.low)


def test_intervals_hold_the_true_difference_about_as_often_as_they_say():
    """95% of intervals should; of 200, fewer than 180 or all 200 would be a one in a thousand event."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(200):
        a = rng.normal(1.0, 0.3, 100)
        low, high = mean_interval(a, a + rng.normal(0.05, 0.2, 100), True)
        held += low <= 0.05 <= high
    assert 180 <= held < 200


def test_equal_values_differ_by_nothing():
    a = np.array([1.0] * 60 + [2.0] * 40)
    assert percentile_interval(a, a, 0.5, True) == (0.0, 0.0)
    assert mean_interval(a, a, True) == (0.0, 0.0)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_a_shift_of_every_request_is_found_exactly(share):
    a = np.random.default_rng(5).exponential(1.0, 10_000)
    low, high = percentile_interval(a, a + 0.25, share, True)
    assert low == pytest.approx(0.25) == high


def test_the_same_input_gives_the_same_interval():
    a, b = sample(5000)
    assert mean_interval(a, b, True) == mean_interval(a, b, True)
    assert percentile_interval(a, b, 0.9, False) == percentile_interval(a, b, 0.9, False)
