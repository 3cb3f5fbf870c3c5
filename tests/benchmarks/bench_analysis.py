"""How long an analysis takes, from 25,000 requests of about 75 blocks to 2.5 million.

pytest tests/benchmarks/bench_analysis.py --benchmark-columns=min,mean
"""

import resource

import numpy as np
import pytest

from btbench.analysis.audit import analyze
from btbench.analysis.options import Options
from btbench.trace import Trace, Window

TURNS, USERS = 25, 5000


def growing_sessions(requests: int) -> Trace:
    """Sessions of 25 turns, 20 s apart in the mean: a user's system prompt, then 1 to 8 blocks more each turn."""
    draws = np.random.default_rng(0)
    sessions = -(-requests // TURNS)
    user_of = draws.integers(0, USERS, sessions)
    starts = draws.uniform(0, requests / 4.2, (sessions, 1))
    arrival_s = np.round(starts + np.cumsum(draws.exponential(20, (sessions, TURNS)), axis=1), 3).ravel()
    order = np.argsort(arrival_s, kind="stable")[:requests]
    session, turn = order // TURNS, order % TURNS
    offsets = np.concatenate([[0], np.cumsum(turn + 1)])
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], turn + 1)
    owner = np.repeat(session, turn + 1)
    runs = np.where(place == 0, user_of[owner], USERS + owner * TURNS + place - 1).astype(np.int32)
    run_blocks = np.concatenate([8 + np.arange(USERS) % 20, draws.integers(1, 9, sessions * TURNS)]).astype(np.int32)
    tail_blocks = draws.integers(1, 9, requests).astype(np.int32)
    blocks = np.add.reduceat(run_blocks[runs].astype(np.int64), offsets[:-1]) + tail_blocks
    return Trace(
        name="growing sessions",
        block_tokens=256,
        arrival_s=arrival_s[order],
        input_tokens=blocks * 256 - draws.integers(0, 256, requests),
        output_tokens=draws.integers(1, 129, requests),
        run_offsets=offsets,
        runs=runs,
        run_blocks=run_blocks,
        tail_blocks=tail_blocks,
        windows=(Window("0", "", 0, requests),),
        session=session.astype(np.int32),
        user=user_of[session].astype(np.int32),
    )


@pytest.mark.parametrize("requests", [25_000, 250_000, 2_500_000])
def test_analyze(benchmark, requests: int) -> None:
    trace = growing_sessions(requests)
    analyze(growing_sessions(1000), Options())  # compiled
    found = benchmark.pedantic(analyze, (trace, Options()), rounds=1 if requests > 1e6 else 3)
    assert found.requests == requests
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    benchmark.extra_info["peak_gb"] = peak_gb
    assert peak_gb < 6
