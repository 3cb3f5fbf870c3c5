"""Mistakes in a scenario file, each with its key, and the one error that lists them with their lines."""

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from btbench.errors import ScenarioError, nearest
from btbench.scenario.lines import KeyPath, key_lines
from btbench.scenario.toml import format_key, format_value
from btbench.scenario.words import allowed

_SHOWN = 10


@dataclass(frozen=True)
class Problem:
    """One mistake: at which key, what it is, and what would be allowed."""

    path: KeyPath
    text: str  # follows the key, e.g. " = 0 is not allowed"
    hint: str = ""

    def __str__(self) -> str:
        return f"{_dotted(self.path)}{self.text}"


def as_error(problems: Sequence[Problem], file: str, text: str) -> ScenarioError:
    """All problems of a file as one error, in the order of their lines."""
    lines = key_lines(text)

    def line(problem: Problem) -> int:
        return next((lines[problem.path[:n]] for n in range(len(problem.path), 0, -1) if problem.path[:n] in lines), 1)

    ordered = sorted(problems, key=line)
    told = [f"line {line(problem)}: {problem}" for problem in ordered]
    if len(told) == 1:
        return ScenarioError(f"{file}, {told[0]}", ordered[0].hint or None)
    shown = [f"{text}. {problem.hint}".strip() for text, problem in zip(told, ordered, strict=True)][:_SHOWN]
    rest = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return ScenarioError("\n".join([f"{file}: {len(told)} mistakes", *shown, *rest]))


def explain(error: ValidationError, table: type[BaseModel], data: Any, prefix: KeyPath = ()) -> list[Problem]:
    """What pydantic found wrong in `data`, which stands at `prefix` of the file and should have been a `table`."""
    problems: dict[KeyPath, Problem] = {}  # a union complains once a branch
    for detail in error.errors(include_url=False):
        path, value = _place(detail["loc"], data)
        match detail["type"]:
            case "extra_forbidden":
                known = _plain(_annotation(table, path[:-1])).model_fields
                problem = Problem(prefix + path, ": unknown key", nearest(str(path[-1]), list(known)))
            case "missing":
                path = (*path, str(detail["loc"][len(path)]))
                problem = Problem(prefix + path, " is missing", f"Allowed: {allowed(_annotation(table, path))}.")
            case "literal_error" if get_origin(names := _plain(_annotation(table, path))) is Literal:
                hint = nearest(str(value), list(get_args(names)))
                problem = Problem(prefix + path, f" = {format_value(value)} is not allowed", hint)
            case "value_error":
                problem = Problem(prefix + path, f": {detail['ctx']['error']}")
            case _:
                hint = f"Allowed: {allowed(_annotation(table, path))}."
                problem = Problem(prefix + path, f" = {format_value(value)} is not allowed", hint)
        problems.setdefault(path, problem)
    return list(problems.values())


def _dotted(path: KeyPath) -> str:
    """The key as a reader would write it: setup[0].cluster[2].gpu."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{format_key(part)}" for part in path).removeprefix(".")


def _place(loc: Sequence[str | int], data: Any) -> tuple[KeyPath, Any]:
    """The part of pydantic's location that is in the file (it adds the branches of unions), and the value there."""
    path: KeyPath = ()
    for part in loc:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            break
        path += (part,)
    return path, data


def _annotation(table: type[BaseModel], path: KeyPath) -> Any:
    """The annotation of a known key below a table; of the table itself, its class."""
    annotation: Any = table
    for part in path:
        annotation = _plain(annotation)
        if get_origin(annotation) in (list, dict):
            annotation = get_args(annotation)[-1]
        else:
            annotation = get_type_hints(annotation, include_extras=True)[str(part)]
    return annotation


def _plain(annotation: Any) -> Any:
    """An annotation without its marks and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return _plain(next(option for option in get_args(annotation) if option is not type(None)))
    return annotation
