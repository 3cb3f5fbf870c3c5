"""Scenario: what is to be replayed, with every name looked up and every default filled in."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.policies.registry import Policy
from btbench.scenario.policies import policy_tables
from btbench.scenario.toml import format_document
from btbench.trace_spec import TraceSpec


@dataclass(frozen=True)
class PublishedRow:
    """Values somebody else found for one setup, policy and part of the trace, in seconds."""

    setup: str
    policy: str
    part: str
    mean_ttft_s: float
    p95_ttft_s: float | None = None


@dataclass(frozen=True)
class Scenario:
    """A question to the cluster model. Two are equal where they ask the same, whatever file they stand in."""

    name: str
    seed: int
    policies: tuple[Policy, ...]
    baseline: str  # reductions are against this one of the policies
    trace: TraceSpec
    options: ServingOptions
    setups: tuple[Setup, ...]
    published: tuple[PublishedRow, ...] = ()
    published_source: str = ""
    seeds: int = 1  # how many seeds, from `seed` on, every window is replayed with; the first is the result
    path: Path | None = field(default=None, compare=False)  # the file
    folder: Path = field(default=Path(), compare=False)  # where a relative path of the trace starts
    notes: tuple[str, ...] = field(default=(), compare=False)  # what a user should know of how options changed it

    @property
    def every_seed(self) -> range:
        """Those every window is replayed with; the result is of the first."""
        return range(self.seed, self.seed + self.seeds)

    def to_toml(self, folder: Path | None = None) -> str:
        """The scenario as a file that loads to the same value; `folder` is where that file is to stand."""
        options = asdict(self.options)
        document: dict[str, Any] = {
            "name": self.name,
            "seed": self.seed,
            "seeds": self.seeds,
            "policies": [policy.spec or policy.name for policy in self.policies],
            "baseline": self.baseline,
            "published_source": self.published_source,
            "trace": _trace_table(self.trace, self.folder, folder or self.folder),
            "engine": {key: value for key, value in options.items() if not key.startswith("signal_")},
            "router": {key: value for key, value in options.items() if key.startswith("signal_")},
            "policy": policy_tables(self.policies),
            "setup": [_setup_table(setup) for setup in self.setups],
            "models": _own({setup.model.name: setup.model for setup in self.setups}, MODELS),
            "gpus": _own({r.gpu.name: r.gpu for setup in self.setups for r in setup.replicas}, GPUS),
            "published": [_without_none(asdict(row)) for row in self.published],
        }
        return format_document({key: value for key, value in document.items() if value not in ("", {}, [])})


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _trace_table(trace: TraceSpec, start: Path, folder: Path) -> dict[str, Any]:
    table = trace.model_dump(exclude_none=True)
    source = start / trace.source
    if not Path(trace.source).is_absolute() and source.exists():
        table["source"] = Path(os.path.relpath(source.resolve(), folder.resolve())).as_posix()
    return table


def _setup_table(setup: Setup) -> dict[str, Any]:
    table: dict[str, Any] = {"name": setup.name, "model": setup.model.name}
    first = setup.replicas[0]
    if setup.replicas == equal_replicas(first, len(setup.replicas)):
        return table | {"gpu": first.gpu.name, "gpus_per_replica": first.gpus, "replicas": len(setup.replicas)}
    return table | {"cluster": [{"name": r.name, "gpu": r.gpu.name, "gpus": r.gpus} for r in setup.replicas]}


def equal_replicas(replica: Replica, count: int) -> tuple[Replica, ...]:
    """`count` replicas like this one, named node0, node1, …"""
    return tuple(Replica(f"node{i}", replica.gpu, replica.gpus) for i in range(count))


def _own(used: dict[str, Any], built_in: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Tables of those that are not built in."""
    tables = {name: asdict(item) for name, item in used.items() if name not in built_in}
    for table in tables.values():
        del table["name"]
    return tables
