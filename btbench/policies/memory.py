"""What policies keep between the requests of one replay.

Two families of policies, told apart by the type of their memory: the replay kernel is compiled once for each, so that
the paper's five start without the others' compile time.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class PaperMemory(NamedTuple):
    """For `least_load`, `cache_aware`, `btb`, `round_robin` and `random`: W words of replica bits, R replicas."""

    turn: npt.NDArray[np.int64]  # (1,) round_robin's counter
    candidates: npt.NDArray[np.uint64]  # (W,) scratch: a set of replicas
    taken: npt.NDArray[np.bool_]  # (R,) scratch: replicas a copy may not go to


def paper_memory(replicas: int) -> PaperMemory:
    """Before the first request."""
    return PaperMemory(np.zeros(1, np.int64), np.zeros((replicas + 63) // 64, np.uint64), np.zeros(replicas, np.bool_))
