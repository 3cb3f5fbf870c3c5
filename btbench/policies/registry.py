"""Which policies there are. The order is the policy's number in the kernel chain of `router.route`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from btbench.policies.parameters import DEFAULT_PARAMETERS, Parameters


@dataclass(frozen=True)
class Kind:
    """A built-in policy."""

    name: str
    summary: str  # its rule in one line
    source: str  # where the rule is described
    parameters: tuple[str, ...] = ()  # fields of `Parameters` it reads


_PAPER = "JW Labs, Biting the Bullet (July 2026)"

KINDS = (
    Kind("least_load", "fewest requests in flight; random among equals", _PAPER),
    Kind(
        "cache_aware",
        "longest cached prefix, then fewest in flight; fewest in flight where the load is out of balance",
        f"{_PAPER}, after SGLang's router",
        ("cache_aware",),
    ),
    Kind(
        "btb",
        "copies a prefix seen X times within Z s to M replicas, then the least loaded holder; else cache_aware",
        f"{_PAPER}, published as early_rdma",
        ("btb", "cache_aware"),
    ),
    Kind("round_robin", "each replica in turn, the second one first", _PAPER),
    Kind("random", "any replica, uniformly", _PAPER),
)

NAMES = tuple(kind.name for kind in KINDS)


@dataclass(frozen=True)
class Policy:
    """A policy as a scenario names it: a kind with parameters."""

    name: str
    kind: str  # one of NAMES
    parameters: Parameters = DEFAULT_PARAMETERS
    prefix_tokens: int | None = None  # btb's Y in tokens, where the scenario gives it so

    @property
    def code(self) -> int:
        """The policy's number in the kernel chain."""
        return NAMES.index(self.kind)

    def for_blocks(self, block_tokens: int) -> Policy:
        """The same policy with Y in blocks of this trace: tokens rounded up to whole blocks."""
        if self.prefix_tokens is None:
            return self
        btb = self.parameters.btb._replace(prefix_blocks=ceil(self.prefix_tokens / block_tokens))
        return replace(self, parameters=self.parameters._replace(btb=btb))
