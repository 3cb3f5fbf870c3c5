"""The folder of an analysis: JSON, CSV, Markdown report and charts, written whole or not at all."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from btbench.analysis.audit import TraceAnalysis
from btbench.cli.trace_report.output import csv_text, json_text, markdown_text
from btbench.errors import OutputError
from btbench.progress import Progress

JSON, CSV, REPORT, CHARTS = "analysis.json", "fanout.csv", "report.md", "charts"
OUR_FILES = (CSV, REPORT, CHARTS, JSON)
PAIR = "bursts"


def check_folder(folder: Path, force: bool) -> None:
    """Raises OutputError where an analysis cannot be written to `folder`, before any work is done."""
    other = "Choose another folder with --out."
    for place in (folder, *folder.absolute().parents):
        if place.exists():
            if not place.is_dir():
                raise OutputError(f"{place} is a file, not a folder", other)
            break
    found = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    foreign = [name for name in found if name not in OUR_FILES]
    if foreign:
        raise OutputError(f"{folder} holds {foreign[0]!r}, which is no part of an analysis", other)
    if found and not force:
        raise OutputError(f"{folder} holds an analysis already", f"Replace it with --force. {other}")


def write_folder(folder: Path, analyses: Sequence[TraceAnalysis], with_charts: bool, progress: Progress) -> None:
    """Write everything beside the folder, then put it in its place. Raises OutputError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".btbench-") as made:
            new = Path(made) / "new"
            new.mkdir()
            charts = draw_charts(new / CHARTS, analyses, progress) if with_charts else []
            texts = {JSON: json_text(analyses), CSV: csv_text(analyses), REPORT: markdown_text(analyses, charts)}
            for name, text in texts.items():
                (new / name).write_text(text, encoding="utf-8")
            folder.mkdir(exist_ok=True)
            for name in OUR_FILES:
                old = folder / name
                shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
                if (new / name).exists():
                    (new / name).rename(old)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}", "Choose another folder.") from None


def draw_charts(folder: Path, analyses: Sequence[TraceAnalysis], progress: Progress) -> list[list[str]]:
    """File names: the charts of all traces together, then those of each trace."""
    from btbench.charts import trace_bursts, trace_load
    from btbench.charts.palette import themed
    from btbench.charts.saving import save_figure

    folder.mkdir()
    kinds = (
        ("fanout", trace_bursts.draw_heat_map, lambda a: bool(a.fanout)),
        ("timeline", trace_bursts.draw_timeline, lambda a: a.bursts is not None),
        ("reuse", trace_load.draw_reuse, lambda a: a.reuse is not None),
        ("rate", trace_load.draw_rate, lambda a: a.arrivals is not None),
        ("lengths", trace_load.draw_lengths, lambda a: a.requests > 0),
    )
    with themed() as theme:
        save_figure(trace_bursts.draw_pair(analyses, theme), folder, PAIR, ("png",), theme)
        names = [[f"{PAIR}.png"]]
        for number, (stem, analysis) in enumerate(zip(_stems(analyses), analyses, strict=True)):
            progress("drawing charts", number, len(analyses))
            drawn = [(kind, draw) for kind, draw, possible in kinds if possible(analysis)]
            for kind, draw in drawn:
                save_figure(draw(analysis, theme), folder, f"{stem}{kind}", ("png",), theme)
            names.append([f"{stem}{kind}.png" for kind, _ in drawn])
    return names


def _stems(analyses: Sequence[TraceAnalysis]) -> list[str]:
    """What the charts of each trace begin with: nothing for one trace, else its name, numbered where two share it."""
    if len(analyses) == 1:
        return [""]
    names = [re.sub(r"[^\w.-]+", "-", a.name).strip("-.") or "trace" for a in analyses]
    return [f"{name}{f'-{k + 1}' if names.count(name) > 1 else ''}-" for k, name in enumerate(names)]
