"""Conformance cases: a scenario, a trace and the right answer for every request, read with the standard library."""

import gzip
import json
import os
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import naive

from btbench.cluster.gpus import GPUS, Gpu
from btbench.cluster.models import MODELS, Model
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.policies.parameters import BtbParameters, CacheAwareParameters, Parameters

GOLDEN = Path(__file__).parent / "golden"


def folder_of(variable: str) -> Path | None:
    """The folder an environment variable points to, where it is set."""
    value = os.environ.get(variable)
    return Path(value) if value else None


@dataclass(frozen=True)
class Case:
    """One scenario file with its trace, as plain values."""

    block_tokens: int
    seed: int
    policies: tuple[str, ...]
    setups: tuple[Setup, ...]
    options: ServingOptions
    parameters: Parameters
    windows: dict[str, list[naive.Request]]  # by id, in arrival order


def read_case(folder: Path) -> Case:
    """Read `scenario.toml` of a folder and the trace it names."""
    scenario = tomllib.loads((folder / "scenario.toml").read_text())
    models = MODELS | {name: Model(name, **table) for name, table in scenario.get("models", {}).items()}
    gpus = GPUS | {name: Gpu(name, **table) for name, table in scenario.get("gpus", {}).items()}
    rules = scenario["policy"]
    windows = scenario["trace"].get("windows", {})
    return Case(
        block_tokens=scenario["trace"]["block_tokens"],
        seed=scenario["seed"],
        policies=tuple(scenario["policies"]),
        setups=tuple(_setup(table, models, gpus) for table in scenario["setup"]),
        options=ServingOptions(**scenario["engine"]),
        parameters=Parameters(CacheAwareParameters(**rules["cache_aware"]), BtbParameters(**rules["btb"])),
        windows=read_rows(folder / scenario["trace"]["source"], windows.get("by")),
    )


def _setup(table: dict, models: dict[str, Model], gpus: dict[str, Gpu]) -> Setup:
    if "cluster" in table:
        replicas = tuple(Replica(r["name"], gpus[r["gpu"]], r["gpus"]) for r in table["cluster"])
    else:
        gpu, count = gpus[table["gpu"]], table["gpus_per_replica"]
        replicas = tuple(Replica(f"node{i}", gpu, count) for i in range(table["replicas"]))
    return Setup(table["name"], models[table["model"]], replicas)


def read_rows(path: Path, window_key: str | None = None) -> dict[str, list[naive.Request]]:
    """Requests of each window, in arrival order."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    windows: dict[str, list[naive.Request]] = defaultdict(list)
    for line in data.splitlines():
        row = json.loads(line)
        request = naive.Request(
            row["arrival_s"],
            max(1, row["input_length"]),
            max(1, row["output_length"]),
            tuple(row["hash_ids"]),
        )
        windows[str(row[window_key]) if window_key else "0"].append(request)
    return {name: sorted(requests, key=lambda r: r.arrival_s) for name, requests in windows.items()}
