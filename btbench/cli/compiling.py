"""What is said of compiling the engine, which happens once on a machine."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from btbench.policies.registry import Policy
    from btbench.progress import Progress


def announce_compiling(tell: Callable[[str], None], progress: "Progress", policies: Sequence["Policy"]) -> None:
    """Say why a replay takes its time, where kernels are to be compiled for these policies."""
    from btbench import jit

    own = [policy for policy in policies if policy.is_compiled_plugin]
    routers = [p for p in policies if p.custom is None and not all(kind.is_papers for kind in p.kinds())]
    if not jit.is_compiled():
        tell("the first replay on this machine compiles the engine, once; that takes up to a minute")
        progress("compiling the engine, once on this machine", 0, 0)
    elif routers and not _routers_marker().exists():
        tell(f"the first replay of {routers[0].name} or its like compiles the engine for them, once")
        progress("compiling the engine, once on this machine", 0, 0)
    if own:
        names = ", ".join(policy.name for policy in own)
        tell(f"compiling the policy {names} with the engine, at every start; that takes up to half a minute")


def remember_compiled(policies: Sequence["Policy"]) -> None:
    """After a replay: the engine is compiled for the built-in policies that have kernels of their own, if replayed."""
    if any(policy.custom is None and not all(kind.is_papers for kind in policy.kinds()) for policy in policies):
        with suppress(OSError):
            _routers_marker().touch()


def _routers_marker() -> Path:
    """A file in the folder of the kernels, since they do not tell for which policies they were compiled."""
    from btbench import jit

    return jit.CACHE_FOLDER / "routers.compiled"
