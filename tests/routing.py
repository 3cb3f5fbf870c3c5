"""Where prompts are sent, for cases worked out by hand.

Prompts are words, a letter a block. On a *busy* cluster nothing ever ends, so a replica's load is what was sent there;
a request with a time of its own finds an idle cluster wherever the one before came 100 s earlier.
"""

from collections.abc import Iterable

import naive
from replaying import through_engine
from strategies import BLOCK_TOKENS, MODEL, Problem

from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.policies.parameters import Parameters

GPU = Gpu("toy", 3e13, 3e11, MODEL.weight_bytes + MODEL.kv_bytes_per_token * 1e6, 1e7, 1e9, 1e7)


def route(
    policy: str, prompts: Iterable[tuple[float, str]], parameters: Parameters, *, replicas=3, busy=True, seed=42
) -> list[int]:
    """Where prompts, each with its arrival, are sent."""
    output_tokens = 20_000 if busy else 1
    rows = tuple(naive.Request(t, max(1, BLOCK_TOKENS * len(word)), output_tokens, tuple(word)) for t, word in prompts)
    setup = Setup("toys", MODEL, tuple(Replica(f"node{r}", GPU, 1) for r in range(replicas)))
    problem = Problem(rows, setup, ServingOptions(), parameters, seed)
    return through_engine(problem, policy).served.replica.tolist()


def at_once(*words: str) -> list[tuple[float, str]]:
    return [(0.001 * i, word) for i, word in enumerate(words)]


def far_apart(*words: str) -> list[tuple[float, str]]:
    return [(100.0 * i, word) for i, word in enumerate(words)]
