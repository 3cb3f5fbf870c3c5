"""Whether two results may be compared, and what differs between the scenarios they were made from."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from btbench.errors import OutputError
from btbench.results.files import SCENARIO, Result


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
    """The keys of the resolved scenarios that differ, with both values; empty where one of them is not at hand."""
    one, other = _scenario(a), _scenario(b)
    if one is None or other is None:
        return []
    keys = dict.fromkeys([*one, *other])
    return [
        f"{key}: {_said(one, key)} against {_said(other, key)}" for key in keys if _said(one, key) != _said(other, key)
    ]


def _said(flat: dict[str, Any], key: str) -> str:
    return json.dumps(flat[key], ensure_ascii=False) if key in flat else "not set"


def _scenario(result: Result) -> dict[str, Any] | None:
    file = result.folder / SCENARIO if result.folder else None
    if file is None or not file.is_file():
        return None
    try:
        return flatten(tomllib.loads(file.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OutputError(f"{file} is damaged: {error}", "Make the result again with `btbench replay`.") from None


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
