"""The parameters of every policy: name, type, allowed range, meaning and default, each read by exactly one kernel.

A scenario's `[policy.<name>]` table holds these keys. Ranges and meanings stand as marks: the scenario reader
enforces the ones, and `btbench list policies` prints both.
"""

from typing import Annotated, NamedTuple

from annotated_types import Ge
from typing_extensions import Doc


class CacheAwareParameters(NamedTuple):
    """Thresholds of the imbalance test (SGLang's scheme)."""

    balance_abs_threshold: Annotated[float, Ge(0), Doc("requests in flight on the fullest replica")] = 64.0
    balance_rel_threshold: Annotated[float, Ge(0), Doc("those of the fullest over those of the emptiest replica")] = 1.5


class BtbParameters(NamedTuple):
    """When a prefix counts as a burst, and how far it is copied (X, Y, Z, M of the paper)."""

    threshold: Annotated[int, Ge(1), Doc("X: so many requests with the same prefix …")] = 2
    prefix_blocks: Annotated[int, Ge(1), Doc("Y: … of so many blocks …")] = 256
    window_s: Annotated[float, Ge(0), Doc("Z: … within so many seconds are a burst")] = 1.0
    copies: Annotated[int, Ge(1), Doc("M: replicas that are to hold its prefix")] = 4
    fallback: Annotated[str, Doc("the policy that routes all else, and bursts nobody holds yet")] = "cache_aware"


class Parameters(NamedTuple):
    """Parameters of all policies, as one value that every kernel of the chain is handed."""

    cache_aware: CacheAwareParameters = CacheAwareParameters()
    btb: BtbParameters = BtbParameters()


DEFAULT_PARAMETERS = Parameters()
