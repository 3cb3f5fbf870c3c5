"""The charts of a small made-up result look as they did: pictures held to those in `tests/baseline`.

A change that is meant: BTBENCH_NEW_BASELINE=1 pytest tests/test_charts_images.py, then look at each new picture.
"""

import inspect
import json
import os
import pkgutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from chart_samples import add_intervals, make_sweep, write_sample
from matplotlib.testing.compare import compare_images
from PIL import Image

from btbench import charts
from btbench.analysis.audit import analyze
from btbench.analysis.options import Options
from btbench.charts import animation, costs, draw, layout
from btbench.charts.comparison import draw_comparisons
from btbench.charts.sweep import draw_sweep
from btbench.charts.view import open_view
from btbench.charts.window import WHOLE
from btbench.cli.trace_report.folder import draw_charts
from btbench.cluster.costs import KvCosts
from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica
from btbench.progress import silent
from btbench.results.bootstrap import Interval
from btbench.results.compare import Change, Comparison
from btbench.results.files import load_result
from btbench.results.metrics import find_metric
from btbench.results.provenance import Published
from btbench.results.summary import Row
from btbench.results.sweep import Axis
from btbench.sources import open_trace
from btbench.trace_spec import TraceSpec

BASELINE = Path(__file__).parent / "baseline"
TOLERANCE = 6.0  # root mean square over the pixels, of 255: text drawn by another version passes, a moved bar does not
DPI = 50

RESULT = [name for name, _ in draw.RESULT_CHARTS] + ["timeline", "reduction-art", "reduction-synthetic"]
TRACE = ("bursts", "fanout", "timeline", "reuse", "rate", "lengths")
OTHERS = [
    "timeline-dark", "reduction-dark", "film", "costs", "costs_bars", "comparison", "sweep_lines", "heat_maps",
    *(f"trace_{name}" for name in TRACE),
]  # fmt: skip
PUBLISHED = [
    Published("small", "cache_aware", "all", 1.0, 4.0),
    Published("small", "btb", "all", 0.4, 1.0),
]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    folder = write_sample(root / "sample", published=PUBLISHED)
    add_intervals(folder)
    pictures = root / "pictures"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "DPI", DPI)
        draw.draw_result(folder, out=pictures)
        patch.setattr(draw, "RESULT_CHARTS", draw.RESULT_CHARTS[:1])
        draw.draw_result(folder, theme="dark", out=pictures)
        film(folder, pictures / "film.png", patch)
        h100s = KvCosts(MODELS["llama-3.3-70b"], Replica("4 × h100", GPUS["h100"], 4))
        costs.draw_costs(h100s, [500, 2000, 32000], pictures, ("png",), "light")
        compare(folder, pictures)
        sweep(pictures)
        analyse(root, pictures)
    return pictures


def film(folder: Path, path: Path, patch: pytest.MonkeyPatch) -> None:
    """One frame of a film, while copies are on their way."""
    patch.setattr(animation, "FRAMES", 12)
    patch.setattr(animation, "FILM_DPI", DPI)
    with open_view(folder) as view:
        animation.write_film(view, WHOLE, path.with_suffix(".gif"))
    frames = Image.open(path.with_suffix(".gif"))
    frames.seek(9)
    frames.convert("RGB").save(path)


def compare(folder: Path, pictures: Path) -> None:
    """A change that is sure, one that may be noise, and values that are missing or the same."""
    result, mean = replace(load_result(folder), folder=None), find_metric("mean_ttft_s")
    changes = [
        Change("small", "least_load", "all", mean, 2.0, 1.0, Interval(-1.2, -0.9)),
        Change("small", "btb", "all", mean, 1.0, 1.3, Interval(-0.1, 0.6)),
        Change("large", "least_load", "all", mean, 1.5, 1.5),
        Change("large", "btb", "all", mean, None, 0.7),
    ]
    (path,) = draw_comparisons([Comparison(result, result, tuple(changes), (), ())], pictures)
    path.rename(pictures / "comparison.png")


def sweep(pictures: Path) -> None:
    delays, copies = Axis("router.signal_delay_s", (0, 0.01, 0.1, 1)), Axis("policy.btb.copies", (1, 2, 4))
    for axes, name in (([delays], "sweep_lines"), ([copies, delays], "heat_maps")):
        swept = (
            make_sweep(axes, lambda setup, policy, *at: (1 + at[-1]) / at[0] ** 0.5 if policy == "btb" else 2.0)
            if len(axes) == 2
            else make_sweep(axes, lambda setup, policy, delay: 1 + delay if policy == "btb" else 1.5)
        )
        (path,) = draw_sweep(swept, [find_metric("mean_ttft_s")], "all", pictures)
        path.rename(pictures / f"{name}.png")


def analyse(root: Path, pictures: Path) -> None:
    """Forty prompts of 20 blocks, half of which share 18."""
    rows = [
        {
            "arrival_s": i * 0.2, "input_length": 5120 - 7 * i, "output_length": 1 + i,
            "hash_ids": [f"s{k}" if k < 18 and i % 2 else f"{i}-{k}" for k in range(20)],
        }
        for i in range(40)
    ]  # fmt: skip
    (root / "made.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = open_trace(TraceSpec(source="made.jsonl", block_tokens=256), root, seed=1)
    draw_charts(root / "trace", [analyze(trace, Options())], silent)
    for name in TRACE:
        (root / "trace" / f"{name}.png").rename(pictures / f"trace_{name}.png")


@pytest.mark.parametrize("name", [*RESULT, *OTHERS])
def test_a_chart_looks_as_it_did(drawn: Path, name: str) -> None:
    new, kept = drawn / f"{name}.png", BASELINE / f"{name}.png"
    if os.environ.get("BTBENCH_NEW_BASELINE"):
        kept.write_bytes(new.read_bytes())
    assert compare_images(str(kept), str(new), TOLERANCE) is None


def test_the_comparison_sees_another_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "DPI", DPI)
    folder = write_sample(tmp_path / "sample", policies=("btb", "cache_aware", "least_load"), published=PUBLISHED)
    add_intervals(folder)
    draw.draw_result(folder)
    for name in RESULT:
        if name != "copies":  # which shows one policy alone
            assert compare_images(str(BASELINE / f"{name}.png"), str(folder / "charts" / f"{name}.png"), TOLERANCE), (
                name
            )


def test_the_comparison_sees_missing_whiskers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "DPI", DPI)
    monkeypatch.setattr(draw, "RESULT_CHARTS", draw.RESULT_CHARTS[:1])
    folder = write_sample(tmp_path / "sample", published=PUBLISHED)
    add_intervals(folder)
    monkeypatch.setattr(Row, "reduction_reach", property(lambda row: None))
    draw.draw_result(folder)
    assert compare_images(str(BASELINE / "reduction.png"), str(folder / "charts" / "reduction.png"), TOLERANCE)


def test_every_chart_of_the_package_is_held(drawn: Path) -> None:
    assert {path.stem for path in drawn.glob("*.png")} - {"reduction-art-dark", "reduction-synthetic-dark"} == {
        *RESULT, *OTHERS,
    }  # fmt: skip
    modules = [import_module(f"btbench.charts.{module.name}") for module in pkgutil.iter_modules(charts.__path__)]
    makers = [
        name
        for module in modules if module is not layout
        for name, made in vars(module).items()
        if inspect.isfunction(made) and made.__module__ == module.__name__ and not name.startswith("_")
        and "Figure" in str(inspect.signature(made).return_annotation)
    ]  # fmt: skip
    held = {"timeline_chart", "lines_chart", "bars_chart", "comparison_chart", "line_charts", "heat_maps"}
    held |= {chart.__name__ for _, chart in draw.RESULT_CHARTS}
    held |= {"draw_pair", "draw_heat_map", "draw_timeline", "draw_reuse", "draw_rate", "draw_lengths"}
    assert {*makers} == held
