"""`dynamo`: the replica where prefill and decode together cost the fewest blocks (NVIDIA Dynamo's KV router, 1.x).

Cost of a replica = prefill_load_scale × max(0, P - credit) + D, in blocks, with

- P = (tokens still to prefill of what was sent there + this input) / block tokens; tokens found cached when a request
  was sent do not count, and all of it counts until its first token is out
- credit = overlap_credit × leading blocks of the prompt in HBM there + host_credit × those in RAM + disk_credit × those
  that only the shared disk holds
- D = prompt blocks of what runs and waits there, and of this request; blocks that several share count once

The lowest cost wins, random among equals. With a temperature T > 0 costs are scaled to [0, 1] and a replica is drawn
with probability ∝ exp(-cost / T).
Leaves out: output blocks (Dynamo counts them on demand only), replicas marked busy, and the delay of cache events.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from btbench.jit import inlined
from btbench.pairs import dense_or_empty, find_pair
from btbench.policies.bits import bit
from btbench.policies.line import Line, join_line, leave_lines, new_line
from btbench.policies.matching import count_leading, count_resident, disk_blocks, hit_tokens, prompt_blocks, ram_blocks
from btbench.policies.picks import next_output, pick_least_loaded
from btbench.policies.view import ClusterView

ACTIVE = np.dtype([("blocks", "i8"), ("last_finished", "i4")], align=True)


class Active(NamedTuple):
    """What runs and waits on R replicas, over M nodes of the prompt tree."""

    line: Line
    sent: npt.NDArray[np.bool_]  # (N,) requests that this policy has sent
    replicas: npt.NDArray[np.void]  # (R,) ACTIVE: distinct prompt blocks, and the last finished request taken note of
    masks: npt.NDArray[np.uint64]  # (M, W) replicas where a node is in use …
    table: npt.NDArray[np.int64]  # … node × R + replica to place …
    uses: npt.NDArray[np.int32]  # … and by how many requests
    matched: npt.NDArray[np.int64]  # (R,) scratch
    shared: npt.NDArray[np.int64]  # (R,) scratch
    cost: npt.NDArray[np.float64]  # (R,) scratch


def new_active(view: ClusterView, is_used: bool) -> Active:
    """Nothing runs; of no size where no policy uses it."""
    replicas, nodes, requests, entries = (
        (len(view.load), len(view.parent), len(view.requests), len(view.path)) if is_used else (0, 0, 0, 0)
    )
    table = dense_or_empty(max(1, nodes * replicas), entries)
    counts = np.zeros(replicas, ACTIVE)
    counts["last_finished"] = -1
    return Active(
        line=new_line(requests, replicas),
        sent=np.zeros(requests, np.bool_),
        replicas=counts.view(np.recarray),
        masks=np.zeros((nodes, (len(view.load) + 63) // 64), np.uint64),
        table=table,
        uses=np.zeros(len(table) or nodes * replicas, np.int32),
        matched=np.zeros(replicas, np.int64),
        shared=np.zeros(replicas, np.int64),
        cost=np.zeros(replicas, np.float64),
    )


@inlined
def count_use(view, active, i, r, change):  # type: ignore[no-untyped-def]
    """Request i's prompt comes into use on replica r (change 1), or goes out of it (-1)."""
    own = prompt_blocks(view, i)
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        node = view.path[k]
        own -= view.node_blocks[node]
        place, _ = find_pair(active.table, np.int64(node) * len(active.replicas) + r)
        before = active.uses[place]
        active.uses[place] += change
        if before == 0 or active.uses[place] == 0:
            active.masks[node, r >> 6] ^= bit(r)
            active.replicas[r].blocks += change * view.node_blocks[node]
    active.replicas[r].blocks += change * own


@inlined
def take_note(view, active, now):  # type: ignore[no-untyped-def]
    """Prefills that have ended by now, and requests that have."""
    leave_lines(active.line, view, now, True)
    for r in range(len(active.replicas)):
        latest = view.answers[r].last_finished
        i = np.int64(latest)
        while i != active.replicas[r].last_finished:
            if active.sent[i]:
                count_use(view, active, i, r, np.int64(-1))
            i = np.int64(view.served[i].finished_before)
        active.replicas[r].last_finished = latest


@inlined
def draw_by_cost(cost, temperature, draws):  # type: ignore[no-untyped-def]
    """A replica, drawn with probability ∝ exp(-cost / temperature), costs scaled to [0, 1]; one output of the draws."""
    lowest = cost[0]
    highest = cost[0]
    for r in range(1, len(cost)):
        lowest = min(lowest, cost[r])
        highest = max(highest, cost[r])
    span = highest - lowest if highest > lowest else 1.0
    total = 0.0
    for r in range(len(cost)):
        cost[r] = math.exp(-(cost[r] - lowest) / span / temperature)
        total += cost[r]
    left = next_output(draws) / 4294967296.0 * total  # uniform in [0, 1) times the sum
    for r in range(len(cost)):
        if left < cost[r]:
            return r
        left -= cost[r]
    return len(cost) - 1


@inlined
def note_sent(view, i, r, cached, active):  # type: ignore[no-untyped-def]
    """Request i, with so many leading blocks cached, goes to replica r."""
    join_line(active.line, i, r, view.requests[i].input_tokens - hit_tokens(view, i, cached))
    count_use(view, active, i, r, np.int64(1))
    active.sent[i] = True


@inlined
def note_dynamo(view, i, r, active, candidates):  # type: ignore[no-untyped-def]
    """Request i goes to replica r by another's decision."""
    take_note(view, active, view.requests[i].arrival_s)
    count_resident(view, i, candidates, active.matched)
    note_sent(view, i, r, max(active.matched[r], disk_blocks(view, i)), active)


@inlined
def route_dynamo(view, i, parameters, active, candidates, draws):  # type: ignore[no-untyped-def]
    """The cheapest replica, or one drawn by its cost."""
    request = view.requests[i]
    take_note(view, active, request.arrival_s)
    count_resident(view, i, candidates, active.matched)
    count_leading(
        active.masks, view.path, view.node_blocks, request.runs_start, request.runs_stop, candidates, active.shared
    )
    on_disk = disk_blocks(view, i)
    size = prompt_blocks(view, i)
    for r in range(len(view.load)):
        matched = active.matched[r]
        in_ram = ram_blocks(view, i, r) if matched > 0 else 0
        credit = (
            parameters.overlap_credit * (matched - in_ram)
            + parameters.host_credit * in_ram
            + parameters.disk_credit * max(0, on_disk - matched)
        )
        waiting = (active.line.fronts[r].tokens + request.input_tokens) / view.costs.block_tokens
        in_use = active.replicas[r].blocks + size - active.shared[r]
        active.cost[r] = parameters.prefill_load_scale * max(0.0, waiting - credit) + in_use
    if parameters.temperature > 0:
        r = draw_by_cost(active.cost, parameters.temperature, draws)
    else:
        r = pick_least_loaded(active.cost, draws)
    note_sent(view, i, r, max(active.matched[r], on_disk), active)
    return r
