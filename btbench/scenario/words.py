"""What a value may be, in words, read from the same annotation that checks it."""

import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import Doc


@dataclass(frozen=True)
class Words:
    """A mark of an annotation that says it better than its type and range would."""

    text: str


def allowed(annotation: Any) -> str:
    """E.g. "an integer of at least 1", "a number above 0 and at most 1", "'random' or an integer of at least 0"."""
    marks: list[Any] = []
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
    marks = list(_flat(marks))
    for mark in marks:
        if isinstance(mark, Words):
            return mark.text
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(allowed(option) for option in get_args(annotation) if option is not type(None))
    if origin is Literal:
        return " or ".join(repr(option) for option in get_args(annotation))
    if origin is list:
        some = ", not empty" if any(getattr(mark, "min_length", 0) for mark in marks) else ""
        return f"a list{some}, of {allowed(get_args(annotation)[0])}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "a table"
    noun = {bool: "true or false", int: "an integer", float: "a number", str: "text"}[annotation]
    return noun + _range(marks)


def meaning(annotation: Any) -> str:
    """What a value is for, where its annotation says so."""
    return next((mark.documentation for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Doc)), "")


def _flat(marks: Iterable[Any]) -> Iterable[Any]:
    """Marks, those of `pydantic.Field` among them."""
    for mark in marks:
        yield from getattr(mark, "metadata", (mark,))


def _range(marks: Sequence[Any]) -> str:
    bounds = {
        key: f"{getattr(mark, key):,}" for mark in marks for key in ("ge", "gt", "le", "lt") if hasattr(mark, key)
    }
    if bounds.keys() == {"ge", "le"}:
        return f" from {bounds['ge']} to {bounds['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
    return " and".join(f" {words[key]} {bound}" for key, bound in bounds.items())
