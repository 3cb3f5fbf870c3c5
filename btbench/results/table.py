"""Sheets on a terminal (Rich) and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from btbench.results.files import Result
from btbench.results.sheets import Sheet, result_sheets
from btbench.results.words import findings, headline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

ROOMY = 104  # columns of a terminal from which on the spare columns are shown
_STYLES = {"": "", "best": "bold", "good": "green", "bad": "red", "dim": "dim"}


def render_table(result: Result, width: int) -> RenderableType:
    """The sheets of a result for a terminal of so many columns, and what follows from them at the end."""
    from rich.console import Group
    from rich.text import Text

    told = findings(result)
    end = [Text(), Text("\n".join(told))] if told else []
    return Group(Text(headline(result), style="bold"), *render_sheets(result_sheets(result), width), *end)


def render_sheets(sheets: Sequence[Sheet], width: int) -> list[RenderableType]:
    """Each sheet as a table under its title, with its note below; several tables where the columns do not fit."""
    from rich.text import Text

    parts: list[RenderableType] = []
    for sheet in sheets:
        parts += [Text(), Text(sheet.title, style="bold")]
        parts += [_rich_table(sheet, columns, width) for columns in _columns_that_fit(sheet, width)]
        parts += [Text(sheet.note, style="dim")] if sheet.note else []
    return parts


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
    """Each sheet as a table under its title, with its note below. All columns are shown."""
    return "\n".join(_markdown_sheet(sheet) for sheet in sheets)


def _markdown_sheet(sheet: Sheet) -> str:
    lines = [
        f"## {escape(sheet.title)}\n",
        f"| {' | '.join(sheet.names)} | {' | '.join(escape(column.name) for column in sheet.columns)} |",
        f"|---|---|{'--:|' * len(sheet.columns)}",
    ]
    for setup, rows in sheet.groups:
        for row in rows:
            cells = (f"**{cell.text}**" if cell.tone == "best" else escape(cell.text) for cell in row.cells)
            lines.append(f"| {escape(setup)} | {escape(row.name)} | {' | '.join(cells)} |")
    lines += [f"\n{escape(sheet.note)}"] if sheet.note else []
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text for Markdown to show as it is: names may hold characters that it gives a meaning."""
    for mark in ("\\", "|", "*", "`", "<", "["):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
