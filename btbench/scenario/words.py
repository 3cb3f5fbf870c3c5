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


def allowed(annotation: Any, in_short: bool = False, outer: Sequence[Any] = ()) -> str:
    """E.g. "an integer of at least 1", "a number above 0 and at most 1", "'random' or an integer of at least 0".

    In short: "integer ≥ 1", "> 0, ≤ 1", "random | integer ≥ 0". `outer` are marks of a union that it is an option of.
    """
    marks = list(outer)
    if get_origin(annotation) is Annotated:
        annotation, *own = get_args(annotation)
        marks += _flat(own)
    for mark in marks:
        if isinstance(mark, Words):
            return mark.text
    origin = get_origin(annotation)
    either = " | " if in_short else " or "
    if origin in (Union, types.UnionType):
        options = (option for option in get_args(annotation) if option is not type(None))
        return either.join(allowed(option, in_short, marks) for option in options)
    if origin is Literal:
        return either.join(map(str if in_short else repr, get_args(annotation)))
    if origin is list:
        some = ", not empty" if any(getattr(mark, "min_length", 0) for mark in marks) else ""
        return f"a list{some}, of {allowed(get_args(annotation)[0])}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "a table"
    noun = {bool: "true or false", int: "an integer", float: "a number", str: "text"}[annotation]
    if in_short:
        noun = {bool: "true | false", int: "integer", float: ""}.get(annotation, noun)
    return f"{noun} {_range(marks, in_short)}".strip()


def meaning(annotation: Any) -> str:
    """What a value is for, where its annotation says so."""
    return next((mark.documentation for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Doc)), "")


def _flat(marks: Iterable[Any]) -> Iterable[Any]:
    """Marks, those of `pydantic.Field` among them."""
    for mark in marks:
        yield from getattr(mark, "metadata", (mark,))


def _range(marks: Sequence[Any], in_short: bool) -> str:
    bounds = {key: getattr(mark, key) for mark in marks for key in ("ge", "gt", "le", "lt") if hasattr(mark, key)}
    if in_short and bounds.get("le", 0) >= 2**31 - 1:  # so that nothing overflows: no range that one chooses from
        del bounds["le"]
    words = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
    if in_short:
        words = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    if bounds.keys() == {"ge", "le"}:
        return f"{'' if in_short else 'from '}{bounds['ge']:,} to {bounds['le']:,}"
    return (", " if in_short else " and ").join(f"{words[key]} {bound:,}" for key, bound in bounds.items())
