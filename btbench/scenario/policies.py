"""`[policy.*]`: parameters of the built-in policies, and variants of them under names of the user's own."""

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError, create_model
from typing_extensions import Doc

from btbench.errors import nearest
from btbench.policies.parameters import Parameters
from btbench.policies.plugins import RESERVED
from btbench.policies.registry import KINDS, NAMES, Kind, Policy
from btbench.scenario.problems import Problem, explain
from btbench.scenario.tables import Name
from btbench.scenario.words import Words, allowed
from btbench.trace_spec import Count, Strict

_NAME = TypeAdapter(Name)
_KINDS = {kind.name: kind for kind in KINDS}
RIVALS = {"prefix_blocks": "prefix_tokens", "prefix_tokens": "prefix_blocks"}  # two ways to say btb's Y


@cache
def policy_table(kind: Kind, is_variant: bool = False) -> type[Strict]:
    """The keys `[policy.<name>]` may hold for a policy of this kind: those parameters its kernel reads as its own."""
    keys: dict[str, Any] = {"base": (str, kind.name)} if is_variant else {}
    if kind.name in kind.parameters:
        own = get_type_hints(Parameters)[kind.name]
        hints = get_type_hints(own, include_extras=True)
        keys |= {key: (hints[key], default) for key, default in own._field_defaults.items()}
    if "fallback" in keys:
        others = tuple(name for name in NAMES if name != kind.name)
        words = Words(f"any built-in but {kind.name}")
        keys["fallback"] = (Annotated[Literal[others], words, *hints["fallback"].__metadata__], keys["fallback"][1])
    if "prefix_blocks" in keys:
        keys["prefix_tokens"] = (Annotated[Count | None, Doc("Y in tokens, in place of blocks")], None)
    return create_model(kind.name, __base__=Strict, **keys)


def check_policies(tables: dict[str, Any]) -> list[Problem]:
    """What is wrong with the `[policy.*]` tables."""
    problems: list[Problem] = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            continue  # the file's shape is checked elsewhere
        path = ("policy", name)
        if name in NAMES and "base" in table:
            problems.append(Problem((*path, "base"), f": {name} is built in", "base is for variants with other names."))
        elif name not in NAMES and "base" not in table:
            hint = f'{nearest(name, list(NAMES))} A variant under a name of your own says base = "…".'
            problems.append(Problem(path, ": no such policy", hint))
        elif name not in NAMES and (wrong := _check_name(name)):
            problems.append(Problem(path, *wrong))
        elif (base := table.get("base", name)) not in NAMES:
            hint = nearest(str(base), list(NAMES))
            problems.append(Problem((*path, "base"), f" = {base!r}: no such policy", hint))
        else:
            problems += _check_keys(path, table, policy_table(_KINDS[base], base != name))
    return problems


def _check_name(name: str) -> tuple[str, str] | None:
    """What is wrong with a variant's name, which stands in tables and charts, and what is allowed."""
    if name in RESERVED:
        return ": is the name of a bound, which has a line of its own in results", "Give the variant another name."
    try:
        _NAME.validate_python(name)
    except ValidationError:
        return " is no name for a variant", f"Allowed: {allowed(Name)}."
    return None


def _check_keys(path: tuple[str, str], table: dict[str, Any], keys: type[Strict]) -> list[Problem]:
    if keys.model_fields.keys() & table.keys() >= RIVALS.keys():
        text = ": the prefix is given twice"
        return [Problem((*path, "prefix_tokens"), text, "Keep one of prefix_blocks and prefix_tokens.")]
    try:
        keys.model_validate(table)
    except ValidationError as error:
        return explain(error, keys, table, path)
    return []


def resolve_policies(tables: dict[str, dict[str, Any]]) -> dict[str, Policy]:
    """Every policy that can be named beside these tables: all built-in ones, then the variants.

    A policy that falls back to another (btb to cache_aware) reads that one's table. A variant starts from its
    base's table. Parameters a policy does not read stay at their defaults.
    """
    bases = {name: str(table["base"]) for name, table in tables.items() if "base" in table}
    return {
        name: _policy(name, _KINDS[kind], tables) for name, kind in [*zip(NAMES, NAMES, strict=True), *bases.items()]
    }


def _policy(name: str, kind: Kind, tables: dict[str, dict[str, Any]]) -> Policy:
    own = _values(kind, tables.get(kind.name, {}))
    if name != kind.name:
        for key, value in _values(kind, tables[name]).items():
            own.pop(RIVALS.get(key, key), None)
            own[key] = value
    prefix_tokens = own.pop("prefix_tokens", None) if kind.name == "btb" else None
    parameters = _with(Parameters(), kind.name, own)
    for group in _groups(Policy(name, kind.name, parameters)):
        if group != kind.name:
            parameters = _with(parameters, group, _values(_KINDS[group], tables.get(group, {})))
    return Policy(name, kind.name, parameters, prefix_tokens)


def _groups(policy: Policy) -> list[str]:
    """The fields of `Parameters` that a policy reads: its own, and those of the policy it falls back to."""
    return list(dict.fromkeys(group for kind in policy.kinds() for group in kind.parameters))


def _with(parameters: Parameters, group: str, values: dict[str, Any]) -> Parameters:
    return parameters._replace(**{group: getattr(parameters, group)._replace(**values)}) if values else parameters


def _values(kind: Kind, table: dict[str, Any]) -> dict[str, Any]:
    """What a table sets, as numbers of the right type."""
    return policy_table(kind, "base" in table).model_validate(table).model_dump(exclude_unset=True, exclude={"base"})


def policy_tables(policies: Iterable[Policy]) -> dict[str, dict[str, Any]]:
    """The `[policy.*]` tables from which these policies resolve again."""
    tables: dict[str, dict[str, Any]] = {}
    for policy in policies:
        if policy.spec:  # the user's own, which has no table
            continue
        variant = {} if policy.name == policy.kind else {"base": policy.kind}
        tables |= {policy.name: variant} if variant else {}
        for group in _groups(policy):
            given = getattr(policy.parameters, group)._asdict()
            values = {key: value for key, value in given.items() if value is not None}  # None: not set
            if group != policy.kind:  # one it falls back to
                tables[group] = values
                continue
            if policy.prefix_tokens is not None:
                values["prefix_tokens"] = policy.prefix_tokens
                del values["prefix_blocks"]
            tables[policy.name] = variant | values
    return tables
