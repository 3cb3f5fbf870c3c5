"""A grid of replays: setup × policy × window, on all cores, handed out in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache

from btbench.cluster.setup import ServingOptions, Setup
from btbench.engine.allocate import idle_replicas
from btbench.engine.records import Records
from btbench.engine.replay import check_replayable, replay_workload
from btbench.engine.run import Run
from btbench.engine.workload import Workload, build_workload
from btbench.policies.parameters import BtbParameters
from btbench.policies.registry import Policy
from btbench.progress import Progress, silent
from btbench.trace import Trace


def replay_grid(
    trace: Trace,
    setups: Sequence[Setup],
    policies: Sequence[Policy],
    options: ServingOptions,
    seed: int,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[Setup, Policy, list[Run]]]:
    """Yield (setup, policy, one Run a window), setups first, in the order given.

    The kernels hold no interpreter lock, so `jobs` threads (all cores by default) replay at once; what is yielded does
    not depend on them. Raises CapacityError or TraceError before anything is replayed where that can be known.
    """
    check_replayable(trace)
    clusters = [(setup, idle_replicas(setup, options, trace.block_tokens)) for setup in setups]
    policies = [policy.for_blocks(trace.block_tokens) for policy in policies]
    return _replay_all(trace, clusters, policies, options, seed, jobs or os.cpu_count() or 1, progress)


def _replay_all(
    trace: Trace,
    clusters: Sequence[tuple[Setup, Records]],
    policies: Sequence[Policy],
    options: ServingOptions,
    seed: int,
    jobs: int,
    progress: Progress,
) -> Iterator[tuple[Setup, Policy, list[Run]]]:
    windows = [trace.window(window) for window in trace.windows]

    @lru_cache(maxsize=len(windows) + jobs)
    def workload(window: int, btb: BtbParameters) -> Workload:
        return build_workload(windows[window], btb)

    def replay_cell(setup: Setup, idle: Records, policy: Policy, window: int) -> Run:
        work = workload(window, policy.parameters.btb)
        return replay_workload(windows[window], work, setup, idle, policy, options, seed)

    cells = [(*cluster, policy) for cluster in clusters for policy in policies]
    tasks = iter([(*cell, window) for cell in cells for window in range(len(windows))])
    total = len(trace) * len(cells)
    done = 0
    pool = ThreadPoolExecutor(jobs)
    pending: deque[Future[Run]] = deque()
    try:
        for setup, _, policy in cells:
            runs = []
            for window in windows:
                while len(pending) < 2 * jobs and (task := next(tasks, None)) is not None:
                    pending.append(pool.submit(replay_cell, *task))
                runs.append(pending.popleft().result())
                done += len(window)
                progress("replaying", done, total)
            yield setup, policy, runs
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
