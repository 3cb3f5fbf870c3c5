"""The door for sweeps: a line for each policy along one key, or heat maps over two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from btbench.charts.field import Field
from btbench.charts.heat_maps import heat_maps
from btbench.charts.palette import themed
from btbench.charts.saving import save_figure, stem_of
from btbench.charts.sweep_lines import line_charts
from btbench.results.metrics import Metric
from btbench.results.sweep import Sweep


def draw_sweep(sweep: Sweep, metrics: Sequence[Metric], part: str, folder: Path) -> list[Path]:
    """Draw a chart for each metric that has values; returns their paths. None for more than two keys."""
    chart = {1: line_charts, 2: heat_maps}.get(len(sweep.axes))
    paths: list[Path] = []
    with themed() as theme:
        for metric in metrics if chart else ():
            field = Field(sweep, metric, part, theme)
            if chart and field.values:
                paths += save_figure(chart(field), folder, stem_of(metric.name, part), ("png",), theme)
    return paths
