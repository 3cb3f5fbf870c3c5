"""The two lines the published audit opens with: deep bursts that arrive together, and shallow ones that are many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from btbench.analysis.fanout import Fanout, Kind

DEEP_BLOCKS, DEEP_WINDOW_S, PRESENT = 16, 10.0, 20
SHALLOW_BLOCKS = 8


@dataclass(frozen=True)
class DeepSync:
    """The largest fan-out of class fan-out, 16 blocks and deeper, within 10 s; `chain_…` by the block rule."""

    window_s: float
    min_depth_blocks: int
    rule: str  # that the unprefixed fields rest on
    max_fanout: int
    depth_blocks: int | None  # the smallest that reaches it; null where there is none
    depth_tokens: int | None
    span_s: float
    largest_any_class: int
    largest_class: Kind
    groups_at_least_20: int  # added up over the depths: a burst seen at two depths counts twice
    present: bool  # whether it reaches 20
    rests_on_ticks: bool
    chain_max_fanout: int
    chain_depth_blocks: int | None
    chain_span_s: float
    chain_largest_class: Kind
    chain_groups_at_least_20: int
    chain_present: bool


@dataclass(frozen=True)
class ShallowWide:
    """The largest fan-out of any class, at depths of 8 blocks and more within the widest window."""

    window_s: float
    min_depth_blocks: int
    max_fanout: int
    depth_blocks: int | None
    span_s: float
    reads_as: Literal["steady", "clustered"]  # steady: spread over half the window or more


@dataclass(frozen=True)
class Shallower:
    """The largest fan-out that is no session by length, in fewer blocks than a deep one, beyond the root prefix."""

    window_s: float
    max_fanout: int
    depth_blocks: int  # the deepest that reaches it
    depth_tokens: int
    span_s: float


def shallower(cells: Sequence[Fanout]) -> Shallower | None:
    """From the cells of the depths below the deep ones, without the root prefix; None where nothing is shared there."""
    best = max(cells, key=lambda cell: (cell.max_fanout_independent, cell.depth_blocks), default=None)
    if best is None or best.max_fanout_independent < 2:
        return None
    size, span_s = best.max_fanout_independent, best.max_fanout_independent_span_s
    return Shallower(best.window_s, size, best.depth_blocks, best.depth_tokens, span_s)


def deep_sync(cells: Sequence[Fanout]) -> DeepSync:
    """The headline, from the cells of its depths and window."""
    any_class = max(cells, key=lambda cell: cell.max_fanout)  # the first, so the smallest depth, where several do
    best = max(cells, key=lambda cell: cell.max_fanout_independent)
    chain = max(cells, key=lambda cell: cell.chain_max_fanout_independent)
    size, chain_size = best.max_fanout_independent, chain.chain_max_fanout_independent
    key = str(PRESENT)
    return DeepSync(
        window_s=DEEP_WINDOW_S,
        min_depth_blocks=DEEP_BLOCKS,
        rule="length",
        max_fanout=size,
        depth_blocks=best.depth_blocks if size else None,
        depth_tokens=best.depth_tokens if size else None,
        span_s=best.max_fanout_independent_span_s,
        largest_any_class=any_class.max_fanout,
        largest_class=any_class.max_fanout_class,
        groups_at_least_20=sum(cell.independent_groups_at_least[key] for cell in cells),
        present=size >= PRESENT,
        rests_on_ticks=best.independent_rests_on_ticks,
        chain_max_fanout=chain_size,
        chain_depth_blocks=chain.depth_blocks if chain_size else None,
        chain_span_s=chain.chain_max_fanout_independent_span_s,
        chain_largest_class=any_class.chain_max_fanout_class,
        chain_groups_at_least_20=sum(cell.chain_independent_groups_at_least[key] for cell in cells),
        chain_present=chain_size >= PRESENT,
    )


def shallow_wide(cells: Sequence[Fanout]) -> ShallowWide:
    """The second line, from the cells of its depths in the widest window."""
    best = max(cells, key=lambda cell: cell.max_fanout)
    return ShallowWide(
        window_s=best.window_s,
        min_depth_blocks=SHALLOW_BLOCKS,
        max_fanout=best.max_fanout,
        depth_blocks=best.depth_blocks if best.max_fanout else None,
        span_s=best.max_fanout_span_s,
        reads_as="steady" if best.max_fanout_span_s >= best.window_s / 2 else "clustered",
    )
