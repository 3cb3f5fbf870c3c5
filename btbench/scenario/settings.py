"""`--set KEY=V1,V2,…`: a scenario asked several times over, with other values at some of its keys."""

import tomllib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from btbench.errors import UsageError
from btbench.scenario.policies import RIVALS
from btbench.scenario.toml import format_value
from btbench.scenario.value import Scenario

_EXAMPLE = "Write --set KEY=V1,V2,… with a key of a scenario, as in --set policy.btb.copies=2,4."


@dataclass(frozen=True)
class Setting:
    """One key, and the values it takes in turn."""

    key: str  # as given: policy.btb.copies
    path: tuple[str, ...]
    values: tuple[Any, ...]


def parse_setting(text: str) -> Setting:
    """A key and values as in TOML, except that words need no quotes. Raises UsageError."""
    key, equals, listed = text.partition("=")
    path = tuple(_path(key)) if equals else ()
    if not path:
        raise UsageError(f"--set {text}: not a key and values", _EXAMPLE)
    try:
        values = tomllib.loads(f"values = [{listed}]")["values"]
    except tomllib.TOMLDecodeError:
        values = [_value(part.strip()) for part in listed.split(",")]
    if not values or "" in values:
        raise UsageError(f"--set {text}: a value is missing", _EXAMPLE)
    if any(isinstance(item, dict) for value in values for item in (value if isinstance(value, list) else [value])):
        raise UsageError(f"--set {text}: a value is a table", f"Set the keys inside it. {_EXAMPLE}")
    return Setting(key.strip(), path, tuple({format_value(value): value for value in values}.values()))


def _path(key: str) -> Iterator[str]:
    """The parts of a dotted key; none where it is no key."""
    try:
        table: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return
    while isinstance(table, dict):
        ((part, table),) = table.items()
        yield part


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def with_value(data: dict[str, Any], setting: Setting, value: Any) -> dict[str, Any]:
    """The tables of a scenario with another value at one key.

    In a list of tables a key goes to all of them (setup.replicas), or to the one named (setup.70b_h100x4.replicas).
    Raises UsageError where what holds the key is no table.
    """
    changed = deepcopy(data)
    for table in _holders(changed, setting, setting.path[:-1]):
        table.pop(RIVALS.get(setting.path[-1], ""), None)
        table[setting.path[-1]] = value
    return changed


def _holders(table: Any, setting: Setting, way: tuple[str, ...]) -> list[dict[str, Any]]:
    """The tables at the end of the way, made where they are not there."""
    if isinstance(table, list):
        named = [item for item in table if way and isinstance(item, dict) and item.get("name") == way[0]]
        return [holder for item in named or table for holder in _holders(item, setting, way[1:] if named else way)]
    if not isinstance(table, dict):
        above = ".".join(setting.path[: len(setting.path) - 1 - len(way)])
        raise UsageError(f"--set {setting.key}: {above} is no table", "The keys are those of the scenario's file.")
    return _holders(table.setdefault(way[0], {}), setting, way[1:]) if way else [table]


def check_differences(settings: Sequence[Setting], variants: Sequence[tuple[tuple[Any, ...], Scenario]]) -> None:
    """Raise UsageError where a key changes nothing, as one that no policy replayed reads."""
    for k, setting in enumerate(settings):
        first: dict[str, Scenario] = {}  # of those that differ in this key alone
        alike = [
            scenario == first.setdefault(format_value(at[:k] + at[k + 1 :]), scenario) for at, scenario in variants
        ]
        if len(setting.values) > 1 and all(alike):
            raise UsageError(f"--set {setting.key}: makes no difference", "No setup or policy replayed reads this key.")
