"""What policies keep between the requests of one replay.

Two families of policies, told apart by the type of their memory: the replay kernel is compiled once for each, so that
the paper's five start without the others' compile time.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.policies.compiled import new_own_memory
from btbench.policies.dynamo import Active, new_active
from btbench.policies.line import Line, new_line
from btbench.policies.llm_d import Sent, new_sent
from btbench.policies.prefix_hash import Ring, new_ring
from btbench.policies.prompt_tree import PromptTree, new_prompt_tree
from btbench.policies.registry import Policy
from btbench.policies.tree import Tree, new_tree
from btbench.policies.view import ClusterView


class PaperMemory(NamedTuple):
    """For `least_load`, `cache_aware`, `btb`, `round_robin` and `random`: W words of replica bits, R replicas."""

    turn: npt.NDArray[np.int64]  # (1,) round_robin's counter
    candidates: npt.NDArray[np.uint64]  # (W,) scratch: a set of replicas
    taken: npt.NDArray[np.bool_]  # (R,) scratch: replicas a copy may not go to


class RouterMemory(NamedTuple):
    """For every policy: what `PaperMemory` holds, and a bundle for each policy that remembers more."""

    turn: npt.NDArray[np.int64]
    candidates: npt.NDArray[np.uint64]
    taken: npt.NDArray[np.bool_]
    blocks: npt.NDArray[np.int64]  # (R,) scratch: matches
    sglang: Tree
    smg: Tree
    prefix_hash: Ring
    dynamo: Active
    llm_d: Sent
    mooncake: Line
    preble: PromptTree


class PluginMemory(NamedTuple):
    """For a compiled function of the user's: the function, and what it remembers."""

    function: Any
    memory: Any


def new_memory(policy: Policy, view: ClusterView) -> PaperMemory | RouterMemory | PluginMemory:
    """Before the first request. Bundles of policies that take no part stay empty."""
    replicas = len(view.load)
    common = (np.zeros(1, np.int64), np.zeros((replicas + 63) // 64, np.uint64), np.zeros(replicas, np.bool_))
    if policy.is_compiled_plugin:
        return PluginMemory(policy.custom, new_own_memory(policy, view, lambda view: PaperMemory(*common)))
    kinds = {kind.name for kind in policy.kinds()}
    if all(kind.is_papers for kind in policy.kinds()):
        return PaperMemory(*common)
    return RouterMemory(
        *common,
        blocks=np.zeros(replicas, np.int64),
        sglang=new_tree(view, lanes=replicas if "sglang" in kinds else 0),
        smg=new_tree(view, lanes=1 if "smg" in kinds else 0),
        prefix_hash=new_ring(view, policy.parameters.prefix_hash.ring_points if "prefix_hash" in kinds else 0),
        dynamo=new_active(view, "dynamo" in kinds),
        llm_d=new_sent(view, "llm_d" in kinds),
        mooncake=new_line(len(view.requests) if "mooncake" in kinds else 0, replicas),
        preble=new_prompt_tree(view, "preble" in kinds),
    )
