"""The same problem through the engine and through the twin, as plain rows that can be compared."""

from typing import Any

import naive
import pytest
from strategies import Problem, trace_of

from btbench.engine import TIERS, Run, allocate, replay
from btbench.engine.records import State
from btbench.policies.registry import Policy
from btbench.policies.view import ClusterView

PAPER_POLICIES = tuple(naive.POLICIES)


def through_engine(problem: Problem, policy: str, joined: bool = True) -> Run:
    """Replay with the engine."""
    return replay(
        trace_of(problem.requests, problem.block_tokens, joined),
        problem.setup,
        Policy(policy, policy, problem.parameters),
        problem.options,
        problem.seed,
    )


def inside_engine(problem: Problem, policy: str) -> tuple[State, ClusterView]:
    """The state a replay ends in, and the view its policy had."""
    kept: dict[str, Any] = {}

    def keep(name: str) -> Any:
        make = getattr(allocate, name)
        return lambda *args, **kwargs: kept.setdefault(name, make(*args, **kwargs))

    with pytest.MonkeyPatch.context() as patch:
        for name in ("new_state", "view_of"):
            patch.setattr(allocate, name, keep(name))
        through_engine(problem, policy)
    return kept["new_state"], kept["view_of"]


def through_twin(problem: Problem, policy: str) -> naive.Replay:
    """Replay with the twin."""
    return naive.replay(
        problem.requests,
        problem.block_tokens,
        problem.setup,
        problem.options,
        policy,
        problem.parameters,
        problem.seed,
    )


def rows_of_run(run: Run) -> dict[str, list]:
    """What the engine says, all numbers as Python's."""
    s, c = run.served, run.copies
    return {
        "served": list(
            zip(
                *(a.tolist() for a in (s.replica, s.start_s, s.reuse_s, s.prefill_s, s.finish_s, s.hit_tokens)),
                [TIERS[code] for code in s.tier],
                strict=True,
            )
        ),
        "copies": list(
            zip(*(a.tolist() for a in (c.request, c.source, c.target, c.start_s, c.ready_s, c.used)), strict=True)
        ),
        "busy_s": run.busy_s.tolist(),
    }


def rows_of_twin(replayed: naive.Replay) -> dict[str, list]:
    """What the twin says."""
    return {
        "served": [
            (s.replica, s.start_s, s.reuse_s, s.prefill_s, s.finish_s, s.hit_tokens, s.tier) for s in replayed.served
        ],
        "copies": [(c.request, c.source, c.target, c.start_s, c.ready_s, c.used) for c in replayed.copies],
        "busy_s": [replica.busy_s for replica in replayed.replicas],
    }
