"""The chart of the gap to the floor: what its title says, and where there is nothing to draw."""

import pytest

from btbench.charts.gap import gap_chart
from btbench.charts.palette import themed
from btbench.charts.reduction import ends_of
from btbench.charts.view import View
from btbench.results.files import Result
from btbench.results.provenance import Provenance
from btbench.results.summary import Row


def draw(closed):
    """The chart of policies and their shares on setups s0, s1, …"""
    rows = tuple(
        Row(f"s{k}", policy, "all", {"requests": 9, "gap_closed_pct": share})
        for policy, shares in {"base": [None] * 2, **closed}.items()
        for k, share in enumerate(shares)
    )
    with themed() as theme:
        return gap_chart(View(Result(rows, Provenance(baseline="base"), name="sample"), theme))


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ({"a": [10.0, 92.4], "b": [20.0, 30.0]}, "a closes 10–92% of the gap between base and the floor"),
        ({"a": [65.0]}, "a closes 65% of the gap between base and the floor"),
        ({"a": [-5.0, 40.0]}, "a closes up to 40% of the gap between base and the floor, on 1 of 2 setups"),
        ({"a": [-5.0, -600.0]}, "No policy closes any of the gap between base and the floor"),
    ],
)
def test_the_title_is_the_finding(closed, said):
    figure = draw(closed)
    assert figure.texts[0].get_text().replace("\n", " ") == said
    (panel,) = figure.axes
    drawn = {text.get_text() for text in panel.texts}
    values = [value for shares in closed.values() for value in shares]
    assert drawn == {("◂ " * (v < -100) + f"{v:.1f}%").replace("-", "\N{MINUS SIGN}") for v in values}


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([62.0, 10.0], (0, 75)),
        ([-115.4, -0.2], (-100, 0)),
        ([-2.0, 60.0], (-25, 75)),
        ([-0.3, 1.0], (-5, 5)),
        ([0.0], (0, 5)),
        ([100.0], (0, 100)),
    ],
)
def test_the_axis_ends_where_the_values_do(values, ends):
    assert ends_of(values) == ends


def test_without_a_floor_or_a_gap_there_is_no_chart():
    assert draw({"a": [None, None]}) is None
