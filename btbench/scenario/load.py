"""Finds, reads and checks a scenario file, and applies what the command line changes of it."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from btbench.cluster.setup import Setup
from btbench.errors import ScenarioError, UsageError, nearest
from btbench.policies.plugins import is_plugin, load_plugin, plugin_names
from btbench.policies.registry import Policy
from btbench.scenario.lines import KeyPath
from btbench.scenario.policies import check_policies, resolve_policies
from btbench.scenario.problems import Problem, as_error, explain
from btbench.scenario.resolve import check_references, policy_name, resolve
from btbench.scenario.settings import Setting, check_differences, with_value
from btbench.scenario.tables import ScenarioTable
from btbench.scenario.toml import format_value
from btbench.scenario.value import Scenario
from btbench.trace_spec import TraceSpec

T = TypeVar("T")

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Overrides:
    """What the command line changes of a scenario; empty is no change."""

    trace: str | None = None  # another trace, whole: the scenario's windows and published values no longer apply
    setups: tuple[str, ...] = ()  # these alone: of the scenario, or the paper's six
    policies: tuple[str, ...] = ()  # these alone: of the scenario, or built in
    seed: int | None = None
    seeds: int | None = None
    reading: Mapping[str, str | int | bool] = field(default_factory=dict)  # keys of [trace]: how its file is read


def scenario_files() -> dict[str, Path]:
    """The built-in scenarios by name: packaged, or beside the package in a checkout."""
    packaged = _PACKAGE / "_scenarios"
    folder = packaged if packaged.is_dir() else _PACKAGE.parent / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_scenario(name_or_path: str | Path, overrides: Overrides | None = None) -> Scenario:
    """A built-in scenario by name, or a file. Raises ScenarioError, and UsageError where an override names nothing."""
    path = _find(name_or_path)
    table = parse(_read(path), str(path))
    scenario = resolve(table, path)
    return scenario if overrides is None else _override(scenario, overrides, resolve_policies(table.policy))


def load_variants(
    name_or_path: str | Path, settings: Sequence[Setting], overrides: Overrides
) -> list[tuple[tuple[Any, ...], Scenario]]:
    """The scenario with every combination of the values of some of its keys, the last key changing fastest.

    Raises ScenarioError, and UsageError where a key is given twice, or makes no difference to what is asked.
    """
    path = _find(name_or_path)
    text = _read(path)
    parse(text, str(path))
    for i, setting in enumerate(settings):
        if setting.path in [other.path for other in settings[:i]]:
            raise UsageError(f"--set {setting.key}: given twice", "List all its values in one --set.")
    variants = []
    for values in product(*(setting.values for setting in settings)):
        data = tomllib.loads(text)
        for setting, value in zip(settings, values, strict=True):
            data = with_value(data, setting, value)
        table, problems = check(data)
        if table is None:
            told = " ".join(f"--set {s.key}={format_value(v)}" for s, v in zip(settings, values, strict=True))
            raise ScenarioError(f"{told}: {problems[0]}", problems[0].hint or None)
        variants.append((values, _override(resolve(table, path), overrides, resolve_policies(table.policy))))
    check_differences(settings, variants)
    return variants


def parse(text: str, file: str) -> ScenarioTable:
    """A checked scenario file. Raises ScenarioError with every mistake found, each with its line."""
    try:
        table, problems = check(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{file}, {_syntax_error(str(error), text)}") from None
    except RecursionError:
        raise ScenarioError(f"{file}: tables or lists are nested too deeply", "A scenario has three levels.") from None
    if table is None:
        raise as_error(problems, file, text)
    return table


def check(data: dict[str, Any]) -> tuple[ScenarioTable | None, list[Problem]]:
    """The tables of a scenario file, checked; None where there are problems."""
    problems = list(_too_large(data))
    try:
        table = ScenarioTable.model_validate(data)
    except ValidationError as error:
        problems += explain(error, ScenarioTable, data)
    if isinstance(data.get("policy"), dict):
        problems += check_policies(data["policy"])
    problems = problems or check_references(table)
    return None if problems else table, problems


def _find(name_or_path: str | Path) -> Path:
    return scenario_files().get(str(name_or_path)) or Path(name_or_path)


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        hint = nearest(str(path), list(scenario_files()))
        raise ScenarioError(f"{path}: neither a built-in scenario nor a file", hint) from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"{path}, line {line}: not UTF-8 text", "A scenario is a TOML file.") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}", "A scenario is a TOML file.") from None


def _syntax_error(message: str, text: str) -> str:
    """`tomllib` puts the place last, "… (at line 3, column 5)"; a reader wants it first."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message, re.DOTALL)
    what, line, column = found.groups() if found else (message, None, None)
    place = f"line {line}, column {column}" if line else f"line {text.rstrip().count(chr(10)) + 1}"
    return f"{place}: not valid TOML: {what}"


def _too_large(data: Any, path: KeyPath = ()) -> Iterator[Problem]:
    """Integers beyond 64 bits, which TOML does not promise and compiled code does not hold."""
    if isinstance(data, int) and not -(2**63) <= data < 2**63:
        yield Problem(path, f" = {data} is not allowed", "Allowed: integers of 64 bits.")
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from _too_large(value, (*path, key))


def _override(scenario: Scenario, overrides: Overrides, known_policies: dict[str, Policy]) -> Scenario:
    setups, policies, baseline = scenario.setups, scenario.policies, scenario.baseline
    notes: list[str] = []
    if overrides.setups:
        setups = _pick(overrides.setups, {s.name: s for s in (*_paper_setups(), *setups)}, "setup")
    if overrides.policies:
        _check_names(overrides.policies)
        brought = [name for name in overrides.policies if name not in known_policies and is_plugin(name)]
        known_policies |= {name: load_plugin(name, Path()) for name in brought}
        known_policies |= {policy.spec: policy for policy in policies if policy.spec}
        policies = _pick(overrides.policies, known_policies, "policy")
    if baseline not in [policy.name for policy in policies]:
        notes.append(f"the baseline {baseline} is not among the policies; reductions are against {policies[0].name}")
        baseline = policies[0].name
    names = {setup.name for setup in setups}, {policy.name for policy in policies}
    scenario = replace(
        scenario,
        seed=scenario.seed if overrides.seed is None else overrides.seed,
        seeds=scenario.seeds if overrides.seeds is None else overrides.seeds,
        setups=setups,
        policies=policies,
        baseline=baseline,
        published=tuple(row for row in scenario.published if row.setup in names[0] and row.policy in names[1]),
        notes=tuple(notes),
    )
    if overrides.trace is not None:
        scenario = _with_trace(scenario, overrides.trace)
    return _with_reading(scenario, overrides.reading)


def _pick(wanted: tuple[str, ...], known: dict[str, T], noun: str) -> tuple[T, ...]:
    for name in wanted:
        if name not in known:
            names = [*known, *(plugin_names() if noun == "policy" else [])]
            raise UsageError(f"--{noun} {name}: no such {noun}", nearest(name, names))
    return tuple(known[name] for name in dict.fromkeys(wanted))


def _check_names(specs: Sequence[str]) -> None:
    """Raise UsageError where two different policies would stand under one name in the results."""
    seen: dict[str, str] = {}
    for spec in dict.fromkeys(specs):
        if (other := seen.setdefault(policy_name(spec), spec)) != spec:
            raise UsageError(
                f"--policy {spec}: {other} has the name {policy_name(spec)!r} too", "Each needs a name of its own."
            )


def _paper_setups() -> tuple[Setup, ...]:
    """The six setups of the published table, which can be named beside any scenario."""
    return load_scenario("paper").setups


def _with_trace(scenario: Scenario, source: str) -> Scenario:
    """The scenario asked of another trace: a question of its own, and so under the trace's name."""
    return replace(
        scenario,
        name=trace_stem(source),
        trace=TraceSpec(source=source),
        published=(),
        published_source="",
        folder=Path(),
    )


def _with_reading(scenario: Scenario, reading: Mapping[str, str | int | bool]) -> Scenario:
    if reading and scenario.trace.source == "generated":
        raise UsageError(
            f"{', '.join(reading)}: says how a file is read, but {scenario.name} generates its trace",
            "Name a trace with --trace, or change [trace.generator] of the scenario.",
        )
    return replace(scenario, trace=scenario.trace.model_copy(update=dict(reading)))


def trace_stem(source: str) -> str:
    """A trace's name as a folder may bear it: the file's without suffixes, "bursted-art-test", "owner-repo"."""
    if source == "-":
        return "stdin"
    name = source.removeprefix("hf:") if source.startswith("hf:") else Path(source).name
    stem = re.sub(r"(\.(jsonl|json|csv|parquet|gz|zst))+$", "", name)
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "trace"
