"""Which policies there are. The order is the policy's number in the kernel chain of `router.route`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, Literal, get_args, get_origin, get_type_hints

from btbench.policies.parameters import DEFAULT_PARAMETERS, Parameters


@dataclass(frozen=True)
class Kind:
    """A built-in policy."""

    name: str
    summary: str  # its rule in one line
    source: str  # where the rule is described
    parameters: tuple[str, ...] = ()  # fields of `Parameters` it reads
    moves_kv: bool = False  # whether it can order copies or transfers
    is_papers: bool = False  # whether it belongs to the paper's five, which are replayed exactly
    leaves_out: str = ""  # what the real one does that the replayed one does not
    counts_itself: bool = False  # whether its load is its own count of answers that have not ended, never a report


_PAPER = "JW Labs, Biting the Bullet (July 2026)"

KINDS = (
    Kind("least_load", "fewest requests in flight; random among equals", _PAPER, is_papers=True),
    Kind(
        "cache_aware",
        "longest cached prefix, then fewest in flight; fewest in flight where the load is out of balance",
        f"{_PAPER}, after SGLang's router",
        ("cache_aware",),
        is_papers=True,
    ),
    Kind(
        "btb",
        "copies a prefix seen X times within Z s to M replicas, then the least loaded holder; else cache_aware",
        f"{_PAPER}, published as early_rdma",
        ("btb",),
        moves_kv=True,
        is_papers=True,
    ),
    Kind("round_robin", "each replica in turn, the second one first", _PAPER, is_papers=True),
    Kind("random", "any replica, uniformly", _PAPER, is_papers=True),
    Kind(
        "power_of_two",
        "the less loaded of two drawn at random",
        "Mitzenmacher, The Power of Two Choices (2001)",
        leaves_out="nothing of the rule; load is the number of requests in flight, whatever their length",
    ),
    Kind(
        "sglang",
        "the remembered owner of the matched prefix; least loaded where little matches or the load is out of balance",
        "sgl-project/sglang, sgl-router 0.2.2, 0.2.4, 0.3.2",
        ("sglang",),
        leaves_out="a tree of characters (here of blocks; sub_block_match stands in for them), health checks, retries",
        counts_itself=True,
    ),
    Kind(
        "smg",
        "the least loaded holder of the matched prefix, unless it is far above the mean",
        "sgl-project, smg, August 2026",
        ("smg",),
        leaves_out="a tree of characters (here of blocks: text shorter than one never matches), health checks, retries",
        counts_itself=True,
    ),
    Kind(
        "prefix_hash",
        "the replica the prompt's beginning hashes to, while its load is within bounds; else the least loaded",
        "sgl-project, smg, August 2026, after Mirrokni et al. (2018)",
        ("prefix_hash",),
        leaves_out="hashing of tokens (here a draw for each prefix of whole blocks), replicas that come and go",
        counts_itself=True,
    ),
    Kind(
        "pull",
        "the least loaded, which fetches what another has cached where that beats prefilling it",
        'llm-d, "pull, don\'t recompute" (2026)',
        moves_kv=True,
        leaves_out="in its estimate, a busy link of the giver, and a shared disk that could serve instead",
    ),
    Kind(
        "dynamo",
        "fewest blocks to prefill, less those cached, and blocks in use",
        "ai-dynamo/dynamo, KV router 1.x (2026)",
        ("dynamo",),
        leaves_out="output blocks (optional), replicas marked busy, delay of cache events unless [router] sets one",
    ),
    Kind(
        "llm_d",
        "highest score of queue, KV cache and prefix sent there before",
        "llm-d, endpoint picker, defaults of its chart (2026)",
        ("llm_d",),
        leaves_out="that running sequences share blocks (each counts whole), and the cap on the blocks it matches",
    ),
    Kind(
        "mooncake",
        "smallest estimated TTFT; moves KV where a far longer match lies elsewhere",
        "Qin et al., Mooncake, FAST 2025, Algorithm 1",
        ("mooncake",),
        moves_kv=True,
        leaves_out="decoding instances (here replicas decode too, but queue estimates ignore it), loading from RAM",
    ),
    Kind(
        "preble",
        "the cheapest that has most of the prompt, or the cheapest of all where little is known; moves load apart",
        "Srivatsa et al., Preble, ICLR 2025, E2",
        ("preble",),
        leaves_out="two cost terms (own prefill, what it evicts), news of evictions, each replica's fair queue",
    ),
)

NAMES = tuple(kind.name for kind in KINDS)


@dataclass(frozen=True)
class Policy:
    """A policy as a scenario names it: a kind with parameters."""

    name: str
    kind: str  # one of NAMES, or "custom"
    parameters: Parameters = DEFAULT_PARAMETERS
    prefix_tokens: int | None = None  # btb's Y in tokens, where the scenario gives it so
    custom: Any = None  # of kind "custom": the user's class or compiled function
    spec: str = ""  # of kind "custom": how it was named

    @property
    def code(self) -> int:
        """The policy's number in the kernel chain; -1 for a custom one."""
        return -1 if self.custom is not None else NAMES.index(self.kind)

    @property
    def is_python(self) -> bool:
        """Whether it is a class of the user's."""
        return isinstance(self.custom, type)

    @property
    def is_compiled_plugin(self) -> bool:
        """Whether it is a compiled function of the user's."""
        return self.custom is not None and not self.is_python

    def kinds(self) -> list[Kind]:
        """Its kind, and for btb that of its fallback; none for a custom one."""
        if self.custom is not None:
            return []
        names = [self.kind, self.parameters.btb.fallback] if self.kind == "btb" else [self.kind]
        return [KINDS[NAMES.index(name)] for name in names]

    @property
    def counts_itself(self) -> bool:
        """Whether it knows the load without a report; with btb on top of it the two are one router."""
        return any(kind.counts_itself for kind in self.kinds())

    @property
    def moves_kv(self) -> bool:
        """Whether it can order copies or transfers."""
        return self.custom is not None or any(kind.moves_kv for kind in self.kinds())

    def kernel_parameters(self) -> Parameters:
        """Every number as the type its field says, since kernels are compiled by type; policies as their numbers."""
        return Parameters(*map(_typed, self.parameters))

    def for_blocks(self, block_tokens: int) -> Policy:
        """The same policy with Y in blocks of this trace: tokens rounded up to whole blocks."""
        if self.prefix_tokens is None:
            return self
        btb = self.parameters.btb._replace(prefix_blocks=ceil(self.prefix_tokens / block_tokens))
        return replace(self, parameters=self.parameters._replace(btb=btb))


_HINTS = {table: get_type_hints(table) for table in get_type_hints(Parameters).values()}


def _typed(table: Any) -> Any:
    hints = _HINTS[type(table)]
    return type(table)(*(_cast(hints[name], value) for name, value in zip(table._fields, table, strict=True)))


def _cast(hint: Any, value: Any) -> Any:
    if value is None:
        return inf  # no limit
    if get_origin(hint) is Literal:
        return get_args(hint).index(value)
    if hint is str:
        return NAMES.index(value)
    return hint(value) if isinstance(hint, type) else float(value)  # a limit: float | None
