"""Charts of a comparison: what they are called, what their titles say, and that nothing juts out."""

from dataclasses import replace

import pytest
from results_samples import make_policy, make_runs, make_setup, make_trace
from typer.testing import CliRunner

from btbench.charts.comparison import _Pair, comparison_chart, draw_comparisons
from btbench.charts.palette import themed
from btbench.cli.app import app
from btbench.results.bootstrap import Interval
from btbench.results.compare import Change, compare_results
from btbench.results.files import load_result
from btbench.results.metrics import find_metric
from btbench.results.writer import write_result

TRACE = make_trace((400, 250, 600))
MEAN = find_metric("mean_ttft_s")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    for name, slowness in (("old", {"cache_aware": 1.0, "btb": 0.5}), ("new", {"cache_aware": 1.0, "btb": 0.25})):
        with write_result(root / name, TRACE, "cache_aware") as writer:
            for policy, factor in slowness.items():
                writer.add(make_setup(), make_policy(policy), make_runs(TRACE, make_setup(), factor))
            writer.finish(scenario="sample", scenario_toml="", seed=42, command="")
    return root


def draw(results, changes, metric=MEAN):
    with themed() as theme:
        view = _Pair(load_result(results / "new"), theme, names="Old: a. New: b")
        figure = comparison_chart(view, metric, changes)
        figure.canvas.draw()
    return figure


def title(figure):
    return figure.texts[0].get_text().replace("\n", " ")


def test_out_holds_a_chart_for_each_metric_and_part(results, tmp_path):
    command = ["compare", str(results / "old"), str(results / "new"), "--out", str(tmp_path / "c"), "-m", "mean_ttft_s"]
    ended = CliRunner().invoke(app, [*command, "-m", "hit_rate"])
    assert ended.exit_code == 0 and ended.stderr.startswith("Note: charts: ")
    assert CliRunner().invoke(app, [*command, "-q", "--force"]).stderr == ""
    names = [f"{metric}{part}.png" for metric in ("hit_rate", "mean_ttft_s") for part in ("", "-art", "-synthetic")]
    files = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert files == sorted(names)
    pictures = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert len(set(pictures.values())) == len(pictures)
    assert CliRunner().invoke(app, [*command, "-m", "hit_rate", "--force"]).stdout == ended.stdout
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == pictures


def test_charts_of_several_results_are_numbered(results, tmp_path):
    old, new = load_result(results / "old"), load_result(results / "new")
    comparisons = [compare_results(old, other, ["mean_ttft_s"], parts=["all"]) for other in (new, old)]
    paths = draw_comparisons(comparisons, tmp_path)
    assert [path.name for path in paths] == ["mean_ttft_s-2.png", "mean_ttft_s-3.png"]


def test_a_folder_that_is_a_file_is_an_error_before_anything_is_printed(results, tmp_path):
    (tmp_path / "file").write_text("")
    command = ["compare", str(results / "old"), str(results / "new"), "--out", str(tmp_path / "file")]
    ended = CliRunner().invoke(app, command)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("Error: cannot write ")


def change(setup, policy, a, b, interval=None):
    return Change(setup, policy, "all", MEAN, a, b, interval and Interval(*interval))


LOWER = change("s", "btb", 2.0, 1.0, (-1.1, -0.9))
HIGHER = change("t", "btb", 1.0, 1.2, (0.1, 0.3))
NOISE = change("s", "cache_aware", 1.0, 1.4, (-0.2, 1.0))
SAME = change("t", "cache_aware", 1.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([LOWER], f"btb: {LOWER.words}"),
        ([LOWER, HIGHER, NOISE, SAME], f"btb on s: {LOWER.words}; lower in 1, higher in 1 of 4 cases"),
        ([NOISE, SAME], "No difference beyond noise in mean TTFT"),
        ([SAME], "Old and new have the same mean TTFT"),
    ],
)
def test_the_title_is_the_finding(results, changes, said):
    assert title(draw(results, changes)) == said


def test_a_change_that_may_be_noise_is_hollow_and_says_so(results):
    right = draw(results, [replace(NOISE, policy="btb"), HIGHER]).axes[1]
    noise, sure = (line for line in right.lines if line.get_marker() == "o")
    page = right.get_facecolor()[:3]
    assert noise.get_markerfacecolor() == "#FFFFFF" and page == (1, 1, 1)
    assert sure.get_markerfacecolor() == sure.get_color()
    assert "no difference beyond noise" in [text.get_text() for text in right.texts]


def test_the_interval_is_drawn_in_percent_of_the_old_value(results):
    right = draw(results, [LOWER]).axes[1]
    (bar,) = (line for line in right.lines if line.get_marker() == "|")
    assert list(bar.get_xdata()) == pytest.approx([-55, -45])


@pytest.mark.parametrize("count", [1, 30])
def test_nothing_juts_out_whatever_the_values(results, count):
    setups = [f"a setup with a name that is long {k}" for k in range(count)]
    changes = [change(setup, policy, a, b) for setup in setups for policy, a, b in CASES]
    figure = draw(results, changes)
    width, height = figure.canvas.get_width_height()
    for text in [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, text.get_text()


@pytest.mark.parametrize(("a", "b"), [(None, None), (0.0, 0.0), (0.0, 3.0), (None, 3.0), (3.0, None)])
@pytest.mark.parametrize("metric", ["mean_ttft_s", "unused_copies", "mean_reduction_pct"])
def test_values_that_are_zero_or_missing_are_drawn_as_far_as_they_are_there(results, metric, a, b):
    metric = find_metric(metric)
    figure = draw(results, [Change("s", "btb", "all", metric, a, b)], metric)
    markers = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert len(markers) == (a is not None) + (b is not None)


CASES = (("btb", 1.0, 900.0), ("cache_aware", 900.0, 1e-5))
