"""What to measure: the choices of one analysis, with the published audit's as defaults."""

from dataclasses import dataclass

from btbench.cluster.setup import Setup


@dataclass(frozen=True)
class BtbGrid:
    """The settings of the `btb` policy to try, every combination of them."""

    thresholds: tuple[int, ...] = (2, 4, 8)  # X: requests …
    prefix_blocks: tuple[int, ...] = (16, 64, 256)  # Y: … that share so many blocks …
    prefix_tokens: tuple[int, ...] = ()  # … or so many tokens, rounded up to blocks …
    windows_s: tuple[float, ...] = (1.0, 10.0)  # Z: … within so many seconds


@dataclass(frozen=True)
class Options:
    """Depths, windows and thresholds as in the published audit; the rest is ours."""

    depths_blocks: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    depths_tokens: tuple[int, ...] = ()  # further depths, rounded up to blocks
    windows_s: tuple[float, ...] = (1.0, 10.0, 60.0)
    thresholds: tuple[int, ...] = (5, 10, 20, 50, 100)
    without_root: bool = False  # leave the prefix that every request shares out of the groups
    burst_window_s: float = 10.0  # of the list of bursts
    top: int = 10  # rows of the lists of bursts and of prefixes
    btb: BtbGrid = BtbGrid()
    setup: Setup | None = None  # what bursts would cost on, and whose HBM cache sizes are compared to
    mfu: float = 0.5  # share of the FLOP/s that prefill reaches
    answer_blocks: bool = False  # whether answers take room in the cache, as in a replay

    def prefill_s(self, tokens: int) -> float | None:
        """Prefill of so many tokens on the setup's first replica: 2 × active parameters × tokens / (FLOP/s × mfu)."""
        if self.setup is None:
            return None
        return 2 * self.setup.model.active_params * tokens / (self.setup.replicas[0].flops * self.mfu)


def blocks_of(tokens: int, block_tokens: int) -> int:
    """Blocks that hold so many tokens, rounded up."""
    return -(-tokens // block_tokens)
