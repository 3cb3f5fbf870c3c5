"""A table of texts, and how it is drawn on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

ROOMY = 104  # columns of a terminal from which on the spare columns are shown


@dataclass(frozen=True)
class Column:
    """The head of a column; numbers stand to the right.

    `spare` ones are left out where there is little room; texts of `whole` ones are shortened, never broken.
    """

    name: str
    text: bool = False
    spare: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Sheet:
    """A titled table, and a line below it that says what its words mean."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def render(sheet: Sheet, width: int) -> list[RenderableType]:
    """For a terminal of so many columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = [k for k, column in enumerate(sheet.columns) if width >= ROOMY or not column.spare]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for k in shown:
        column = sheet.columns[k]
        justify = "left" if column.text else "right"
        table.add_column(
            column.name,
            justify=justify,  # type: ignore[arg-type]
            no_wrap=column.whole or not column.text,
            overflow="ellipsis" if column.whole else "fold",
        )
    for row in sheet.rows:
        table.add_row(*(Text(row[k], style="cyan" if k == 0 else "") for k in shown))
    parts: list[RenderableType] = [Text(), Text(sheet.title, style="bold"), table]
    return [*parts, Text(sheet.note, style="dim")] if sheet.note else parts


def markdown(sheet: Sheet) -> str:
    """In GitHub's Markdown, with all columns."""
    lines = [
        f"## {escape(sheet.title)}\n",
        f"| {' | '.join(escape(column.name) for column in sheet.columns)} |",
        f"|{'|'.join('---' if column.text else '--:' for column in sheet.columns)}|",
        *(f"| {' | '.join(map(escape, row))} |" for row in sheet.rows),
    ]
    return "\n".join([*lines, f"\n{escape(sheet.note)}"] if sheet.note else lines) + "\n"


def escape(text: str) -> str:
    """Text as it is: names may hold characters that Markdown gives a meaning."""
    for mark in ("\\", "|", "*", "`", "<", "["):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def columns(
    *names: str, text: Sequence[str] = (), spare: Sequence[str] = (), whole: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Columns by name; those of `text` stand to the left, those of `spare` are left out where there is little room."""
    return tuple(Column(name, name in text, name in spare, name in whole) for name in names)
