"""The one decorator for compiled kernels, and where their machine code is kept.

Numba keys its disk cache by the file of the cached function alone, so editing a helper in another file
would leave the old code running, silently; and it would load unchecked code under NUMBA_BOUNDSCHECK=1. The
cache folder is therefore named by a digest of every source file that takes part in kernels, the Numba and NumPy
versions, and whether indices are checked. Constants that kernels read must live in a file that imports this module.
"""

import ctypes
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import extending, types
from numba.core import config as numba_config

from btbench.paths import cache_root

PACKAGE = Path(__file__).parent


def kernel_sources() -> list[Path]:
    """Every source file of the package that defines kernels or constants for them, sorted."""
    return sorted(p for p in PACKAGE.rglob("*.py") if b"btbench.jit" in p.read_bytes() or p.name == "jit.py")


def sources_digest() -> str:
    """Digest that names the kernel cache folder: sources, Numba and NumPy versions, whether indices are checked."""
    checked = numba_config.BOUNDSCHECK  # type: ignore[attr-defined]
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__} {checked}".encode())
    for path in kernel_sources():
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


_OF_THIS_PROCESS = tempfile.TemporaryDirectory(prefix="btbench-kernels-", ignore_cleanup_errors=True)


def _cache_folder() -> Path:
    folder = cache_root() / "kernels" / sources_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:  # a read-only home: compile for this process alone
        return Path(_OF_THIS_PROCESS.name)
    return folder


JIT_IS_ON = not numba_config.DISABLE_JIT  # type: ignore[attr-defined]
CACHE_FOLDER = _cache_folder()
numba_config.CACHE_DIR = str(CACHE_FOLDER)  # type: ignore[attr-defined]


def is_compiled(name: str = "replay_requests") -> bool:
    """Whether this machine already holds the compiled kernel of that name (else its first use compiles)."""
    return any(CACHE_FOLDER.rglob(f"*.{name}-*.nbi"))


def compiled_kernels(function: Any) -> int:
    """How many versions of a kernel, by type, this process has compiled or loaded."""
    return len(getattr(function, "signatures", ()))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be written to; kernels are compiled by type, which this is part of: one way, one kernel."""
    view = np.asarray(array).view()
    view.setflags(write=False)
    return view


def _forgiving(kernel: Any) -> Any:
    """The same kernel, which is compiled again where its file in the cache is damaged, instead of failing for good."""
    cache = getattr(kernel, "_cache", None)
    if cache is None:  # not compiled at all
        return kernel
    load = cache.load_overload

    def load_or_nothing(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:
            cache.flush()
            return None

    cache.load_overload = load_or_nothing
    return kernel


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function to machine code that runs without the interpreter lock; kept on disk."""
    return _forgiving(numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def lean_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that makes no arrays of its own, compiled without reference counts (they cost it ten times its work)."""
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
    return _forgiving(numba.njit(**options)(function))


def uncached(kernel: Any) -> Any:
    """A lean kernel that is compiled anew in each process: one that a function of the user's becomes part of."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
    return numba.njit(**options)(getattr(kernel, "py_func", kernel))


# Of what only becomes part of kernels: no entries from Python and C, which would take a third of the compile time.
_STEP: Any = {
    "nogil": True,
    "error_model": "numpy",
    "forceinline": True,
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def inlined(function: Callable[..., Any]) -> Any:
    """A step of a kernel: compiled into every kernel that calls it, so that bundles of arrays cost nothing to pass.

    A literal is a type of its own to Numba, and a step is compiled again for it: hand over np.int64(0) rather than 0.
    """
    return numba.njit(**_STEP)(function)


def choose_by_types(function: Callable[..., Any]) -> Any:
    """Decorator of a chooser: given the types of its arguments, it returns the body compiled in place of `function`."""
    return extending.overload(function, jit_options=_STEP, strict=False)


@extending.intrinsic
def _call_compiled(typing_context, address, argument):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        word = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word]).as_pointer())
        return builder.call(function, [arguments[1]])

    return types.int64(types.int64, types.int64), generate


def call_address(address, argument):  # type: ignore[no-untyped-def]
    """Call the C function at an address: one 64-bit integer in, one out.

    An address is data, so a kernel that calls back stays in the disk cache; a function as an argument would not.
    """
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(argument)


@choose_by_types(call_address)
def _call_address(address, argument):  # type: ignore[no-untyped-def]
    def compiled(address, argument):  # type: ignore[no-untyped-def]
        return _call_compiled(address, argument)

    return compiled
