"""The charts of a small made-up result look as they did: pictures held to those in `tests/baseline`.

A change that is meant: BTBENCH_NEW_BASELINE=1 pytest tests/test_charts_images.py, then look at each new picture.
"""

import os
from pathlib import Path

import pytest
from chart_samples import write_sample
from matplotlib.testing.compare import compare_images

from btbench.charts import costs, draw, layout
from btbench.charts.window import WHOLE, Choice
from btbench.cluster.costs import KvCosts
from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica
from btbench.results.provenance import Published

BASELINE = Path(__file__).parent / "baseline"
TOLERANCE = 6.0  # root mean square over the pixels, of 255: text drawn by another version passes, a moved bar does not
DPI = 50

CHARTS = [name for name, _ in draw.RESULT_CHARTS] + ["timeline", "reduction-art", "reduction-synthetic"]
PUBLISHED = [
    Published("small", "cache_aware", "all", 1.0, 4.0),
    Published("small", "btb", "all", 0.4, 1.0),
]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_sample(tmp_path_factory.mktemp("images") / "sample", published=PUBLISHED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "DPI", DPI)
        draw.draw_result(folder, theme="light")
        draw.draw_result(folder, theme="dark")
        h100s = KvCosts(MODELS["llama-3.3-70b"], Replica("4 × h100", GPUS["h100"], 4))
        costs.draw_costs(h100s, [500, 2000, 32000], folder / "charts", ("png",), "light")
    return folder / "charts"


@pytest.mark.parametrize("name", [*CHARTS, "timeline-dark", "reduction-dark", "costs", "costs_bars"])
def test_a_chart_looks_as_it_did(drawn: Path, name: str) -> None:
    new, kept = drawn / f"{name}.png", BASELINE / f"{name}.png"
    if os.environ.get("BTBENCH_NEW_BASELINE"):
        kept.write_bytes(new.read_bytes())
    assert compare_images(str(kept), str(new), TOLERANCE) is None


def test_the_comparison_sees_another_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "DPI", DPI)
    folder = write_sample(tmp_path / "sample", policies=("btb", "cache_aware", "least_load"), published=PUBLISHED)
    draw.draw_result(folder)
    for name in CHARTS:
        if name != "copies":  # which shows one policy alone
            assert compare_images(str(BASELINE / f"{name}.png"), str(folder / "charts" / f"{name}.png"), TOLERANCE), (
                name
            )


def test_every_chart_of_the_package_is_held(drawn: Path) -> None:
    assert {path.stem.removesuffix("-dark") for path in drawn.glob("*.png")} == {*CHARTS, "costs", "costs_bars"}
    assert Choice() == WHOLE
