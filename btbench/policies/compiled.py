"""Policies of one's own as compiled functions: what they remember, and a look at them before a replay is compiled.

The function becomes part of the replay kernel, where a mistake in it would be reported as pages on that kernel. So it
is compiled by itself first, and what Numba says is cut down to the line that matters.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core import ir

from btbench.errors import PolicyError
from btbench.jit import compiled_kernels
from btbench.policies.registry import Policy
from btbench.policies.view import ClusterView, CopyOrders, Draws

_SIGNATURE = "It is route(view, i, memory, draws, orders) and returns a replica; --debug shows all that Numba says."


def new_own_memory(policy: Policy, view: ClusterView, default: Callable[[ClusterView], Any]) -> Any:
    """What `new_memory(view)` of the function's module makes, or the default where there is none of that name."""
    function = getattr(policy.custom, "py_func", policy.custom)
    try:
        return function.__globals__.get("new_memory", default)(view)
    except Exception as error:
        raise PolicyError(f"policy {policy.name!r}: new_memory: {type(error).__name__}: {error}") from error


def check_compiles(policy: Policy, view: ClusterView, memory: Any, draws: Draws, orders: CopyOrders) -> None:
    """Raises PolicyError where the function does not compile, or returns what is no replica."""
    if compiled_kernels(policy.custom) or not hasattr(policy.custom, "py_func"):  # the latter where nothing is compiled
        return
    try:
        types = tuple(numba.typeof(argument) for argument in (view, 0, memory, draws, orders))
        policy.custom.compile(types)
        returned = numba.types.unliteral(policy.custom.overloads[types].signature.return_type)
    except Exception as error:
        raise PolicyError(f"policy {policy.name!r} does not compile: {_gist(error)}", _SIGNATURE) from error
    if not isinstance(returned, numba.types.Integer):
        raise PolicyError(f"policy {policy.name!r} returns {returned}", _SIGNATURE)
    for line in _writes_to_view(types[0], policy.custom.overloads[types].type_annotation):
        raise PolicyError(f"policy {policy.name!r} writes to what it may only look at (line {line})", _SIGNATURE)


def _writes_to_view(view: Any, annotation: Any) -> Iterator[int]:
    """Lines that set a field of a record of the view, which Numba compiles although the array is read-only."""
    records = {array.dtype for array in view.types if isinstance(getattr(array, "dtype", None), numba.types.Record)}
    for block in annotation.blocks.values():
        for statement in block.body:
            is_write = isinstance(statement, ir.SetAttr | ir.SetItem | ir.StaticSetItem)
            if is_write and annotation.typemap[statement.target.name] in records:
                yield statement.loc.line


def _gist(error: Exception) -> str:
    """Numba's own reason, the first it gives, and the line it is about."""
    said = str(error)
    reason = re.search(r"Numba\w*Error: (.*)", said) or re.search(r"^(?!Failed in )(.+)", said, re.MULTILINE)
    text = re.sub(r"( of type \w+)\(.*", r"\1", reason.group(1)) if reason else said
    place = re.search(r'^File "(?:.*/)?(.*)", (line \d+):', said, re.MULTILINE)
    of_numba = isinstance(error, numba.core.errors.NumbaError)
    return ("" if of_numba else f"{type(error).__name__}: ") + text + (f" ({place[1]}, {place[2]})" if place else "")
