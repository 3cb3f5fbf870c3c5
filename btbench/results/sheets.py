"""Plain tables: what is said about a result, before the terminal, Markdown and the report draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from btbench.results import numbers
from btbench.results.summary import ALL, Value

Tone = Literal["", "best", "good", "bad", "dim"]


class Cell(NamedTuple):
    """A number as text, how it stands out, and the number itself, to sort by."""

    text: str
    tone: Tone = ""
    value: Value = None


class Column(NamedTuple):
    """The head of a column; `spare` ones are left out where there is little room."""

    name: str
    spare: bool = False
    opens: str = ""  # where to cut a table that is too wide: the title of what begins here


class Line(NamedTuple):
    """One policy (its name) and a cell for each column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Sheet:
    """A table: groups of lines, a group for each setup. The columns of the names are not among `columns`."""

    title: str
    columns: tuple[Column, ...]
    groups: tuple[tuple[str, tuple[Line, ...]], ...]
    note: str = ""
    names: tuple[str, str] = ("setup", "policy")  # what groups and lines are


def gain(value: float) -> Cell:
    """A reduction or another gain, in %."""
    text = numbers.percent(value)
    return Cell(text, "" if text == "0.0%" else "good" if value > 0 else "bad", value)


def titled(title: str, part: str, parts: Sequence[str]) -> str:
    """A title with the part of the trace, where there are several."""
    return title if len(parts) == 1 or part not in parts else f"{title}, {'all requests' if part == ALL else part}"
