"""The running batch of a replica: a skew heap of requests ordered by the decode step of their last token."""

from btbench.jit import inlined


@inlined
def merge(served, a, b):  # type: ignore[no-untyped-def]
    """The root of two heaps joined (-1 is an empty heap); amortised O(log n), no storage beyond two links a request."""
    if a < 0:
        return b
    if b < 0:
        return a
    if served[b].last_step < served[a].last_step:
        a, b = b, a
    root = a
    while True:
        right = served[a].heap_right
        served[a].heap_right = served[a].heap_left
        if right < 0:
            served[a].heap_left = b
            return root
        if served[b].last_step < served[right].last_step:
            right, b = b, right
        served[a].heap_left = right
        a = right


@inlined
def join_batch(replica, served, i):  # type: ignore[no-untyped-def]
    """Request i joins the batch of a replica."""
    served[i].heap_left = -1
    served[i].heap_right = -1
    replica.batch_root = merge(served, replica.batch_root, i)
    replica.batch += 1


@inlined
def leave_batch(replica, served):  # type: ignore[no-untyped-def]
    """The request that finishes first leaves the batch of a replica."""
    i = replica.batch_root
    replica.batch_root = merge(served, served[i].heap_left, served[i].heap_right)
    replica.batch -= 1
    return i
