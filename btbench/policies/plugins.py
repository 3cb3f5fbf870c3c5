"""Policies that users bring: `path/to/file.py:Name`, or a name of the entry-point group `btbench.policies`.

A class is a policy in plain Python (`btbench.policies.custom`). A function decorated with `btbench.jit.inlined` has the
signature of the built-in ones, `route(view, i, memory, draws, orders)`, and their speed; `new_memory(view)` in its
module makes what it remembers, by default a `PaperMemory`.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from btbench.errors import PolicyError, nearest
from btbench.jit import JIT_IS_ON
from btbench.policies.parameters import DEFAULT_PARAMETERS
from btbench.policies.registry import NAMES, Policy

GROUP = "btbench.policies"
RESERVED = ("floor",)  # lines of results that are no policy's


def is_plugin(name: str) -> bool:
    """Whether a policy's name says that a user brings it."""
    return ".py:" in name or name in _points()


def plugin_names() -> list[str]:
    """The policies that installed packages offer and that can be named; none of the packages is loaded."""
    return sorted(_points().keys() - {*NAMES, *RESERVED})


def _points() -> dict[str, EntryPoint]:
    """What installed packages offer, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


class Offer(NamedTuple):
    """A policy of an installed package."""

    name: str
    package: str  # and its version
    where: str  # module:attribute
    kind: str  # Python class, compiled function; or why it cannot be had
    summary: str  # the first line of what its author says of it


def offers() -> list[Offer]:
    """What installed packages offer, for which they are loaded."""
    points = _points()
    return [_offer(points[name]) for name in plugin_names()]


def _offer(point: EntryPoint) -> Offer:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else ""
    try:
        policy = load_plugin(point.name, Path())
    except PolicyError as error:
        return Offer(point.name, package, point.value, "cannot be loaded", error.message)
    text = getattr(policy.custom, "__doc__", None) or ""
    kind = "Python class" if policy.is_python else "compiled function"
    return Offer(point.name, package, point.value, kind, text.strip().partition("\n")[0])


def load_plugin(name: str, folder: Path) -> Policy:
    """The policy named; a relative path starts at `folder`. Raises PolicyError where there is none to be had."""
    if ".py:" in name:
        path, _, attribute = name.rpartition(":")
        file = (folder / path).resolve()
        return _policy(attribute, _attribute(_module(file), attribute, path), f"{file}:{attribute}")
    points = _points()
    if name not in points:
        raise PolicyError(f"no such policy: {name!r}", nearest(name, [*NAMES, *plugin_names()]))
    try:
        found = points[name].load()
    except (Exception, SystemExit) as error:
        raise PolicyError(f"policy {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    return _policy(name, found, name)


_LOADED: dict[Path, tuple[bytes, ModuleType]] = {}  # by file: what it held, and what that made


def _module(path: Path) -> ModuleType:
    """What a file makes; loaded once in a process while it stays as it is, so that a policy stays the same object."""
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "A policy of your own is named path/to/file.py:Name."
        raise PolicyError(f"{path}: {'cannot be read' if path.exists() else 'no such file'}", hint) from error
    if path not in _LOADED or _LOADED[path][0] != content:
        _LOADED[path] = content, _new_module(path)
    return _LOADED[path][1]


def _new_module(path: Path) -> ModuleType:
    name = f"btbench_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PolicyError(f"{path}: {type(error).__name__}: {error}", "The file must import without errors.") from error
    return module


def _attribute(module: ModuleType, name: str, path: str) -> Any:
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise PolicyError(f"{path} has no {name!r}", nearest(name, public))
    return getattr(module, name)


def _policy(name: str, found: Any, spec: str) -> Policy:
    is_class = isinstance(found, type)
    is_compiled = hasattr(found, "py_func") or (callable(found) and not JIT_IS_ON)
    if not (hasattr(found, "route") if is_class else is_compiled):
        raise PolicyError(
            f"policy {spec!r} is no policy: {found!r}",
            "Allowed: a class with route(request, cluster), or a function decorated with btbench.jit.inlined.",
        )
    if name in NAMES:
        raise PolicyError(f"policy {spec!r}: {name} is the name of a built-in policy", "Give it another name.")
    if name in RESERVED:
        raise PolicyError(
            f"policy {spec!r}: {name} is the name of a bound, which has a line of its own in results",
            "Give it another name.",
        )
    parameters = DEFAULT_PARAMETERS
    prefix_blocks = getattr(found, "prefix_blocks", None)  # what its copies are made of
    if prefix_blocks is not None:
        if type(prefix_blocks) is not int or not 1 <= prefix_blocks < 2**31:
            raise PolicyError(
                f"policy {spec!r}: prefix_blocks = {prefix_blocks!r}", "Allowed: an integer from 1 to 2^31."
            )
        parameters = parameters._replace(btb=parameters.btb._replace(prefix_blocks=prefix_blocks))
    return replace(Policy(name, "custom", parameters), custom=found, spec=spec)
