"""`prefix_hash`: the replica that the prompt's beginning hashes to, unless it is too busy (bounded loads).

SGLang's gateway, policy `prefix_hash` (2026), after Mirrokni, Thorup and Zadimoghaddam, Consistent Hashing with Bounded
Loads (2018). Each replica has `ring_points` points on a ring; a request goes to the owner of the first point at or
behind the hash of its first `prefix_tokens` tokens, here of the blocks that cover them. It is kept there if that
replica's load is at most load_factor × (total load + 1) / replicas; else the least loaded replica takes it, the first
in order on ties, if that passes the same test; if none does, it is kept.

Traces hold ids instead of tokens, so the hash of a prefix is a draw, made when the prefix is first met: as good as any
hash, and another one for each seed. A prompt of unknown content, or of blocks no other prompt has, hashes by itself.
Leaves out: replicas that come and go, for which the ring is made.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh32_intdigest

from btbench.jit import inlined
from btbench.policies.picks import first_least_loaded, next_output
from btbench.policies.view import ClusterView


class Ring(NamedTuple):
    """P points in order of position, and the replica of each prefix met so far."""

    position: npt.NDArray[np.int64]  # (P,) below 2^32
    owner: npt.NDArray[np.int64]  # (P,)
    replica: npt.NDArray[np.int64]  # (nodes,) of a prefix that ends in this node of the prompt tree; -1 = not met


@lru_cache(maxsize=8)
def _points(replicas: int, each: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    hashes = [xxh32_intdigest(f"replica {r} point {k}".encode()) for r in range(replicas) for k in range(each)]
    position = np.array(hashes, np.int64)
    order = np.argsort(position, kind="stable")
    return position[order], order // max(1, each)


def new_ring(view: ClusterView, points: int) -> Ring:
    """No prefix met yet; of no size where there are no points, as no policy uses it then."""
    position, owner = _points(len(view.load), points)
    return Ring(position.copy(), owner.copy(), np.full(len(view.parent) if points else 0, -1, np.int64))


@inlined
def prefix_node(view, i, wanted):  # type: ignore[no-untyped-def]
    """The node of the prompt tree that the first `wanted` blocks of request i's prompt end in; -1 if it is its own.

    A shorter prompt counts whole.
    """
    blocks = 0
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        blocks += view.node_blocks[view.path[k]]
        if blocks >= wanted or blocks == view.requests[i].prompt_blocks:
            return view.path[k]
    return -1


@inlined
def owner_at(ring, position):  # type: ignore[no-untyped-def]
    """The owner of the first point at or behind a position, round the ring."""
    low = 0
    high = len(ring.position)
    while low < high:
        middle = (low + high) // 2
        if ring.position[middle] < position:
            low = middle + 1
        else:
            high = middle
    return ring.owner[low % len(ring.position)]


@inlined
def home(view, i, parameters, ring, draws):  # type: ignore[no-untyped-def]
    """The replica that request i's prefix hashes to."""
    wanted = -(-parameters.prefix_tokens // view.costs.block_tokens)
    node = prefix_node(view, i, wanted)
    if node < 0:
        return owner_at(ring, next_output(draws))
    if ring.replica[node] < 0:
        ring.replica[node] = owner_at(ring, next_output(draws))
    return ring.replica[node]


@inlined
def route_prefix_hash(view, i, parameters, ring, draws):  # type: ignore[no-untyped-def]
    """Home, or the least loaded replica where home is too busy and that one is not."""
    r = home(view, i, parameters, ring, draws)
    total = 0
    for other in range(len(view.load)):
        total += view.load[other]
    most = parameters.load_factor * (total + 1) / len(view.load)
    if view.load[r] <= most:
        return r
    least = first_least_loaded(view.load)
    return least if view.load[least] <= most else r
