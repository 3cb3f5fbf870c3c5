"""Policies of one's own as compiled functions: what they remember, and a look at them before a replay is compiled.

The function becomes part of the replay kernel, where a mistake in it would be reported as pages on that kernel. So it
is compiled by itself first, and what Numba says is cut down to the line that matters.
"""

import re
import traceback
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import ir

from btbench.errors import PolicyError
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
    """Raises PolicyError where the function does not compile, returns what is no replica, or writes to the view."""
    function = policy.custom
    if not hasattr(function, "py_func"):  # nothing is compiled
        return
    types = tuple(numba.typeof(argument) for argument in (view, 0, memory, draws, orders))
    if (function, types) in _FOUND_RIGHT:
        return
    try:
        function.compile(types)
        returned = numba.types.unliteral(function.overloads[types].signature.return_type)
    except Exception as error:
        raise _not_compiled(policy, error) from error
    if not isinstance(returned, numba.types.Integer):
        raise PolicyError(f"policy {policy.name!r} returns {returned}", _SIGNATURE)
    arrays = [array for array in types[0].types if isinstance(array, numba.types.Array)]
    records = {array.dtype for array in arrays if isinstance(array.dtype, numba.types.Record)}
    for place in _writes(function, types, records, set()):
        raise PolicyError(f"policy {policy.name!r} writes to what it may only look at ({place})", _SIGNATURE)
    _FOUND_RIGHT.add((function, types))


_FOUND_RIGHT: set[tuple[Any, Any]] = set()  # functions, with the types of their arguments


def _writes(function: Any, types: Any, records: Set[Any], seen: set[tuple[Any, Any]]) -> Iterator[str]:
    """Lines of a function, and of all that it calls, which write to what Numba should keep read-only but does not.

    That are fields of records, though their array is read-only, `array.flat`, and what `np.nditer` goes over.
    """
    seen.add((function, types))
    annotation = _annotation(function, types)
    of, calls = annotation.typemap, annotation.calltypes
    for block in annotation.blocks.values():
        for statement in block.body:
            value = getattr(statement, "value", None)
            if isinstance(statement, ir.SetAttr | ir.SetItem | ir.StaticSetItem):
                target = of[statement.target.name]
                is_write = target in records or _is_flat(target)
            elif isinstance(value, ir.Expr) and value.op == "call":
                called, given = of[value.func.name], calls[value].args
                is_write = getattr(called, "typing_key", None) is np.nditer and any(map(_is_read_only, given))
                if isinstance(called, numba.types.Dispatcher) and (called.dispatcher, given) not in seen:
                    yield from _writes(called.dispatcher, given, records, seen)
            else:
                is_write = False
            if is_write:
                yield f"{Path(statement.loc.filename).name}, line {statement.loc.line}"


def _is_read_only(of: Any) -> bool:
    return isinstance(of, numba.types.Array) and not of.mutable


def _is_flat(of: Any) -> bool:
    return isinstance(of, numba.types.NumpyFlatType) and _is_read_only(of.array_type)


def _annotation(function: Any, types: Any) -> Any:
    """A compiled function as Numba understood it; where it came from the disk, compiled once more to know."""
    compiled = function.overloads.get(types)
    if compiled is None or isinstance(compiled.type_annotation, str):
        function = numba.njit(nogil=True, error_model="numpy")(function.py_func)
        function.compile(types)
        compiled = function.overloads[types]
    return compiled.type_annotation


def _not_compiled(policy: Policy, error: Exception) -> PolicyError:
    """Numba's own reason, the first it gives, and the line of the user's that it is about."""
    said, place = str(error), _place(error)
    where = f" ({place})" if place else ""
    if re.search("NRT required but not enabled|Only accept returning of array passed into", said):
        return PolicyError(
            f"policy {policy.name!r} does not compile: makes an array, a list, text or the like{where}",
            "A compiled policy makes nothing while it routes: make arrays once, in new_memory(view), and write to "
            "them. --debug shows all that Numba says.",
        )
    reason = re.search(r"Numba\w*Error: (.*)", said) or re.search(r"^(?!Failed in )(.+)", said, re.MULTILINE)
    text = re.sub(r"( of type \w+)\(.*", r"\1", reason.group(1)) if reason else said
    kind = "" if isinstance(error, numba.core.errors.NumbaError) else f"{type(error).__name__}: "
    return PolicyError(f"policy {policy.name!r} does not compile: {kind}{text}{where}", _SIGNATURE)


def _place(error: Exception) -> str:
    """The innermost line outside Numba that an error is about, as it says itself, or as its traceback knows."""
    found = re.findall(r'(?:^ *File "| at )([^"\n]+?)(?:", line | \()(\d+)', str(error), re.MULTILINE)
    places = [(Path(path), int(line)) for path, line in found]
    lowered = (getattr(f.f_locals.get("inst"), "loc", None) for f, _ in traceback.walk_tb(error.__traceback__))
    places += [(Path(loc.filename), loc.line) for loc in lowered if isinstance(loc, ir.Loc)][::-1]
    of_numba = Path(numba.__file__).parent
    outside = (f"{path.name}, line {line}" for path, line in places if of_numba not in path.resolve().parents)
    return next(outside, "")
