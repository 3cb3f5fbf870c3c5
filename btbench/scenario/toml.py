"""Writes TOML, as much of it as a scenario needs. (`tomllib` only reads.)"""

import json
import re
from collections.abc import Mapping
from typing import Any


def format_key(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else format_value(key)


def format_value(value: Any) -> str:
    """Text, number, boolean, list or inline table; a list of tables a line each."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # JSON's escapes are TOML's too, but TOML wants one more
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{format_key(key)} = {format_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        if _is_tables(value):
            return "[\n" + "".join(f"  {format_value(item)},\n" for item in value) + "]"
        return "[" + ", ".join(map(format_value, value)) + "]"
    return str(value)


def format_document(document: Mapping[str, Any]) -> str:
    """A document: its values, then its tables, each under a heading; lists of tables as arrays of tables."""
    return "\n\n".join(_blocks(document, "")) + "\n"


def _blocks(table: Mapping[str, Any], name: str) -> list[str]:
    values, inner = [], []
    for key, value in table.items():
        path = f"{name}.{format_key(key)}" if name else format_key(key)
        if isinstance(value, Mapping):
            inner += _blocks(value, path)
        elif not name and _is_tables(value):
            inner += [f"[[{path}]]\n{_lines(item)}" for item in value]
        else:
            values.append(f"{format_key(key)} = {format_value(value)}")
    heading = [f"[{name}]"] if name and (values or not inner) else []
    return (["\n".join(heading + values)] if heading or values else []) + inner


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _lines(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{format_key(key)} = {format_value(value)}" for key, value in table.items())
