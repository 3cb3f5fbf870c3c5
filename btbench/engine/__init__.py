"""How time passes: compiled kernels, and two doors, `replay` (one window) and `replay_grid` (a scenario's all)."""

from btbench.engine.grid import replay_grid
from btbench.engine.replay import replay
from btbench.engine.run import TIERS, Copies, Run, Served

__all__ = ["TIERS", "Copies", "Run", "Served", "replay", "replay_grid"]
