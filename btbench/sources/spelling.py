"""The rare rows whose block ids cannot be read where they stand: escaped strings, and what is no id at all."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from btbench.sources.batches import Checked, rows_where
from btbench.sources.oddities import Intake

_IDS = msgspec.json.Decoder(list[str | int] | None)


def in_words(error: msgspec.ValidationError, column: str = "") -> str:
    """A validation error of msgspec as part of our own message."""
    text = str(error)
    place = re.search(r" - at `\$\.?(.*)`$", text)
    text = lowered(re.sub(r" - at `.*`$", "", text).replace("`", "").replace(" | null", ""))
    where = column + (place.group(1) if place else "")
    return f"{where!r}: {text}." if where else f"{text}."


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
