"""What it costs to have the KV of a prefix in HBM: computing it, or moving it there from where it is kept.

Formulas, GPU rates and tiers are those of the replayed model (JW Labs, Biting the Bullet, July 2026).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from btbench.cluster.models import Model
from btbench.cluster.setup import Replica, ServingOptions

TIERS = ("disk", "rdma", "ram", "hbm")  # NVMe, another replica's HBM, host RAM, and reading HBM itself


@dataclass(frozen=True)
class KvCosts:
    """Times to make tokens of KV resident on one replica. Each grows in proportion to the tokens.

    Prefill is bound by arithmetic, moving by the bandwidth of the tier. All GPUs of the replica work at once, but NVMe
    is one pool a replica.
    """

    model: Model
    replica: Replica
    mfu: float = ServingOptions.mfu  # share of the FLOP/s that prefill reaches

    def prefill_s(self, tokens: float) -> float:
        """2 × active parameters × tokens / (FLOP/s × MFU)."""
        return 2 * self.model.active_params * tokens / (self.replica.flops * self.mfu)

    def bandwidth_bytes_per_s(self, tier: str) -> float:
        """Of the whole replica; `tier` is one of TIERS."""
        return {
            "disk": self.replica.disk_bytes_per_s,
            "rdma": self.replica.rdma_bytes_per_s,
            "ram": self.replica.pcie_bytes_per_s,
            "hbm": self.replica.hbm_bytes_per_s,
        }[tier]

    def move_s(self, tier: str, tokens: float) -> float:
        """KV bytes per token × tokens / bandwidth of the tier."""
        return self.model.kv_bytes_per_token * tokens / self.bandwidth_bytes_per_s(tier)

    def prefill_over_move(self, tier: str) -> float:
        """How many times as long as moving the same tokens prefill takes."""
        return self.prefill_s(1) / self.move_s(tier, 1)

    def mean_reuses(self, tier: str) -> float:
        """Move time / prefill time: a copy pays where on average more requests than this find it.

        Each request that finds it is spared one prefill of the prefix. Below 1 some copies may stay unused.
        """
        return self.move_s(tier, 1) / self.prefill_s(1)

    def break_even_reuses(self, tier: str) -> int:
        """The smallest whole r with r × prefill time ≥ move time: with its r-th reuse one copy has paid."""
        return max(1, ceil(self.mean_reuses(tier)))

    @property
    def break_even_bytes_per_s(self) -> float:
        """KV bytes per token / prefill time per token: from this bandwidth on a copy pays with its first reuse.

        At 1/r of it, with its r-th.
        """
        return self.model.kv_bytes_per_token / self.prefill_s(1)
