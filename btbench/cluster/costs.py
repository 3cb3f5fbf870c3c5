"""What it costs to have the KV of a prompt in HBM: computing it, or moving it there from where it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from btbench.cluster.models import Model
from btbench.cluster.setup import Replica, ServingOptions

TIERS = ("disk", "rdma", "ram", "hbm")  # slowest first, as a rule


@dataclass(frozen=True)
class KvCosts:
    """Times to make tokens of KV resident on one replica; every one grows in proportion to the tokens.

    The formulas and bandwidths are those of the replayed model (JW Labs, Biting the Bullet, July 2026): prefill is
    bound by arithmetic, moving by the bandwidth of the tier (NVMe, RDMA from another replica, host RAM over PCIe, and
    reading HBM itself), all GPUs of the replica at once, except for NVMe, which is one pool a replica.
    """

    model: Model
    replica: Replica
    mfu: float = ServingOptions.mfu  # share of the FLOP/s that prefill reaches

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of one token."""
        return self.model.kv_bytes_per_token

    def prefill_s(self, tokens: float) -> float:
        """2 × active parameters × tokens / (FLOP/s × MFU)."""
        return 2 * self.model.active_params * tokens / (self.replica.flops * self.mfu)

    def bandwidth_bytes_per_s(self, tier: str) -> float:
        """Of the whole replica; `tier` is one of TIERS."""
        name = "pcie" if tier == "ram" else tier
        return float(getattr(self.replica, f"{name}_bytes_per_s"))

    def move_s(self, tier: str, tokens: float) -> float:
        """KV bytes / bandwidth of the tier."""
        return self.kv_bytes_per_token * tokens / self.bandwidth_bytes_per_s(tier)

    def prefill_over(self, tier: str) -> float:
        """How many times as long as moving the same tokens prefill takes."""
        return self.prefill_s(1) / self.move_s(tier, 1)

    def break_even_reuses(self, tier: str) -> int:
        """The smallest whole r with r × prefill ≥ move: a copy has paid once r requests found it, each spared prefill.

        1 wherever moving is no slower than prefill. It is the same for any number of tokens, as both times grow alike.
        """
        return max(1, ceil(1 / self.prefill_over(tier)))

    @property
    def break_even_bytes_per_s(self) -> float:
        """The bandwidth at which moving takes as long as prefill: KV bytes per token / prefill time per token.

        From this bandwidth on a copy pays with its first reuse; at 1/r of it, with its r-th.
        """
        return self.kv_bytes_per_token / self.prefill_s(1)
