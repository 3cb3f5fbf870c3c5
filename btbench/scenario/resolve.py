"""From tables to a scenario: what one table says about another, names looked up, options of the command line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from btbench.cluster.gpus import GPUS, Gpu
from btbench.cluster.models import MODELS, Model
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.errors import nearest
from btbench.policies.plugins import is_plugin, load_plugin, plugin_names
from btbench.policies.registry import NAMES
from btbench.scenario.lines import KeyPath
from btbench.scenario.policies import resolve_policies
from btbench.scenario.problems import Problem
from btbench.scenario.tables import ReplicaTable, ScenarioTable, SetupTable
from btbench.scenario.value import PublishedRow, Scenario, equal_replicas


def check_references(table: ScenarioTable) -> list[Problem]:
    """Names that stand for nothing, and names that stand for two things."""
    models, gpus = [*MODELS, *table.models], [*GPUS, *table.gpus]
    policies = list(dict.fromkeys([*NAMES, *table.policy]))
    in_use = [*table.policies, *map(policy_name, table.policies)]
    others = [name for name in table.policies if name not in policies]
    own = [*(name for name in others if is_plugin(name)), *(plugin_names() if others else [])]
    setups = [setup.name for setup in table.setup]
    problems = [
        *_unknown(
            [(("policies", i), name) for i, name in enumerate(table.policies)],
            [*policies, *dict.fromkeys(own)],
            "policy",
        ),
        *_repeated([(("policies", i), policy_name(name)) for i, name in enumerate(table.policies)]),
        *_unknown([(("baseline",), table.baseline or table.policies[0])], in_use, "policy of this scenario"),
        *_repeated([(("setup", i, "name"), name) for i, name in enumerate(setups)]),
        *_shadowed("models", table.models, MODELS),
        *_shadowed("gpus", table.gpus, GPUS),
    ]
    for i, setup in enumerate(table.setup):
        cluster: list[tuple[KeyPath, ReplicaTable]]
        cluster = [(("setup", i, "cluster", k), replica) for k, replica in enumerate(setup.cluster or ())]
        named: list[tuple[KeyPath, str]] = [((*path, "gpu"), replica.gpu) for path, replica in cluster]
        named += [(("setup", i, "gpu"), setup.gpu)] if setup.gpu is not None else []
        problems += _unknown([(("setup", i, "model"), setup.model)], models, "model")
        problems += _unknown(named, gpus, "GPU")
        problems += _repeated([((*path, "name"), replica.name) for path, replica in cluster])
    rows = [(("published", i), row) for i, row in enumerate(table.published)]
    problems += _unknown([((*path, "setup"), row.setup) for path, row in rows], setups, "setup of this scenario")
    problems += _unknown([((*path, "policy"), row.policy) for path, row in rows], in_use, "policy of this scenario")
    problems += _repeated([(path, f"{row.setup}, {row.policy}, {row.part}") for path, row in rows])
    return problems


def policy_name(policy: str) -> str:
    """What a policy is called in the results: the user's class, where it is one."""
    return policy.rpartition(":")[2] if ".py:" in policy else policy


def _unknown(named: Iterable[tuple[KeyPath, str]], known: list[str], noun: str) -> list[Problem]:
    return [
        Problem(path, f" = {name!r}: no such {noun}", nearest(name, known)) for path, name in named if name not in known
    ]


def _repeated(named: Iterable[tuple[KeyPath, str]]) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for path, name in named:
        if name in seen:
            problems.append(Problem(path, f": {name!r} stands here twice", "Each needs a name of its own."))
        seen.add(name)
    return problems


def _shadowed(key: str, own: dict[str, Any], built_in: dict[str, Any]) -> list[Problem]:
    hint = "Give yours another name, so that results cannot be taken for the built-in one's."
    return [Problem((key, name), ": this name is built in", hint) for name in own if name in built_in]


def resolve(table: ScenarioTable, path: Path) -> Scenario:
    """The scenario that a checked file describes."""
    built_in = resolve_policies(table.policy)
    policies = [built_in.get(name) or load_plugin(name, path.parent) for name in table.policies]
    models = MODELS | {name: Model(name, **model.model_dump()) for name, model in table.models.items()}
    gpus = GPUS | {name: Gpu(name, **gpu.model_dump()) for name, gpu in table.gpus.items()}
    return Scenario(
        name=table.name or path.stem,
        seed=table.seed,
        seeds=table.seeds,
        policies=tuple(policies),
        baseline=policy_name(table.baseline or table.policies[0]),
        trace=table.trace,
        options=ServingOptions(**table.engine.model_dump(), **table.router.model_dump()),
        setups=tuple(_setup(setup, models, gpus) for setup in table.setup),
        published=tuple(PublishedRow(**row.model_dump()) for row in table.published),
        published_source=table.published_source or "",
        path=path,
        folder=path.parent,
    )


def _setup(table: SetupTable, models: dict[str, Model], gpus: dict[str, Gpu]) -> Setup:
    if table.cluster is not None:
        replicas = tuple(Replica(entry.name, gpus[entry.gpu], entry.gpus) for entry in table.cluster)
    else:
        assert table.gpu and table.gpus_per_replica and table.replicas  # the table's own check
        replicas = equal_replicas(Replica("", gpus[table.gpu], table.gpus_per_replica), table.replicas)
    return Setup(table.name, models[table.model], replicas)
