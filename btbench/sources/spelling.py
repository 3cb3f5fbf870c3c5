"""What is wrong with JSON, in words; rows whose block ids cannot be read where they stand, or are none."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from btbench.sources.batches import Checked, rows_where
from btbench.sources.oddities import Intake

BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # what decoding raises where the text is at fault
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F]..)", re.DOTALL
)
_IDS = msgspec.json.Decoder(list[str | int] | None)


def in_words(error: msgspec.ValidationError, column: str = "") -> str:
    """A validation error of msgspec as part of our own message."""
    text = str(error)
    place = re.search(r" - at `\$\.?(.*)`$", text)
    text = re.sub(r" - at `.*`$", "", text)
    where = column + (place.group(1) if place else "")
    kinds = re.fullmatch(r"Expected `(.*)`, got `(.*)`", text)
    if kinds is None:
        text = lowered(text.replace("`", ""))
        return f"{where!r}: {text}." if where else f"{text}."
    expected = kinds.group(1).split(" | ")
    allowed = [
        shown for kind, shown in _KINDS.items() if kind in expected and (kind, "float" in expected) != ("int", True)
    ]
    found = "a decimal number" if kinds.group(2) == "float" else _KINDS.get(kinds.group(2), kinds.group(2))
    return f"{repr(where) if where else 'the row'} is {found}; allowed: {' or '.join(allowed)}."


def fault(error: Exception, text: bytes) -> str:
    """What makes a text no JSON, to go on with."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    whole = text.rstrip().endswith((b"}", b"]"))
    if whole and re.search("truncated|surrogate|hex escape", str(error)) and (lone := _LONE_SURROGATE.search(text)):
        return f"half a surrogate pair, {lone.group().decode(errors='replace')}"
    return lowered(str(error))


def lowered(text: str) -> str:
    """A sentence to go on with, unless it opens with an abbreviation."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def without_nulls(rows: Checked, column: str, intake: Intake) -> Checked:
    """The rows whose lists (an Arrow array) hold no null; the others are refused."""
    import pyarrow.compute

    lists = rows.columns["blocks"]
    if not lists.flatten().null_count:
        return rows
    holes = pyarrow.compute.list_parent_indices(lists).filter(lists.flatten().is_null())
    bad = np.unique(holes.to_numpy())
    for number in rows.rows[bad].tolist():
        intake.refuse(number, "wrong type", f"{column!r} holds a null; allowed: strings or integers.")
    good = np.ones(len(rows.rows), np.bool_)
    good[bad] = False
    return rows_where(rows, good)


def spelled_out(rows: Checked, column: str, intake: Intake) -> Checked:
    """The rows with their ids written in one way; those that hold something else are refused."""
    good = np.ones(len(rows.rows), np.bool_)
    texts = []
    for i, text in enumerate(rows.columns["blocks"]):
        try:
            texts.append(msgspec.json.encode(_IDS.decode(text)))
        except msgspec.ValidationError as error:
            intake.refuse(int(rows.rows[i]), "wrong type", in_words(error, column))
            good[i] = False
    kept = rows_where(rows, good)
    kept.columns["blocks"] = texts
    return kept
