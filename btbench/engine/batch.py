"""The running batch of a replica: a skew heap of requests ordered by the decode step of their last token."""

from btbench.jit import inlined


@inlined
def merge(links, a, b):  # type: ignore[no-untyped-def]
    """The root of two heaps joined (-1 is an empty heap); amortised O(log n), no storage beyond two links a request."""
    if a < 0:
        return b
    if b < 0:
        return a
    if links.last_step[b] < links.last_step[a]:
        a, b = b, a
    root = a
    while True:
        right = links.heap_right[a]
        links.heap_right[a] = links.heap_left[a]
        if right < 0:
            links.heap_left[a] = b
            return root
        if links.last_step[b] < links.last_step[right]:
            right, b = b, right
        links.heap_left[a] = right
        a = right


@inlined
def join_batch(clocks, links, i, r):  # type: ignore[no-untyped-def]
    """Request i joins the batch of replica r."""
    links.heap_left[i] = -1
    links.heap_right[i] = -1
    clocks.batch_root[r] = merge(links, clocks.batch_root[r], i)
    clocks.batch[r] += 1


@inlined
def leave_batch(clocks, links, r):  # type: ignore[no-untyped-def]
    """The request that finishes first leaves the batch of replica r."""
    i = clocks.batch_root[r]
    clocks.batch_root[r] = merge(links, links.heap_left[i], links.heap_right[i])
    clocks.batch[r] -= 1
    return i
