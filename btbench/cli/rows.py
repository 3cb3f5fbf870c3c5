"""Tables of plain rows on stdout, in the four formats of `--format`."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from btbench.cli.console import stdout, wrap
from btbench.cli.options import Format

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Value = str | int | float | None
Rows = Sequence[Mapping[str, Value]]  # each with the same keys


def plain_tables(tables: Mapping[str, Rows]) -> "Iterable[RenderableType]":
    """The tables one below the other, as a terminal shows them."""
    return map(_rich, tables.values())


def print_rows(
    tables: Mapping[str, Rows],
    format: Format,
    notes: Sequence[str] = (),
    show: "Callable[[Mapping[str, Rows]], Iterable[RenderableType]]" = plain_tables,
) -> None:
    """Print tables by title; `notes` stand below the last, where a person reads them (not in JSON and CSV).

    On a terminal they look as `show` makes them. A table without rows is printed as JSON alone.
    """
    filled = [rows for rows in tables.values() if rows]
    if format is Format.json:
        print(json.dumps(tables, indent=1, ensure_ascii=False, allow_nan=False))
    elif format is Format.csv:
        for k, rows in enumerate(filled):
            writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
            print(end="\n" if k else "")
            writer.writeheader()
            writer.writerows(rows)
    elif format is Format.markdown:
        print("\n\n".join([*map(_markdown, filled), *notes]))
    else:
        for part in show(tables):
            stdout().print(part)
        for note in notes:
            stdout().print("\n".join(wrap(note, stdout().width)), soft_wrap=True)


def in_words(key: str, value: Value) -> str:
    """A value for people: numbers with the unit that the key ends in."""
    from btbench.results import numbers

    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if key.endswith("_bytes_per_s"):
        return f"{numbers.size(value)}/s"
    if key.endswith("_bytes") or key == "kv_bytes_per_token":
        return numbers.size(value)
    if key == "flops":
        return f"{value / 1e12:,.0f} TFLOP/s"
    if key.endswith("params"):
        return f"{value / 1e9:,.4g}e9"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def _markdown(rows: Rows) -> str:
    lines = [[key.replace("_", " ") for key in rows[0]], ["--:" if _is_number(rows, key) else "---" for key in rows[0]]]
    lines += [[in_words(key, value).replace("|", "\\|") for key, value in row.items()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rich(rows: Rows) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    heads = {key: key.replace("_per_s", "/s").replace("_", "\n" if _is_number(rows, key) else " ") for key in rows[0]}
    texts = [[head, *(in_words(key, row[key]) for row in rows)] for key, head in heads.items()]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for (key, head), width in zip(heads.items(), _widths(texts, stdout().width), strict=True):
        justify: Literal["left", "right"] = "right" if _is_number(rows, key) else "left"
        table.add_column(head, justify=justify, width=width, overflow="fold")
    for row in rows:
        table.add_row(
            *(Text(in_words(key, value), style="" if k else "cyan") for k, (key, value) in enumerate(row.items()))
        )
    return table


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Of each column: what it asks for; where that is too much the widest give way, none to less than a word."""
    widths = [max(len(line) for text in column for line in text.splitlines() or [""]) for column in columns]
    least = [max(len(word) for text in column for word in text.split() or [""]) for column in columns]
    for _ in range(sum(widths) + 2 * (len(columns) - 1) - room):
        able = [k for k in range(len(columns)) if widths[k] > least[k]]
        if able:
            widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def _is_number(rows: Rows, key: str) -> bool:
    return all(isinstance(row[key], int | float | None) for row in rows)
