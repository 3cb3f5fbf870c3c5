"""`smg`: the successor of SGLang's router (sgl-project, as of August 2026).

The same tree, one for the whole router. Where more than `cache_threshold` of the input matches, every holder of the
matched prefix is a candidate: the least loaded of them, random among equals. A gate then looks at this request alone:
if that replica's load is above rel × mean and above mean + abs, the least loaded of all takes it, prefills the prefix
again and becomes a holder too, so that hot prefixes replicate by recomputing. Where less matches: the least loaded.
When the tree outgrows `max_tree_tokens`, its least recently used leaves are dropped, whoever holds them.
Leaves out: health checks, retries, and text below the size of a block.
"""

from btbench.jit import inlined
from btbench.policies.picks import pick_least_loaded, pick_least_loaded_of
from btbench.policies.tree import evict_leaf, insert_prompt, walk


@inlined
def route_smg(view, i, parameters, tree, draws):  # type: ignore[no-untyped-def]
    """The least loaded holder of the matched prefix, unless it is far above the mean; else the least loaded."""
    stop, tokens = walk(view, tree, i)
    r = -1
    if tokens / view.requests[i].input_tokens > parameters.cache_threshold:
        r = pick_least_loaded_of(view.load, tree.owners[stop], draws)
        in_flight = 0
        for other in range(len(view.load)):
            in_flight += view.load[other]
        mean = in_flight / len(view.load)
        if (
            view.load[r] > parameters.balance_rel_threshold * mean
            and view.load[r] > mean + parameters.balance_abs_threshold
        ):
            r = -1
    if r < 0:
        r = pick_least_loaded(view.load, draws)
    insert_prompt(view, tree, i, r, 0)
    while tree.lanes[0].tokens > parameters.max_tree_tokens:
        evict_leaf(view, tree, 0)
    return r
