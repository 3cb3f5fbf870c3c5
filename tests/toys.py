"""A cluster small enough to work out by hand, and prompts made of named parts.

A block holds 8 tokens and takes 16 ms to prefill and 4,096 bytes; a decode step takes about 8 ms. Replicas are equal.
"""

import naive
from replaying import through_engine
from strategies import MODEL, Problem

from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.policies.parameters import Parameters

BLOCK_S = 0.016  # to prefill
FAST, SLOW = 4.096e6, 4096.0  # bytes/s over RDMA: a block takes 1 ms, or 1 s


def setup_of(replicas: int, rdma_bytes_per_s: float = FAST, tokens: int = 100_000) -> Setup:
    """Equal replicas with room for so many tokens of KV."""
    room_bytes = MODEL.weight_bytes + MODEL.kv_bytes_per_token * (tokens + 0.5)
    gpu = Gpu("toy", 2e12, 3e11, room_bytes, 1e9, rdma_bytes_per_s, 1e9)
    return Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i in range(replicas)))


def blocks(name: str, count: int) -> tuple:
    """Ids of a prompt's part."""
    return tuple(f"{name}{i}" for i in range(count))


def ask(arrival_s: float, prompt: tuple, output_tokens: int = 1, input_tokens: int | None = None) -> naive.Request:
    """A request whose input is its blocks, unless told otherwise."""
    return naive.Request(arrival_s, input_tokens or 8 * len(prompt), output_tokens, prompt)


def replay(policy, requests, setup, parameters=None, seed=42, **options):
    """Replay with the engine."""
    groups = {policy: parameters} if parameters is not None else {}
    options = ServingOptions(mfu=0.5, mbu=0.8, **options)
    return through_engine(Problem(tuple(requests), setup, options, Parameters(**groups), seed), policy)


def routed(*arguments, **options) -> list[int]:
    """The replica of each request."""
    return replay(*arguments, **options).served.replica.tolist()


def moves(run) -> list[tuple]:
    """(request, source, target, blocks) of each move of KV."""
    c = run.copies
    return list(zip(c.request.tolist(), c.source.tolist(), c.target.tolist(), c.blocks.tolist(), strict=True))
