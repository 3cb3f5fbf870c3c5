"""The chart of what a prefix costs: its lengths are named on the axis, however many and near they are."""

from itertools import pairwise

import pytest

from btbench.charts.costs import lines_chart
from btbench.charts.palette import themed
from btbench.cluster.costs import KvCosts
from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica

H100S = KvCosts(MODELS["llama-3.3-70b"], Replica("4 × h100", GPUS["h100"], 4))


@pytest.mark.parametrize(
    ("lengths", "named"),
    [
        ([8000], ["8,000"]),
        ([32000, 500, 7777], ["500", "7,777", "32,000"]),
        ([8000, 8001, 8900], ["8,000", "8,900"]),
        ([1, *range(1000, 1040)], ["1", "1,000"]),
    ],
)
def test_ticks_stand_at_the_lengths_asked_for_and_do_not_overlap(lengths: list[int], named: list[str]) -> None:
    with themed() as page:
        figure = lines_chart(H100S, lengths, page)
        figure.canvas.draw()
    labels = figure.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == named
    boxes = [label.get_window_extent() for label in labels]
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    assert boxes[0].x0 >= 0
