"""`report.html`: one file that holds a result, its charts, its scenario and where it comes from; needs no network."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import msgspec

from btbench.results.files import Result, load_result
from btbench.results.folder import CHARTS
from btbench.results.result_sheets import result_sheets
from btbench.results.sheets import Sheet
from btbench.results.stored import scenario_text
from btbench.results.whole import whole_file
from btbench.results.words import findings, headline

REPORT = "report.html"
_PICTURES = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}  # the sharper form of a chart first
FILM = ", moving"  # what a film is called, behind the name of the chart
_FIRST = ("reduction", "ttft", "gap_to_floor", "ttft_split", "timeline", f"timeline{FILM}")  # answers; others by name


def write_report(folder: Path) -> Path:
    """Write `report.html` into a result folder, from the files that are there. Returns its path."""
    file = folder / REPORT
    charts = folder / CHARTS
    page = report_page(folder, charts.iterdir() if charts.is_dir() else ())
    with whole_file(file) as part:
        part.write_text(page, encoding="utf-8")
    return file


def report_page(folder: Path, charts: Iterable[Path]) -> str:
    """The page of the result in `folder` with these charts. Raises OutputError where there is none."""
    result = load_result(folder)
    return Template((files("btbench.results") / "report_template.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{result.name}: btbench"),
        heading=escape(result.name),
        about=escape(headline(result)),
        findings="\n".join(f"<li>{escape(line)}</li>" for line in findings(result)),
        tables="\n".join(_table(sheet) for sheet in result_sheets(result)),
        charts=_charts(charts),
        scenario=escape("not stored" if (scenario := scenario_text(folder)) is None else scenario),
        provenance="\n".join(_provenance(result)),
    )


def _table(sheet: Sheet) -> str:
    names = [f'<th class="name" scope="col"><button>{escape(name)}</button></th>' for name in sheet.names]
    heads = [f'<th scope="col"><button>{escape(column.name)}</button></th>' for column in sheet.columns]
    rows = []
    for group, lines in sheet.groups:
        for line in lines:
            cells = [f'<td class="name">{escape(name)}</td>' for name in (group, line.name)]
            for cell in line.cells:
                value = "" if cell.value is None else f' data-value="{cell.value!r}"'
                cells.append(f'<td class="{cell.tone}"{value}>{escape(cell.text)}</td>')
            rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<section>\n<h2>{escape(sheet.title)}</h2>\n<div class="scroll"><table>\n<thead><tr>{"".join(names + heads)}'
        f"</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table></div>\n"
        f'<p class="note">{escape(sheet.note)}</p>\n</section>'
    )


def _charts(files: Iterable[Path]) -> str:
    """Every chart once, as a picture inside the page: of a light and a dark one the light one, and films too."""
    pictures: dict[str, Path] = {}
    found = sorted(files)
    for suffix in _PICTURES:
        for path in found:
            if path.suffix == suffix:
                pictures.setdefault(path.stem + (FILM if suffix == ".gif" else ""), path)
    light = {stem for stem in pictures if _light(stem) == stem or _light(stem) not in pictures}
    stems = [stem for stem in _FIRST if stem in light] + sorted(light - set(_FIRST))
    figures = [_figure(stem, pictures[stem]) for stem in stems]
    if not figures:
        return ""
    return f'<section>\n<h2>Charts</h2>\n<div class="charts">\n{chr(10).join(figures)}\n</div>\n</section>'


def _light(stem: str) -> str:
    """The same chart on a light page."""
    return stem.removesuffix(FILM).removesuffix("-dark") + (FILM if stem.endswith(FILM) else "")


def _figure(stem: str, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    source = f"data:{_PICTURES[path.suffix]};base64,{data}"
    return f'<figure><img alt="Chart: {escape(stem.replace("_", " "))}" src="{source}"></figure>'


def _provenance(result: Result) -> list[str]:
    """Each field as a term and what is known of it."""
    known = msgspec.to_builtins(result.provenance)
    lines = []
    for field in ("command", "seed", "baseline", "trace", "setups", "versions", "machine", "published_source"):
        value = known[field]
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items() if item not in ("", None))
        elif field == "setups":
            value = "; ".join(f"{s['setup']}: {s['replicas']} replicas of {s['model']}" for s in value)
        if value not in ("", None):
            lines.append(f"<dt>{escape(field.replace('_', ' '))}</dt><dd>{escape(str(value))}</dd>")
    return lines
