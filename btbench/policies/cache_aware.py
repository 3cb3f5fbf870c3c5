"""`cache_aware`: the replica that has cached the most of the prompt, unless the cluster is out of balance.

Out of balance (fullest replica above `balance_abs_threshold` requests in flight, and above `balance_rel_threshold` ×
the emptiest): pick by load. Otherwise pick by (longest match in HBM or RAM, then load). SGLang's scheme as the paper
simplifies it.
"""

from btbench.jit import inlined
from btbench.policies.bits import NONE
from btbench.policies.picks import pick_least_loaded, pick_least_loaded_of


@inlined
def narrow_to_longest_match(view, i, candidates):  # type: ignore[no-untyped-def]
    """Set `candidates` to the replicas with the longest match of request i's prompt; False if none matches a block.

    A replica holds a run whole or not at all, so the longest match is found by keeping, run by run, the replicas that
    hold this one too, for as long as one is left.
    """
    found = False
    for k in range(view.requests[i].runs_start, view.requests[i].runs_stop):
        holders = view.resident[view.run_list[k]]
        left = False
        for word in range(len(candidates)):
            left |= (holders[word] & candidates[word] if found else holders[word]) != NONE
        if not left:
            break
        for word in range(len(candidates)):
            candidates[word] = holders[word] & candidates[word] if found else holders[word]
        found = True
    return found


@inlined
def route_cache_aware(view, i, parameters, memory, draws):  # type: ignore[no-untyped-def]
    """Longest match first, load where the cluster is out of balance."""
    fullest = view.load[0]
    emptiest = view.load[0]
    for r in range(1, len(view.load)):
        if view.load[r] > fullest:
            fullest = view.load[r]
        if view.load[r] < emptiest:
            emptiest = view.load[r]
    out_of_balance = (
        fullest > parameters.balance_abs_threshold and fullest > parameters.balance_rel_threshold * emptiest
    )
    if not out_of_balance and narrow_to_longest_match(view, i, memory.candidates):
        return pick_least_loaded_of(view.load, memory.candidates, draws)
    return pick_least_loaded(view.load, draws)
