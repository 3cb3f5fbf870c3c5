"""Whether two results may be compared, and what differs between the scenarios they were made from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from typing import Any

from btbench.errors import OutputError
from btbench.results.files import AGAIN, SCENARIO, Result
from btbench.results.stored import scenario_text

MOST_LISTED = 10  # differences between scenarios
_NAMED = ("setup", "models", "gpus", "policy")  # tables of a scenario whose entries have names


def obstacles(a: Result, b: Result) -> list[str]:
    """What makes a comparison misleading: another trace, seed or model. Unknown is no obstacle (`unknowns`)."""
    one, other = a.provenance, b.provenance
    found = []
    if one.trace and other.trace and one.trace.digest and other.trace.digest and one.trace.digest != other.trace.digest:
        found.append(
            f"trace: {one.trace.source or one.trace.name} ({one.trace.digest}) against "
            f"{other.trace.source or other.trace.name} ({other.trace.digest})"
        )
    if None not in (one.seed, other.seed) and one.seed != other.seed:
        found.append(f"seed: {one.seed} against {other.seed}")
    models = {served.setup: served.model for served in other.setups}
    for served in one.setups:
        if (model := models.get(served.setup, served.model)) != served.model:
            found.append(f"model of setup {served.setup}: {served.model} against {model}")
    return found


def unknowns(result: Result) -> list[str]:
    """What cannot be told about a result because its files do not say."""
    known = result.provenance
    missing = [name for name, value in (("trace", known.trace), ("seed", known.seed)) if value is None]
    missing += [] if known.setups else ["models"]
    return missing


def scenario_differences(a: Result, b: Result) -> list[str]:
    """The keys of the resolved scenarios that differ, with both values; empty where one of them is not at hand.

    A setup, model, GPU or policy that is in one alone is a line without its keys. What somebody published to stand
    beside a result is no part of how it was made.
    """
    one, other = _scenario(a), _scenario(b)
    if one is None or other is None:
        return []
    lines = []
    for table in _NAMED:
        names, rivals = _named(one, table), _named(other, table)
        for letter, here, there in (("A", names, rivals), ("B", rivals, names)):
            if alone := [name for name in here if name not in there]:
                lines.append(f"{table}: {', '.join(alone)} in {letter} alone")
        one[table], other[table] = ({n: of[n] for n in of if n in names and n in rivals} for of in (names, rivals))
    flat, rival = flatten(one), flatten(other)
    keys = dict.fromkeys([*flat, *rival])
    differing = [key for key in keys if _said(flat, key) != _said(rival, key)]
    return lines + [f"{key}: {_said(flat, key)} against {_said(rival, key)}" for key in differing]


def first_few(lines: Sequence[str], all_of_them: str) -> list[str]:
    """At most MOST_LISTED lines, and how many more there are; `all_of_them` says where."""
    if len(lines) <= MOST_LISTED + 1:
        return list(lines)
    return [*lines[:MOST_LISTED], f"and {len(lines) - MOST_LISTED} more; {all_of_them}"]


def _named(scenario: dict[str, Any], table: str) -> dict[str, Any]:
    """The entries of a table by their names, which are its keys or in its items."""
    found = scenario.get(table, {})
    if isinstance(found, dict):
        return found
    return {str(entry.get("name", place)): entry for place, entry in enumerate(found) if isinstance(entry, dict)}


def _said(flat: dict[str, Any], key: str) -> str:
    return json.dumps(flat[key], ensure_ascii=False) if key in flat else "not set"


def _scenario(result: Result) -> dict[str, Any] | None:
    text = scenario_text(result.folder) if result.folder else None
    if text is None:
        return None
    try:
        scenario = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OutputError(f"{result.folder}/{SCENARIO} is damaged: {error}", AGAIN) from None
    return {key: value for key, value in scenario.items() if not key.startswith("published")}


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf of a scenario by its dotted key; tables of an array go by their `name`, else by their place."""
    if isinstance(value, dict):
        children = [(str(key), child) for key, child in value.items()]
    elif isinstance(value, list) and value and all(isinstance(child, dict) for child in value):
        children = [(str(child.get("name", place)), child) for place, child in enumerate(value)]
    else:
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, child in children:
        leaves |= flatten(child, f"{path}.{key}" if path else key)
    return leaves
