"""The parameters of every policy: name, type, allowed range, meaning and default, each read by exactly one kernel.

A scenario's `[policy.<name>]` table holds these keys. Ranges and meanings stand as marks: the scenario reader
enforces the ones, and `btbench list policies` prints both.
"""

from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc


class CacheAwareParameters(NamedTuple):
    """Thresholds of the imbalance test (SGLang's scheme)."""

    balance_abs_threshold: Annotated[float, Ge(0), Doc("requests in flight on the fullest replica")] = 64.0
    balance_rel_threshold: Annotated[float, Ge(0), Doc("ratio of fullest to emptiest replica")] = 1.5


class BtbParameters(NamedTuple):
    """When a prefix counts as a burst, and how far it is copied (X, Y, Z, M of the paper)."""

    threshold: Annotated[int, Ge(1), Doc("X: requests that make a burst")] = 2
    prefix_blocks: Annotated[int, Ge(1), Doc("Y: blocks of the prefix they share")] = 256
    window_s: Annotated[float, Ge(0), Doc("Z: seconds within which they come")] = 1.0
    copies: Annotated[int, Ge(1), Doc("M: replicas to hold that prefix")] = 4
    fallback: Annotated[str, Doc("the policy that routes all else, and bursts nobody holds yet")] = "cache_aware"


class SglangParameters(NamedTuple):
    """When a match counts, when the load does, and how large the router's tree may grow (SGLang's router)."""

    version: Annotated[Literal["0.2.2", "0.2.4", "0.3.2"], Doc("the router's rules as of this release")] = "0.3.2"
    cache_threshold: Annotated[float, Ge(0), Doc("a match counts above this share of the input")] = 0.3
    balance_abs_threshold: Annotated[float, Ge(0), Doc("requests in flight, fullest less emptiest replica")] = 64.0
    balance_rel_threshold: Annotated[float, Ge(0), Doc("ratio of fullest to emptiest replica")] = 1.5
    eviction_interval_s: Annotated[float, Gt(0), Doc("seconds between evictions")] = 60.0
    max_tree_tokens: Annotated[float, Ge(0), Doc("tokens kept of each replica: 2^26 characters at 4 a token")] = 16.8e6
    sub_block_match: Annotated[float, Ge(0), Le(1), Doc("how often a walk slips into a child by one character")] = 0.0


class SmgParameters(NamedTuple):
    """When a match counts, when a holder is too busy, and how large the router's tree may grow."""

    cache_threshold: Annotated[float, Ge(0), Doc("a match counts above this share of the input")] = 0.3
    balance_abs_threshold: Annotated[float, Ge(0), Doc("requests in flight above the mean")] = 64.0
    balance_rel_threshold: Annotated[float, Ge(0), Doc("ratio of the replica's to the mean")] = 1.5
    max_tree_tokens: Annotated[float, Ge(0), Doc("tokens kept in all")] = 16.8e6


class PrefixHashParameters(NamedTuple):
    """What is hashed, onto what, and how busy a replica may be to keep what hashes to it."""

    prefix_tokens: Annotated[int, Ge(1), Doc("tokens from the start that are hashed, rounded up to blocks")] = 256
    ring_points: Annotated[int, Ge(1), Doc("points of each replica on the ring")] = 150
    load_factor: Annotated[float, Ge(0), Doc("load of a replica over the mean that it may have")] = 1.25


class DynamoParameters(NamedTuple):
    """What cached blocks are worth, and what prefill is against decode."""

    overlap_credit: Annotated[float, Ge(0), Doc("prefill blocks saved by a cached block in HBM")] = 1.0
    host_credit: Annotated[float, Ge(0), Doc("the same, in RAM")] = 0.75
    disk_credit: Annotated[float, Ge(0), Doc("the same, on the shared disk alone")] = 0.25
    prefill_load_scale: Annotated[float, Ge(0), Doc("weight of a block to prefill against one in use")] = 1.0
    temperature: Annotated[float, Ge(0), Doc("T of a draw by exp(-cost / T); 0: the cheapest")] = 0.0


class LlmDParameters(NamedTuple):
    """Weights of the scores, and how much the router remembers."""

    queue_weight: Annotated[float, Ge(0), Doc("weight of how short the queue is")] = 2.0
    kv_weight: Annotated[float, Ge(0), Doc("weight of the free share of the KV budget")] = 2.0
    prefix_weight: Annotated[float, Ge(0), Doc("weight of the prompt's share sent there")] = 3.0
    table_blocks: Annotated[int, Ge(0), Doc("blocks remembered of each replica, least recently used go first")] = 31_250


class MooncakeParameters(NamedTuple):
    """When KV is moved rather than computed, and when a request is turned away."""

    balancing_threshold: Annotated[float, Gt(0), Doc("longest match / own above which KV moves")] = 2.0
    ttft_slo_s: Annotated[float | None, Gt(0), Doc("requests estimated to take longer everywhere are rejected")] = None


class PrebleParameters(NamedTuple):
    """How far back load counts, and when it is moved."""

    history_s: Annotated[float, Gt(0), Doc("seconds for which a request counts")] = 180.0
    rebalance_ratio: Annotated[float, Ge(1), Doc("ratio of the dearest to the cheapest replica")] = 1.5
    rebalance_min_requests_per_replica: Annotated[int, Ge(1), Doc("requests a replica between rebalancings")] = 50
    split_ttft_ratio: Annotated[float, Ge(0), Doc("growth of TTFT at which a lone node goes on two")] = 2.0


class Parameters(NamedTuple):
    """Parameters of all policies, as one value that every kernel of the chain is handed."""

    cache_aware: CacheAwareParameters = CacheAwareParameters()
    btb: BtbParameters = BtbParameters()
    sglang: SglangParameters = SglangParameters()
    smg: SmgParameters = SmgParameters()
    prefix_hash: PrefixHashParameters = PrefixHashParameters()
    dynamo: DynamoParameters = DynamoParameters()
    llm_d: LlmDParameters = LlmDParameters()
    mooncake: MooncakeParameters = MooncakeParameters()
    preble: PrebleParameters = PrebleParameters()


DEFAULT_PARAMETERS = Parameters()
