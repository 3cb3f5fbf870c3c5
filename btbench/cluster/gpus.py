"""GPUs: what one card can do, as its maker publishes it (dense FLOP/s, no sparsity)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One GPU and its share of the host."""

    name: str
    flops: float  # dense FLOP/s at the weights' precision
    hbm_bytes_per_s: float
    hbm_bytes: float
    pcie_bytes_per_s: float  # host RAM to HBM
    rdma_bytes_per_s: float  # another replica to HBM
    disk_bytes_per_s: float  # NVMe; one pool a replica, not multiplied by its GPUs


# name, FLOP/s, HBM bytes/s, HBM bytes, PCIe, RDMA, NVMe bytes/s: makers' data sheets, as used in the published table
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100", 312e12, 2.00e12, 80e9, 25e9, 25e9, 5e9),
        Gpu("h100", 989e12, 3.35e12, 80e9, 55e9, 50e9, 7e9),
        Gpu("h200", 989e12, 4.80e12, 141e9, 55e9, 50e9, 7e9),
        Gpu("b200", 2250e12, 8.00e12, 192e9, 60e9, 100e9, 7e9),
        Gpu("b300", 2250e12, 8.00e12, 288e9, 120e9, 100e9, 7e9),
        Gpu("mi300x", 1307e12, 5.30e12, 192e9, 55e9, 50e9, 7e9),
        Gpu("mi355x", 2500e12, 8.00e12, 288e9, 120e9, 100e9, 7e9),
    )
}
