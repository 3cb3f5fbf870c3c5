"""Tables of plain rows on stdout, in the four formats of `--format`."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from btbench.cli.console import stdout, wrap
from btbench.cli.options import Format

if TYPE_CHECKING:
    from rich.table import Table

Value = str | int | float | None
Rows = Sequence[Mapping[str, Value]]  # each with the same keys


def print_rows(tables: Mapping[str, Rows], format: Format, notes: Sequence[str] = ()) -> None:
    """Print tables by title; `notes` stand below the last, where a person reads them (not in JSON and CSV)."""
    if format is Format.json:
        print(json.dumps(tables, indent=1, ensure_ascii=False, allow_nan=False))
    elif format is Format.csv:
        for k, rows in enumerate(tables.values()):
            writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
            print(end="\n" if k else "")
            writer.writeheader()
            writer.writerows(rows)
    elif format is Format.markdown:
        print("\n\n".join([*(_markdown(rows) for rows in tables.values()), *notes]))
    else:
        for rows in tables.values():
            stdout().print(_rich(rows))
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
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for key, head in heads.items():
        is_number = _is_number(rows, key)
        table.add_column(
            head,
            justify="right" if is_number else "left",
            no_wrap=not any(" " in in_words(key, row[key]) for row in rows),
        )
    for row in rows:
        table.add_row(
            *(Text(in_words(key, value), style="" if k else "cyan") for k, (key, value) in enumerate(row.items()))
        )
    return table


def _is_number(rows: Rows, key: str) -> bool:
    return all(isinstance(row[key], int | float | None) for row in rows)
