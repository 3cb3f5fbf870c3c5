"""How long a replica takes for its work: formulas of the cluster model, for the engine and for routers that estimate.

`costs` are the numbers of the model, `replica` those of a replica and of what runs there (`btbench.engine.records`).
"""

from btbench.jit import inlined


@inlined
def prefill_s(costs, replica, tokens):  # type: ignore[no-untyped-def]
    """2 × active parameters × tokens / (FLOP/s × mfu)."""
    return costs.flops_per_token * tokens / replica.prefill_flops


@inlined
def decode_s(costs, replica, steps):  # type: ignore[no-untyped-def]
    """Time of `steps` decode steps of the batch as it is.

    Each step reads the active weights once and every sequence's KV, which grows by a token a step:
    (active bytes × s + KV bytes × (s × context + batch × s × (s - 1) / 2)) / (HBM bandwidth × mbu).
    """
    kv_tokens = steps * replica.context_tokens + replica.batch * steps * (steps - 1) / 2
    return (costs.active_bytes * steps + costs.kv_bytes_per_token * kv_tokens) / replica.decode_bytes_per_s


@inlined
def move_s(costs, blocks, bytes_per_s):  # type: ignore[no-untyped-def]
    """Time to move blocks of KV: bytes / bandwidth."""
    return blocks * costs.block_bytes / bytes_per_s
