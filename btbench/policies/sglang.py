"""`sglang`: the SGLang router's cache_aware, as shipped in 0.2.2, 0.2.4 and 0.3.2 (sgl-project/sglang, sgl-router).

One radix tree over routed prompts. Out of balance (max - min > abs and max > rel × min): the least loaded replica, the
first on ties. Else walk the tree: where more than `cache_threshold` of the input matches, go to an owner of the node
where the walk stops: 0.3.2 to the owner remembered there while it still is one, else to any, which is then remembered;
before, to an arbitrary one (here: drawn). Where less matches: 0.2.2 to the replica with the smallest tree, later to the
least loaded. The prompt is then inserted for the chosen replica. Every `eviction_interval_s`, replicas whose tree is
above `max_tree_tokens` lose their least recently used leaves.

The real tree is over characters, so a walk often enters a child of the shared prefix by one matching character and
takes *that* child's owner; with blocks this never happens. `sub_block_match` says how often it does here, where some of
the prompt is left to go on with.
Leaves out: health checks, retries, and text below the size of a block.
"""

from btbench.jit import inlined
from btbench.policies.bits import has
from btbench.policies.picks import choose, first_least_loaded, next_output, pick_of
from btbench.policies.tree import evict_leaf, insert_prompt, walk
from btbench.timer import multiple_after

V0_2_2, V0_2_4, V0_3_2 = range(3)


@inlined
def remember(tree, part, owner):  # type: ignore[no-untyped-def]
    """Set the remembered owner of the whole radix node that a part belongs to."""
    top = part
    while tree.parent[top] >= 0 and tree.parts[tree.parent[top]].continued_by == top:
        top = tree.parent[top]
    while top >= 0:
        tree.parts[top].remembered = owner
        top = tree.parts[top].continued_by


@inlined
def random_child(tree, part, draws):  # type: ignore[no-untyped-def]
    """One of the radix nodes below the one that ends at a part; the part itself where that goes on or has none."""
    children = tree.parts[part].children
    if children == 0 or tree.parts[part].continued_by >= 0:
        return part
    return tree.children[tree.first_child[part] + choose(draws, children)]


@inlined
def owner_of(tree, part, is_left, parameters, draws):  # type: ignore[no-untyped-def]
    """The owner that the router takes where its walk stops; `is_left`: before the end of the prompt."""
    if parameters.sub_block_match > 0:
        slips = next_output(draws) < parameters.sub_block_match * 4294967296.0
        if slips and is_left:
            part = random_child(tree, part, draws)
    if parameters.version < V0_3_2:
        return pick_of(tree.owners[part], draws)
    owner = tree.parts[part].remembered
    if not has(tree.owners[part], owner):
        owner = pick_of(tree.owners[part], draws)
        remember(tree, part, owner)
    return owner


@inlined
def evict_due(view, tree, parameters, now):  # type: ignore[no-untyped-def]
    """The timer: at each multiple of the interval, trees above the limit shrink to it.

    Nothing enters a tree between two requests, so that the timer may fire as late as at the next one.
    """
    if now < tree.next_eviction_s[0]:
        return
    tree.next_eviction_s[0] = multiple_after(now, parameters.eviction_interval_s)
    for lane in range(len(tree.lanes)):
        while tree.lanes[lane].tokens > parameters.max_tree_tokens:
            evict_leaf(view, tree, lane)


@inlined
def smallest_tree(tree):  # type: ignore[no-untyped-def]
    """The replica with the fewest tokens in its tree, the first in order on ties."""
    smallest = 0
    for r in range(1, len(tree.lanes)):
        if tree.lanes[r].tokens < tree.lanes[smallest].tokens:
            smallest = r
    return smallest


@inlined
def route_sglang(view, i, parameters, tree, draws):  # type: ignore[no-untyped-def]
    """An owner of the matched prefix; the least loaded (0.2.2: smallest tree) where too little matches."""
    evict_due(view, tree, parameters, view.requests[i].arrival_s)
    least = first_least_loaded(view.load)
    fullest = view.load[0]
    for r in range(1, len(view.load)):
        fullest = max(fullest, view.load[r])
    r = least
    if (
        fullest - view.load[least] <= parameters.balance_abs_threshold
        or fullest <= parameters.balance_rel_threshold * view.load[least]
    ):
        stop, tokens = walk(view, tree, i)
        input_tokens = view.requests[i].input_tokens
        if tokens / input_tokens > parameters.cache_threshold:
            r = owner_of(tree, stop, tokens < input_tokens, parameters, draws)
        elif parameters.version == V0_2_2:
            r = smallest_tree(tree)
    insert_prompt(view, tree, i, r, r)
    return r
