"""Sheets on a terminal (Rich) and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from btbench.results.files import Result
from btbench.results.result_sheets import is_large, result_sheets
from btbench.results.sheets import Sheet
from btbench.results.words import findings, headline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

LONG = 200  # lines of tables above which a terminal shows the overview alone
ROOMY = 104  # columns of a terminal from which on the spare columns are shown
_STYLES = {"": "", "best": "bold", "good": "green", "bad": "red", "dim": "dim"}


def render_table(result: Result, width: int) -> RenderableType:
    """What a result says, in sentences, and below the sheets it follows from, for a terminal of so many columns."""
    from rich.console import Group
    from rich.text import Text

    told = findings(result)
    answer = [Text(), *map(_item, told)] if told else []
    sheets, rest = result_sheets(result), []
    lines = sum(len(group) for sheet in sheets[1:] for _, group in sheet.groups)
    if is_large(result) and lines > LONG:
        where = f"Not shown: {lines:,} lines on single setups. table.md, report.html, --format json and csv have them."
        sheets, rest = sheets[:1], [Text(), Text(where, style="dim")]
    return Group(Text(headline(result), style="bold"), *answer, *render_sheets(sheets, width), *rest)


def _item(text: str) -> RenderableType:
    """An item of a list, of which the further lines stand under its text."""
    from rich.table import Table
    from rich.text import Text

    item = Table.grid()
    item.add_column(width=2)
    item.add_column(overflow="fold")
    item.add_row("-", Text(text))
    return item


def render_sheets(sheets: Sequence[Sheet], width: int) -> list[RenderableType]:
    """Each sheet as a table under its title; several tables where the columns do not fit, of the first such sheet.

    A note that several sheets share stands below the last; what is left out is named at the end.
    """
    from rich.text import Text

    parts: list[RenderableType] = []
    left_out: dict[str, None] = {}
    seen: set[tuple[str, ...]] = set()
    for sheet, note in zip(sheets, _notes(sheets), strict=True):
        names = tuple(column.name for column in sheet.columns)
        stretches = _columns_that_fit(sheet, width)
        if names in seen:  # of the further parts of a trace only what comes first
            opened = next((k for k, columns in enumerate(stretches) if sheet.columns[columns[0]].opens), len(stretches))
            again = [names[k] for columns in stretches[opened:] for k in columns]
            left_out |= dict.fromkeys([f"{', '.join(again)} of the other parts"] if again else [])
            stretches = stretches[:opened]
        elif width < ROOMY:
            left_out |= dict.fromkeys(column.name for column in sheet.columns if column.spare)
        seen.add(names)
        for place, columns in enumerate(stretches):
            title = sheet.columns[columns[0]].opens if place else sheet.title
            parts += [Text(), Text(title, style="bold")] if title else []
            parts.append(_rich_table(sheet, columns, width))
        parts += [Text(note, style="dim")] if note else []
    if left_out:
        told = f"Not shown: {', '.join(left_out)}. A wider terminal, --format json and csv have them."
        parts += [Text(), Text(told, style="dim")]
    return parts


def _notes(sheets: Sequence[Sheet]) -> list[str]:
    """The note below each sheet: none where the next one has the same."""
    following = [*(sheet.note for sheet in sheets[1:]), ""]
    return ["" if sheet.note == after else sheet.note for sheet, after in zip(sheets, following, strict=True)]


def _columns_that_fit(sheet: Sheet, width: int) -> list[list[int]]:
    """The columns to show, cut into stretches that fit `width` beside the names of setups and policies."""
    shown = [k for k, column in enumerate(sheet.columns) if width >= ROOMY or not column.spare]
    needs = {k: _column_width(sheet, k) + _gap(width) for k in shown}
    room = width - _names_width(sheet, width)
    if sum(needs.values()) <= room:
        return [shown]
    stretches: list[list[int]] = []
    for k in shown:
        if not stretches or sheet.columns[k].opens or sum(needs[j] for j in stretches[-1]) + needs[k] > room:
            stretches.append([])
        stretches[-1].append(k)
    return stretches


def _column_width(sheet: Sheet, column: int) -> int:
    texts = sheet.columns[column].name.split("\n")
    return max(map(len, [*texts, *(line.cells[column].text for _, lines in sheet.groups for line in lines)]))


def _names_width(sheet: Sheet, width: int) -> int:
    names = [name for setup, lines in sheet.groups for name in (setup, *(f"  {line.name}" for line in lines))]
    return min(max(map(len, names)), width // 2)


def _gap(width: int) -> int:
    return 2 if width < ROOMY else 3


def _rich_table(sheet: Sheet, columns: Sequence[int], width: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _gap(width) - 1, 0, 0))
    table.add_column("", overflow="fold", width=_names_width(sheet, width))
    for k in columns:
        table.add_column(sheet.columns[k].name, justify="right", no_wrap=True)
    for setup, lines in sheet.groups:
        table.add_row(Text(setup, style="cyan"))
        for line in lines:
            cells = (Text(line.cells[k].text, style=_STYLES[line.cells[k].tone]) for k in columns)
            table.add_row(Text(f"  {line.name}"), *cells)
    return table


def markdown_table(result: Result) -> str:
    """The sheets of a result in GitHub's Markdown; also the result's `table.md`."""
    told = "".join(f"- {escape(line)}\n" for line in findings(result))
    return "\n".join(
        [f"# {escape(headline(result))}\n", *([told] if told else []), markdown_sheets(result_sheets(result))]
    )


def markdown_sheets(sheets: Sequence[Sheet]) -> str:
    """Each sheet with all its columns under its title; a note that several sheets share stands below the last."""
    return "\n".join(_markdown_sheet(sheet, note) for sheet, note in zip(sheets, _notes(sheets), strict=True))


def _markdown_sheet(sheet: Sheet, note: str) -> str:
    lines = [
        f"## {escape(sheet.title)}\n",
        f"| {' | '.join(sheet.names)} | {' | '.join(escape(column.name) for column in sheet.columns)} |",
        f"|---|---|{'--:|' * len(sheet.columns)}",
    ]
    for setup, rows in sheet.groups:
        for row in rows:
            cells = (f"**{cell.text}**" if cell.tone == "best" else escape(cell.text) for cell in row.cells)
            lines.append(f"| {escape(setup)} | {escape(row.name)} | {' | '.join(cells)} |")
    lines += [f"\n{escape(note)}"] if note else []
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text for Markdown to show as it is: names may hold characters that it gives a meaning."""
    for mark in ("\\", "|", "*", "`", "<", "["):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("$", "<span>$</span>").replace("\n", " ")  # GitHub takes \$x\$ for maths too
