"""`[policy.*]`: parameters of the built-in policies, and variants of them under names of the user's own."""

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import TypeAdapter, ValidationError, create_model
from typing_extensions import Doc

from btbench.errors import nearest
from btbench.policies.parameters import Parameters
from btbench.policies.plugins import RESERVED, is_plugin
from btbench.policies.registry import KINDS, NAMES, Kind, Policy
from btbench.scenario.lines import KeyPath
from btbench.scenario.problems import Problem, explain
from btbench.scenario.tables import Name
from btbench.scenario.toml import format_value
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
    if "fallback" in keys:  # which ones there are depends on the file, see `_check_fallback`
        words = Words(f"any policy but {kind.name}")
        keys["fallback"] = (Annotated[str, words, *hints["fallback"].__metadata__], keys["fallback"][1])
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
            if base == "btb" and isinstance(table.get("fallback"), str):
                problems += _check_fallback((*path, "fallback"), table["fallback"], tables)
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


def _check_fallback(path: KeyPath, name: str, tables: dict[str, Any]) -> list[Problem]:
    """What is wrong with the policy that btb is to fall back to."""
    bases = {of: table.get("base", of) for of, table in tables.items() if isinstance(table, dict)}
    bases = {of: of for of in NAMES} | bases
    others = [other for other, base in bases.items() if base != "btb"]
    if name in others:
        return []
    if name not in bases and is_plugin(name):
        hint = f"A policy of your own cannot be a fallback. Allowed: {', '.join(others)}."
        return [Problem(path, f" = {format_value(name)} is not allowed", hint)]
    return [Problem(path, f" = {format_value(name)} is not allowed", nearest(name, others))]


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

    A policy that falls back to another (btb to cache_aware) reads that one's table, which may be a variant's. A
    variant starts from its base's table. Parameters a policy does not read stay at their defaults.
    """
    bases = {name: str(table["base"]) for name, table in tables.items() if "base" in table}
    return {
        name: _policy(name, _KINDS[kind], tables) for name, kind in [*zip(NAMES, NAMES, strict=True), *bases.items()]
    }


def _policy(name: str, kind: Kind, tables: dict[str, dict[str, Any]]) -> Policy:
    own = _own(name, kind, tables)
    fallback = str(own.get("fallback", ""))
    if "base" in tables.get(fallback, {}):  # kernels know no variants: the kind, with the variant's parameters
        own["fallback"] = str(tables[fallback]["base"])
    prefix_tokens = own.pop("prefix_tokens", None) if kind.name == "btb" else None
    parameters = _with(Parameters(), kind.name, own)
    for group in _groups(Policy(name, kind.name, parameters)):
        if group != kind.name:
            source = fallback if fallback in tables else group
            parameters = _with(parameters, group, _own(source, _KINDS[group], tables))
    return Policy(name, kind.name, parameters, prefix_tokens)


def _own(name: str, kind: Kind, tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the table of a policy's kind sets and, of a variant, its own table in place of that."""
    own = _values(kind, tables.get(kind.name, {}))
    if name != kind.name:
        for key, value in _values(kind, tables[name]).items():
            own.pop(RIVALS.get(key, key), None)
            own[key] = value
    return own


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
    built_in = [policy for policy in policies if not policy.spec]  # the user's own have no tables
    tables: dict[str, dict[str, Any]] = {}
    for policy in built_in:
        groups = _groups(policy)
        table: dict[str, Any] = {} if policy.name == policy.kind else {"base": policy.kind}
        if table or policy.kind in groups:
            tables[policy.name] = table
        for group in groups:
            given = getattr(policy.parameters, group)
            if group == policy.kind:
                table |= _set(given)
                if policy.prefix_tokens is not None:
                    table["prefix_tokens"] = policy.prefix_tokens
                    del table["prefix_blocks"]
            else:
                table["fallback"] = name = _fallback_name(group, policy, built_in)
                tables[name] = ({} if name == group else {"base": group}) | _set(given)
    return tables


def _set(group: Any) -> dict[str, Any]:
    """Parameters by name, without those that are not set: None."""
    return {key: value for key, value in group._asdict().items() if value is not None}


def _fallback_name(group: str, policy: Policy, others: list[Policy]) -> str:
    """What a policy falls back to: a kind, or a variant where that kind's table holds other parameters."""
    given = getattr(policy.parameters, group)
    names = {other.name for other in others}
    alike = [other.name for other in others if other.kind == group and getattr(other.parameters, group) == given]
    if alike:
        return group if group in alike else alike[0]
    readers = [getattr(other.parameters, group) for other in others if group in _groups(other)]
    unset = {key for reader in readers for key in reader._fields if key not in _set(reader)}  # a variant unsets nothing
    fitting = (reader for reader in readers if not unset & _set(reader).keys())
    if group not in names and given == next(fitting, None):
        return group
    name = f"{group} of {policy.name}"
    while name in names:
        name += "_"
    return name
