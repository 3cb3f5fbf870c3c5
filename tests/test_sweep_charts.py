"""Charts of sweeps: where values stand, what titles say, that every value is printed and nothing juts out."""

import math
from itertools import pairwise

import pytest
from chart_samples import make_sweep

from btbench.charts.field import Field
from btbench.charts.heat_maps import heat_maps
from btbench.charts.layout import WIDTH_IN
from btbench.charts.palette import themed
from btbench.charts.sweep import draw_sweep
from btbench.charts.sweep_lines import axis_places, line_charts
from btbench.results.metrics import find_metric
from btbench.results.sweep import Axis

MEAN, REDUCTION = find_metric("mean_ttft_s"), find_metric("mean_reduction_pct")


DELAYS = Axis("router.signal_delay_s", (0, 0.01, 0.1, 1))
COPIES = Axis("policy.btb.copies", (1, 2, 4))


def slower(setup, policy, delay, copies=1):
    return (1 + delay) / copies if policy == "btb" else 2.0


def draw(chart, sweep, metric):
    with themed() as page:
        figure = chart(Field(sweep, metric, "all", page))
        figure.canvas.draw()
    return figure


def title(figure):
    return figure.texts[0].get_text().replace("\n", " ")


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ((1, 2, 4), [1, 2, 4]),
        ((4, 1.5), [4, 1.5]),
        ((-1, 0, 100), [-1, 0, 100]),
        ((0.01, 0.1, 1), [-2, -1, 0]),
        ((0, 0.01, 0.1, 1), [-3, -2, -1, 0]),
        ((0, 1, 2, 100), [-0.5, 0, math.log10(2), 2]),
        ((0, 100), [0, 100]),
        (("b", "a"), [0, 1]),
        ((True, False), [0, 1]),
        ((1, "auto"), [0, 1]),
        ((5,), [5]),
    ],
)
def test_numbers_stand_by_size_or_magnitude_and_words_side_by_side(values, places):
    assert axis_places(values) == pytest.approx(places)


def test_lines_join_the_values_of_a_policy_and_leave_out_the_baseline_of_a_reduction():
    (panel,) = draw(line_charts, make_sweep([DELAYS], slower), REDUCTION).axes
    lines = [line for line in panel.lines if len(line.get_xdata()) > 2]
    assert [list(line.get_ydata()) for line in lines] == [pytest.approx([50, 49.5, 45, 0])]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["0", "0.01", "0.1", "1"]
    assert panel.get_xlabel() == "router.signal_delay_s, log scale"


def test_values_out_of_order_are_joined_in_order():
    (panel,) = draw(line_charts, make_sweep([Axis("policy.btb.copies", (4, 1, 2))], slower), MEAN).axes
    btb = next(line for line in panel.lines if line.get_marker() == "o")
    assert list(btb.get_xdata()) == [1, 2, 4]
    assert list(btb.get_ydata()) == [2, 3, 5]


@pytest.mark.parametrize(
    ("metric", "setups", "said"),
    [
        (REDUCTION, "s", "btb: reduction of mean TTFT 50.0% at signal_delay_s = 0, 0.0% at 1"),
        (MEAN, "s", "btb: mean TTFT 1.00 s at signal_delay_s = 0, 2.00 s at 1"),
        (MEAN, "st", "btb has the lowest mean TTFT in 6 of 8 cases"),  # at 1 it is no lower than the one before it
    ],
)
def test_the_title_of_lines_is_the_finding(metric, setups, said):
    assert title(draw(line_charts, make_sweep([DELAYS], slower, setups), metric)) == said


def test_of_two_values_the_title_says_who_is_best_at_which():
    def turning(setup, policy, value):
        return (2.0 if value else 1.0) if policy == "btb" else 1.5

    figure = draw(line_charts, make_sweep([Axis("engine.copies_wait", (False, True))], turning, "st"), MEAN)
    assert (
        title(figure)
        == "Lowest mean TTFT by engine.copies_wait: btb at false on 2, cache_aware at true on 2 of 2 setups"
    )


def test_heat_maps_print_every_value_and_the_title_names_the_best_point():
    sweep = make_sweep(
        [Axis("policy.btb.copies", (1, 2)), DELAYS], lambda s, p, copies, delay: slower(s, p, delay, copies)
    )
    figure = draw(heat_maps, sweep, MEAN)
    first, second = (axes for axes in figure.axes if axes.get_visible())
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("cache_aware", "btb")
    printed = {text.get_position(): text.get_text() for text in second.texts}
    assert len(printed) == 8
    assert printed[0, 0] == "1.00 s" and printed[3, 1] == "1.00 s" and printed[0, 1] == "500 ms"
    assert [tick.get_text() for tick in second.get_xticklabels()] == ["0", "0.01", "0.1", "1"]
    assert title(figure) == "Lowest mean TTFT: btb at copies = 2, signal_delay_s = 0 (500 ms)"
    assert title(draw(heat_maps, sweep, REDUCTION)).startswith("Highest reduction of mean TTFT: btb at copies = 2")


def test_a_best_point_of_several_setups_says_on_how_many():
    sweep = make_sweep(
        [COPIES, DELAYS], lambda s, p, copies, delay: slower(s, p, delay, copies), setups=("s", "t", "u")
    )
    said = "Lowest mean TTFT: btb at copies = 4, signal_delay_s = 0 (250 ms, on 3 of 3 setups)"
    assert title(draw(heat_maps, sweep, MEAN)) == said


NAMES = Axis("setup.model", tuple(f"a-long-name-of-a-model-{k}" for k in range(6)))
FINE = [Axis("a.x", tuple(range(12))), Axis("a.y", tuple(range(30)))]


@pytest.mark.parametrize(("setups", "policies"), [(1, 2), (1, 14), (4, 3)])
@pytest.mark.parametrize("axes", [[DELAYS], [NAMES], [NAMES, DELAYS], FINE])
def test_nothing_juts_out_or_overlaps(setups, policies, axes):
    sweep = make_sweep(
        axes, lambda s, p, *at: 10.0 ** (hash_of(s, p, at) % 7 - 3),
        [f"a setup with a long name {k}" for k in range(setups)], [f"policy_{k}" for k in range(policies)],
    )  # fmt: skip
    figure = draw(heat_maps if len(axes) == 2 else line_charts, sweep, MEAN)
    width, height = figure.canvas.get_width_height()
    panels = [panel for panel in figure.axes if panel.get_visible()]
    for panel in panels:
        ticks = [label.get_window_extent() for label in panel.get_xticklabels()]
        assert all(one.x1 <= other.x0 for one, other in pairwise(ticks))
        legend = panel.get_legend()
        boxes = [*ticks, panel.xaxis.label.get_window_extent(), *([legend.get_window_extent()] if legend else [])]
        assert all(box.x0 >= -1 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
        if legend:
            assert legend.get_window_extent().y1 <= figure.texts[-1].get_window_extent().y0


def hash_of(*parts):
    return sum(map(ord, repr(parts)))


def test_charts_are_one_a_metric_that_has_values_the_same_bytes_again(tmp_path):
    sweep = make_sweep([DELAYS], slower, policies=("cache_aware",))
    paths = draw_sweep(sweep, [MEAN, REDUCTION], "all", tmp_path)
    assert [path.name for path in paths] == ["mean_ttft_s.png"]
    before = paths[0].read_bytes()
    assert draw_sweep(sweep, [MEAN], "all", tmp_path)[0].read_bytes() == before


def test_a_chart_is_as_wide_as_all_are():
    assert draw(line_charts, make_sweep([DELAYS], slower), MEAN).get_figwidth() == WIDTH_IN
