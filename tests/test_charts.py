"""What charts say is true, whoever wins; what they draw fits, is the same every time, and leaves no trace behind."""

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import polars as pl
import pytest
from chart_samples import BURST_AT_S, COPY_BLOCKS, write_sample
from matplotlib.figure import Figure
from matplotlib.text import Text

from btbench.charts import distribution, draw, findings, layout, palette, saving
from btbench.charts.distribution import ttft_quantiles
from btbench.charts.draw import draw_result
from btbench.charts.marks import policy_marks
from btbench.charts.scales import log_ticks, tick_duration, tick_size
from btbench.charts.timeline import timeline_chart
from btbench.charts.view import View, open_view
from btbench.errors import OutputError, UsageError
from btbench.policies.registry import NAMES
from btbench.results import numbers
from btbench.results.files import Result
from btbench.results.provenance import Provenance, Published
from btbench.results.summary import Row, percentile
from btbench.results.whole import whole_file

WHOLE = [name for name, _ in draw.RESULT_CHARTS] + ["timeline"]
ALL = [*WHOLE, "reduction-art", "reduction-synthetic"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("charts") / "sample")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty setups, and names that are hard to write."""
    setups = [f"setup_{k:02}_of_a_{'very_' * (k % 4)}long_name" for k in range(28)] + ["cost $5 and $6", "日本"]
    policies = ("cache_aware", "btb-$with$-a-name-that-does-not-fit-anywhere")
    return write_sample(tmp_path_factory.mktemp("many") / "sample", setups, policies)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One setup, and as many policies as the routers' scenario and more, long names among them."""
    policies = [*NAMES, "sglang-0.2.2", "sglang-sub-block", "btb-smg", "FewestTokens", "the-one-that-has-a-long-name"]
    return write_sample(tmp_path_factory.mktemp("crowd") / "sample", ["alone"], policies)


def figures(folder: Path) -> dict[str, Figure]:
    with open_view(folder) as view:
        return {name: chart(view) for name, chart in draw.RESULT_CHARTS} | {"timeline": timeline_chart(view)}


def drawn_texts(figure: Figure) -> list[tuple[str, np.ndarray]]:
    """Each text that is drawn, and its corners in pixels: left, bottom, right, top."""
    seen: list[Text] = []
    draw_text = Text.draw
    with pytest.MonkeyPatch.context() as patch, palette.themed():
        patch.setattr(Text, "draw", lambda text, renderer: (seen.append(text), draw_text(text, renderer))[1])
        figure.canvas.draw()
    told = {id(text): text for text in seen if text.get_visible() and text.get_text().strip()}
    return [(text.get_text(), text.get_window_extent().extents) for text in told.values()]


def made_up(reductions: dict[str, list[float]], **values: float) -> View:
    """A view of rows with these reductions of mean TTFT, one a setup, against `base` with 1 s."""
    rows = [Row(f"s{k}", "base", "all", {"mean_reduction_pct": None, "mean_ttft_s": 1.0}) for k in range(9)]
    for policy, percents in reductions.items():
        rows += [
            Row(f"s{k}", policy, "all", {"mean_reduction_pct": p, "mean_ttft_s": 1 - p / 100})
            for k, p in enumerate(percents)
        ]
    used = {row.setup for row in rows if row.policy != "base"}
    return View(Result(tuple(r for r in rows if r.setup in used), Provenance(baseline="base")), palette.LIGHT)


@pytest.mark.parametrize(
    ("reductions", "title"),
    [
        ({"btb": [11.2, 70.3]}, "btb cuts mean TTFT by 11–70% against base"),
        ({"btb": [58.4]}, "btb cuts mean TTFT by 58% against base"),
        ({"btb": [-3.0, -12.4]}, "btb lengthens mean TTFT by 3–12% against base"),
        ({"btb": [0.3, -0.4]}, "btb stays within 1% of the mean TTFT of base"),
        (
            {"btb": [41.0, -12.0, 20.0]},
            "btb cuts mean TTFT by up to 41% on 2 of 3 setups and lengthens it by up to 12% on 1, against base",
        ),
        ({"btb": [10.0, 10.0], "other": [12.0, 13.0]}, "other cuts mean TTFT by 12–13% against base"),
        ({"btb": [-400.0], "other": [-2.0]}, "other lengthens mean TTFT by 2% against base"),
        ({"btb": [0.02, 4.2]}, "btb cuts mean TTFT by 0–4% against base"),
    ],
)
def test_the_title_tells_what_the_best_policy_does_also_where_it_loses(reductions, title: str) -> None:
    assert findings.reduction_title(made_up(reductions)) == title


@pytest.mark.parametrize(
    ("reductions", "title"),
    [
        ({"btb": [10.0, 20.0, 5.0]}, "btb has the lowest mean TTFT on all 3 setups"),
        ({"btb": [10.0, 20.0]}, "btb has the lowest mean TTFT on both setups"),
        ({"btb": [10.0, -1.0, 5.0]}, "btb has the lowest mean TTFT on 2 of 3 setups"),
        ({"btb": [-1.0, -2.0, -1.0]}, "base has the lowest mean TTFT on all 3 setups"),
        ({"btb": [-1.0]}, "base has the lowest mean TTFT"),
        ({"btb": [0.0]}, "All policies have the same mean TTFT"),
        ({"btb": [5.0, -5.0]}, "No policy stands out in mean TTFT"),
        ({"btb": [5.0, 5.0], "twin": [5.0, 5.0]}, "btb and twin have the lowest mean TTFT on both setups"),
    ],
)
def test_the_lowest_is_named_and_ties_are_ties(reductions, title: str) -> None:
    assert findings.lowest_title(made_up(reductions), "mean_ttft_s", "mean TTFT") == title


def misplaced(figure: Figure) -> tuple[list[tuple[str, str]], list[str]]:
    """Pairs of texts that lie on one another by more than a pixel, and texts that the page cuts off."""
    texts, corners = zip(*drawn_texts(figure), strict=True)
    boxes, (width, height) = np.array(corners), figure.canvas.get_width_height()
    x0, y0, x1, y1 = boxes.T
    wide = np.minimum.outer(x1, x1) - np.maximum.outer(x0, x0)
    high = np.minimum.outer(y1, y1) - np.maximum.outer(y0, y0)
    pairs = np.argwhere(np.triu((wide > 1) & (high > 2), 1))
    cut = (x0 < -1) | (y0 < -1) | (x1 > width + 1) | (y1 > height + 1)
    return [(texts[a], texts[b]) for a, b in pairs], [texts[k] for k in np.flatnonzero(cut)]


@pytest.mark.parametrize("which", ["sample", "many", "crowd"])
def test_no_text_lies_on_another_or_is_cut_off(which: str, request: pytest.FixtureRequest) -> None:
    for name, figure in figures(request.getfixturevalue(which)).items():
        assert misplaced(figure) == ([], []), name


def test_one_setup_is_enough(tmp_path: Path) -> None:
    folder = write_sample(tmp_path / "one", ["alone"], ["cache_aware", "btb"])
    for name, figure in figures(folder).items():
        assert misplaced(figure) == ([], []), name


def test_the_overlap_check_can_fail(sample: Path) -> None:
    figure = figures(sample)["ttft"]
    figure.text(0.02, 0.95, "on the title")
    figure.text(0.99, 0.5, "beyond the edge")
    on_another, cut = misplaced(figure)
    assert [pair[1] for pair in on_another] == ["on the title"] and cut == ["beyond the edge"]


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_the_same_input_gives_the_same_bytes(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "RESULT_CHARTS", draw.RESULT_CHARTS[:1])
    monkeypatch.setitem(matplotlib.rcParams, "axes.facecolor", "red")  # as a user's matplotlibrc might say
    draw_result(sample, saving.FORMATS, out=tmp_path / "here")
    code = "import sys; from pathlib import Path; from btbench.charts import draw\n"
    code += "draw.RESULT_CHARTS = draw.RESULT_CHARTS[:1]\n"
    code += "draw.draw_result(Path(sys.argv[1]), ('png', 'svg', 'pdf'), out=Path(sys.argv[2]))\n"
    code += "assert 'matplotlib.pyplot' not in sys.modules"
    env = os.environ | {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "12345"}
    subprocess.run([sys.executable, "-c", code, sample, tmp_path / "there"], check=True, env=env)
    here = digests(tmp_path / "here")
    assert here == digests(tmp_path / "there")
    names = ("reduction", "timeline", "reduction-art", "reduction-synthetic")
    assert sorted(here) == sorted(f"{name}.{kind}" for name in names for kind in saving.FORMATS)


def test_drawing_leaves_matplotlib_as_it_was(sample: Path, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    draw_result(sample, theme="dark", out=tmp_path)
    assert dict(matplotlib.rcParams) == before
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(f"{name}-dark" for name in ALL)


def test_without_requests_what_the_summary_holds_is_drawn(sample: Path, tmp_path: Path) -> None:
    for name in ("summary.json", "provenance.json"):
        (tmp_path / name).write_bytes((sample / name).read_bytes())
    drawn = {path.stem for path in draw_result(tmp_path / "summary.json")}
    assert drawn == set(ALL) - {"ttft_distribution", "prefill", "timeline"}
    assert {path.parent for path in tmp_path.rglob("*.png")} == {tmp_path / "charts"}
    with pytest.raises(OutputError, match=r"requests\.parquet"):
        draw_result(tmp_path, film=True)


def test_charts_of_a_part_are_of_its_requests(sample: Path, tmp_path: Path) -> None:
    paths = draw_result(sample, part="art", out=tmp_path)
    # no copies in the steady part
    assert sorted(path.stem for path in paths) == sorted(f"{name}-art" for name in WHOLE if name != "copies")
    with open_view(sample, part="art") as view:
        assert timeline_chart(view).texts[1].get_text().count("window w0")
        requests = view.requests()
        assert requests is not None and requests.collect()["part"].unique().to_list() == ["art"]


@pytest.mark.parametrize(
    "asked",
    [{"formats": ["gif"]}, {"theme": "sepia"}, {"part": "nowhere"}],
)
def test_an_unknown_name_is_an_error_and_nothing_is_drawn(sample: Path, tmp_path: Path, asked) -> None:
    with pytest.raises(UsageError, match="no such"):
        draw_result(sample, out=tmp_path / "none", **asked)
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_is_an_error_without_leftovers(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        draw_result(sample, out=tmp_path / "file")
    with pytest.raises(OutputError, match="full"), whole_file(tmp_path / "a.png") as part:
        part.write_text("half")
        raise OSError(28, "disk full")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_published_ticks_stand_where_the_published_values_say(sample: Path) -> None:
    published = (Published("small", "cache_aware", "all", 2.0, 8.0), Published("small", "btb", "all", 0.5))
    with open_view(sample) as view:
        known = replace(view.result, provenance=Provenance(baseline="cache_aware", published=published))
        view = replace(view, result=known)
        mean, p95 = draw.reduction_chart(view).axes
    ticks = [{line.get_xdata()[0] for line in panel.lines if line.get_linewidth() == 2.0} for panel in (mean, p95)]
    assert ticks == [{75.0}, set()]


def test_a_policy_that_is_far_worse_is_cut_at_the_edge_and_its_number_told() -> None:
    rows = [
        Row(
            "s", policy, "all",
            {
                "mean_reduction_pct": worse, "p95_reduction_pct": worse, "mean_ttft_s": 1.0, "requests": 5,
                "mean_reduction_low_pct": low, "mean_reduction_high_pct": high,
            },
        )
        for policy, worse, low, high in (
            ("base", None, None, None), ("bad", -4123.0, -5000.0, -80.0), ("good", 20.0, 15.0, 30.0)
        )
    ]  # fmt: skip
    with palette.themed() as page:
        figure = draw.reduction_chart(View(Result(tuple(rows), Provenance(baseline="base")), page))
    bars = [bar.get_width() for bar in figure.axes[0].patches if bar.get_height() < 1]
    assert -100.0 in bars and 20.0 in bars
    assert "◂ \N{MINUS SIGN}4,123.0%" in {text.get_text() for text in figure.axes[0].texts}
    whiskers = {tuple(line.get_xdata()) for line in figure.axes[0].lines if len(set(line.get_xdata())) > 1}
    assert whiskers == {(-100.0, -80.0), (15.0, 30.0)}  # they end at the edge too
    places = {text.get_text(): text.xy[0] for text in figure.axes[0].texts}
    assert places["20.0%"] == 30.0  # behind the whisker
    assert not [line for line in figure.axes[1].lines if len(set(line.get_xdata())) > 1]  # the interval is the mean's


def test_both_panels_of_the_reductions_have_one_scale() -> None:
    values = {"base": (None, None), "good": (62.0, 1.25), "bad": (-3.0, -81.0)}
    rows = [
        Row("s", policy, "all", {
            "mean_reduction_pct": mean, "p95_reduction_pct": p95, "mean_ttft_s": 1.0, "requests": 5,
            "mean_reduction_low_pct": None, "mean_reduction_high_pct": None,
        })
        for policy, (mean, p95) in values.items()
    ]  # fmt: skip
    with palette.themed() as page:
        mean, p95 = draw.reduction_chart(View(Result(tuple(rows), Provenance(baseline="base")), page)).axes
    assert mean.get_xlim() == p95.get_xlim()
    assert mean.get_position().width == pytest.approx(p95.get_position().width)


def test_a_chart_higher_than_a_screen_has_its_ticks_at_the_top_too(sample: Path, many: Path) -> None:
    for folder, above in ((sample, False), (many, True)):
        with open_view(folder) as view:
            for chart in (draw.reduction_chart, draw.ttft_chart, draw.hits_chart):
                figure = chart(view)
                assert (figure.get_figheight() > 7.2) == above
                assert all(panel.xaxis.get_tick_params()["labeltop"] is above for panel in figure.axes)


def test_a_timeline_higher_than_a_screen_has_its_times_at_the_top_too(sample: Path, crowd: Path) -> None:
    for folder, above in ((sample, False), (crowd, True)):
        with open_view(folder) as view:
            assert timeline_chart(view).axes[0].xaxis.get_tick_params()["labeltop"] is above


def test_the_distribution_of_one_setup_is_high_and_its_baseline_and_best_are_on_top(crowd: Path) -> None:
    with open_view(crowd) as view:
        panel = draw.distribution_chart(view).axes[0]
    assert panel.get_ylabel() == "share of requests"
    assert panel.get_position().height * panel.figure.get_figheight() > 4
    curves = [line.get_color() for line in panel.lines if len(line.get_xdata()) > 10]
    assert curves[-2:] == [policy_marks([name])[name].colour for name in ("cache_aware", "btb")]


@pytest.mark.parametrize(
    ("base", "btb", "title"),
    [
        ((1, 2, 3, 4), (1, 2, 3, 3), "btb has the lowest p99 TTFT"),
        ((1, 2, 3, 4), (1, 2, 1, 4), "btb has the lowest p95 TTFT"),
        ((1, 2, 3, 4), (2, 2, 3, 4.0001), "base has the lowest p50 TTFT"),
        ((1, 2, 3, 4), (1, 2, 3, 4), "All policies have the same p99 TTFT"),
    ],
)
def test_the_title_of_the_distribution_is_of_the_highest_percentile_that_differs(base, btb, title: str) -> None:
    names = [f"p{p}_ttft_s" for p in (50, 90, 95, 99)]
    rows = [
        Row("s", policy, "all", dict(zip(names, map(float, values), strict=True)))
        for policy, values in (("base", base), ("btb", btb))
    ]
    assert distribution._title(View(Result(tuple(rows), Provenance(baseline="base")), palette.LIGHT)) == title


def test_quantiles_are_the_elements_that_the_summary_names(sample: Path) -> None:
    levels = [0.0, 0.5, 0.9, 0.95, 0.99]
    with open_view(sample) as view:
        requests = view.requests()
        assert requests is not None
        found = ttft_quantiles(requests, "large", "btb", [*levels, 1.0])
        row = view.rows["large", "btb"]
        of = requests.filter((pl.col("setup") == "large") & (pl.col("policy") == "btb")).collect()["ttft_s"].to_numpy()
    assert found[:-1].tolist() == percentile(of, *levels)
    assert found[3] == row["p95_ttft_s"] and found[-1] == row["max_ttft_s"]


def test_bytes_of_unused_copies_are_drawn_apart(sample: Path) -> None:
    bars = [bar.get_width() for bar in figures(sample)["copies"].axes[0].patches if bar.get_height() < 1]
    copy_bytes = COPY_BLOCKS * 256 * 327_680
    assert bars == [2 * copy_bytes, copy_bytes] * 2


def test_gpu_seconds_of_prefill_add_up_to_those_of_all_tokens(sample: Path) -> None:
    spent, avoided = (
        [float(text.get_text().replace(",", "")) for text in panel.texts] for panel in figures(sample)["prefill"].axes
    )
    with open_view(sample) as view:
        small = view.requests().filter((pl.col("setup") == "small") & (pl.col("policy") == "btb")).collect()
    token_s = 2 * 70.6e9 / (4 * 989e12 * 0.5)
    assert spent[2] == pytest.approx(4 * small["prefill_s"].sum(), rel=5e-3)
    assert avoided[2] == pytest.approx(4 * (small["hit_tokens"].sum() * token_s - small["reuse_s"].sum()), rel=5e-3)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.8, 25, [1, 2, 5, 10, 20]), (1e-3, 1e3, [1e-3, 1e-2, 1e-1, 1, 10, 100, 1000]), (1e-6, 1e6, 7), (3, 4, [])],
)
def test_log_ticks_are_round_and_few(low: float, high: float, ticks) -> None:
    found = log_ticks(low, high)
    assert found == pytest.approx(ticks) if isinstance(ticks, list) else len(found) <= ticks


def test_a_long_name_loses_its_middle_since_ends_tell_names_apart() -> None:
    names = [f"a-name-that-is-much-too-long-to-be-shown-{k}" for k in range(3)]
    assert len({layout.shorten(name, 24) for name in names}) == 3
    assert layout.shorten(names[2], 11) == "a-nam…own-2" and layout.shorten("short  one", 11) == "short one"


def test_ticks_are_written_as_people_say_them() -> None:
    assert [tick_duration(s) for s in (1e-5, 0.02, 1, 50, 2000)] == ["10 µs", "20 ms", "1 s", "50 s", "2,000 s"]
    assert [tick_size(b) for b in (0, 5e9, 2e12)] == ["0 B", "5 GB", "2 TB"]


def test_copies_are_arrows_from_holder_to_target(sample: Path) -> None:
    panel = figures(sample)["timeline"].axes[3]  # arrivals, least_load, cache_aware, btb
    (shafts,) = [c for c in panel.collections if len(c.get_segments()) == 3]
    assert sorted(s.tolist() for s in map(np.array, shafts.get_segments())) == [
        [[BURST_AT_S + 0.1, 0], [BURST_AT_S + 0.3, target]] for target in (1, 2, 3)
    ]


def test_the_pile_up_is_in_the_picture(sample: Path) -> None:
    title = figures(sample)["timeline"].texts[0].get_text()
    piled, spread = (int(n) for n in re.findall(r"(\d+) to", title))
    assert title.startswith("Fullest against emptiest replica: cache_aware")
    assert piled > 80 and spread < 15


def test_the_report_of_the_result_shows_the_charts(tmp_path: Path) -> None:
    folder = write_sample(tmp_path / "sample", ["one"])
    before = (folder / "report.html").stat().st_size
    draw_result(folder)
    assert (folder / "report.html").stat().st_size > before + 50_000
    assert json.loads((folder / "summary.json").read_text())["rows"]


def test_few_requests_and_no_waiting_are_drawn_too(tmp_path: Path) -> None:
    folder = write_sample(tmp_path / "sample", ["one"], ["cache_aware", "btb"])
    few = pl.read_parquet(folder / "requests.parquet").filter(pl.col("request") < 2)
    nothing = few.with_columns(ttft_s=0.0, reuse_s=0.0, prefill_s=0.0, start_s="arrival_s", finish_s="arrival_s")
    nothing.write_parquet(folder / "requests.parquet")
    summary = json.loads((folder / "summary.json").read_text())
    for row in summary["rows"]:
        if row["part"] == "all":
            row["requests"] = nothing.filter(pl.col("policy") == row["policy"]).height
    (folder / "summary.json").write_text(json.dumps(summary))
    for name, figure in figures(folder).items():
        assert misplaced(figure) == ([], []), name


def test_one_policy_is_told_in_numbers(tmp_path: Path) -> None:
    with open_view(write_sample(tmp_path / "sample", ["one"], ["btb"], "btb")) as view:
        title = findings.lowest_title(view, "mean_ttft_s", "mean TTFT")
        assert title == f"Under btb, mean TTFT is {numbers.duration(view.rows['one', 'btb']['mean_ttft_s'])}"
        assert draw.reduction_chart(view) is None
