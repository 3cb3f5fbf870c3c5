"""A setup: one model served by an ordered list of replicas, and how hard they are driven."""

from dataclasses import dataclass

from btbench.cluster.gpus import Gpu
from btbench.cluster.models import Model
from btbench.errors import CapacityError

_MOST = 2**62  # tokens or blocks: more than any trace holds, and an integer that compiled code can add to


@dataclass(frozen=True)
class ServingOptions:
    """The `[engine]` table of a scenario, and its `[router]` table."""

    mfu: float = 0.5  # share of the FLOP/s that prefill reaches
    mbu: float = 0.8  # share of the HBM bandwidth that decode reaches
    max_batch: int = 256  # sequences running together on one replica
    disk_cache: bool = False  # one set of blocks on NVMe, shared by all replicas
    copies_wait: bool = False  # KV that is being computed or received leaves a replica when it is there, not at once
    signal_delay_s: float = 0.0  # `[router]`: how old the router's knowledge of loads and caches is
    signal_interval_s: float = 0.1  # `[router]`: how often it is renewed, where there is a delay


@dataclass(frozen=True)
class Replica:
    """`gpus` GPUs of one kind serving together (tensor parallel): rates and memory add up, NVMe does not."""

    name: str
    gpu: Gpu
    gpus: int

    @property
    def flops(self) -> float:
        """Peak FLOP/s."""
        return self.gpus * self.gpu.flops

    @property
    def hbm_bytes(self) -> float:
        """HBM of all its GPUs."""
        return self.gpus * self.gpu.hbm_bytes

    @property
    def hbm_bytes_per_s(self) -> float:
        """HBM bandwidth of all its GPUs."""
        return self.gpus * self.gpu.hbm_bytes_per_s

    @property
    def pcie_bytes_per_s(self) -> float:
        """Host RAM to HBM, all its GPUs."""
        return self.gpus * self.gpu.pcie_bytes_per_s

    @property
    def rdma_bytes_per_s(self) -> float:
        """From other replicas to its HBM, all its GPUs."""
        return self.gpus * self.gpu.rdma_bytes_per_s

    @property
    def disk_bytes_per_s(self) -> float:
        """NVMe: one pool a replica."""
        return self.gpu.disk_bytes_per_s


@dataclass(frozen=True)
class Setup:
    """A cluster: every replica holds the whole model."""

    name: str
    model: Model
    replicas: tuple[Replica, ...]

    def kv_room_bytes(self, replica: Replica) -> float:
        """HBM left for KV once the weights are in. Raises CapacityError where they do not fit."""
        room = replica.hbm_bytes - self.model.weight_bytes
        if room < 0:
            raise CapacityError(
                f"setup {self.name!r}: {self.model.name} does not fit replica {replica.name!r}: its weights take "
                f"{self.model.weight_bytes / 1e9:.1f} GB, {replica.gpus} × {replica.gpu.name} hold "
                f"{replica.hbm_bytes / 1e9:.1f} GB, {-room / 1e9:.1f} GB short",
                "Use more or larger GPUs for this replica, or a smaller model or dtype_bytes.",
            )
        return room

    def kv_token_budget(self, replica: Replica, block_tokens: int) -> int:
        """Tokens of KV that fit: the admission limit. Raises CapacityError below one block."""
        room = self.kv_room_bytes(replica)
        budget = int(min(room / self.model.kv_bytes_per_token, _MOST))
        if budget < block_tokens:
            raise CapacityError(
                f"setup {self.name!r}: {self.model.name} leaves replica {replica.name!r} only {room / 1e9:.3f} GB of "
                f"KV room, {budget} tokens, less than one block of {block_tokens} tokens",
                "Use more or larger GPUs for this replica, or a smaller model or dtype_bytes.",
            )
        return budget

    def cache_budget_blocks(self, replica: Replica, block_tokens: int) -> int:
        """Blocks the prefix cache holds in HBM."""
        return int(min(self.kv_room_bytes(replica) / (self.model.kv_bytes_per_token * block_tokens), _MOST))
