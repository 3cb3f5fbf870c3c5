"""Provenance: what a result was made from, as `provenance.json` keeps it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import msgspec

from btbench.cluster.setup import Setup
from btbench.trace import Trace

PACKAGES = ("btbench", "numba", "numpy", "polars")


class Published(msgspec.Struct, frozen=True):
    """A value somebody published for one setup, policy and part, to stand beside ours."""

    setup: str
    policy: str
    part: str
    mean_ttft_s: float
    p95_ttft_s: float | None = None


class TraceOrigin(msgspec.Struct, frozen=True):
    """Which requests were replayed."""

    name: str
    source: str  # as the user named it
    format: str
    digest: str  # of the content the trace was read from
    revision: str  # the commit of a Hub repository
    requests: int
    windows: int
    block_tokens: int


class ServedModel(msgspec.Struct, frozen=True):
    """What stood behind the name of a setup."""

    setup: str
    model: str
    replicas: int


class Provenance(msgspec.Struct, frozen=True):
    """Where a result comes from. Fields a file lacks are empty, so that results of other versions still load."""

    version: int = 1
    scenario: str = ""  # its name
    baseline: str = ""  # the policy reductions are against
    seed: int | None = None
    seeds: int = 1  # how many seeds, from this one on, the intervals are over
    command: str = ""  # the command line that made it
    trace: TraceOrigin | None = None
    setups: tuple[ServedModel, ...] = ()
    nothing_served: tuple[tuple[str, str, str], ...] = ()  # setup, policy and part that have no row: all turned away
    prefix_tokens: dict[str, int] = {}  # by btb policy: how long a prefix has to be for a copy, in this trace
    versions: dict[str, str] = {}
    machine: dict[str, str | int | None] = {}
    published_source: str = ""
    published: tuple[Published, ...] = ()


def describe_origin(trace: Trace) -> TraceOrigin:
    """The fields of a trace that tell which one it is."""
    return TraceOrigin(
        name=trace.name,
        source=trace.source,
        format=trace.format,
        digest=trace.digest,
        revision=trace.revision,
        requests=len(trace),
        windows=len(trace.windows),
        block_tokens=trace.block_tokens,
    )


def describe_setups(setups: Iterable[Setup]) -> tuple[ServedModel, ...]:
    """The model and the number of replicas of each setup."""
    return tuple(ServedModel(setup.name, setup.model.name, len(setup.replicas)) for setup in setups)


def package_versions() -> dict[str, str]:
    """Python and the packages that the numbers depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def this_machine() -> dict[str, str | int | None]:
    """System, processor and cores: what the speed, and nothing else of a result, depends on."""
    return {"system": f"{platform.system()} {platform.machine()}", "processor": _processor(), "cores": os.cpu_count()}


def _processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
