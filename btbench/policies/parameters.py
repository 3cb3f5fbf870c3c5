"""The parameters of every policy: name, type, allowed range and default, each read by exactly one kernel.

A scenario's `[policy.<name>]` table holds these keys. Ranges stand as `annotated_types` marks, which the
scenario reader enforces and `btbench list policies` prints.
"""

from typing import Annotated, Any, NamedTuple, get_type_hints

from annotated_types import Ge


class CacheAwareParameters(NamedTuple):
    """Thresholds of the imbalance test (SGLang's scheme)."""

    balance_abs_threshold: Annotated[float, Ge(0)] = 64.0  # requests in flight on the fullest replica
    balance_rel_threshold: Annotated[float, Ge(0)] = 1.5  # fullest over emptiest


class BtbParameters(NamedTuple):
    """When a prefix counts as a burst, and how far it is copied (X, Y, Z, M of the paper)."""

    threshold: Annotated[int, Ge(1)] = 2  # X: requests with the same prefix …
    prefix_blocks: Annotated[int, Ge(1)] = 256  # Y: … of so many blocks …
    window_s: Annotated[float, Ge(0)] = 1.0  # Z: … within so many seconds
    copies: Annotated[int, Ge(1)] = 4  # M: replicas that are to hold it


class Parameters(NamedTuple):
    """Parameters of all policies, as one value that every kernel of the chain is handed."""

    cache_aware: CacheAwareParameters = CacheAwareParameters()
    btb: BtbParameters = BtbParameters()

    def typed(self) -> "Parameters":
        """Every number as the type its field says: kernels are compiled by type, and 64 is not 64.0."""
        return Parameters(*(_typed(table) for table in self))


def _typed(table: Any) -> Any:
    kinds = get_type_hints(type(table))
    return type(table)(*(kinds[name](value) for name, value in zip(table._fields, table, strict=True)))


DEFAULT_PARAMETERS = Parameters()
