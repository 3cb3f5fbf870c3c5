"""Least-recently-used order as doubly linked lists through an array of places.

A place has fields `older` and `newer` (-1 = end); whoever owns a list has `oldest` and `newest` (-1 = empty).
"""

from btbench.jit import inlined


@inlined
def append_newest(places, owner, place):  # type: ignore[no-untyped-def]
    """Make a place that is in no list the most recently used one of an owner."""
    places[place].older = owner.newest
    places[place].newer = -1
    if owner.newest >= 0:
        places[owner.newest].newer = place
    else:
        owner.oldest = place
    owner.newest = place


@inlined
def unlink(places, owner, place):  # type: ignore[no-untyped-def]
    """Take a place out of its owner's list."""
    older = places[place].older
    newer = places[place].newer
    if older >= 0:
        places[older].newer = newer
    else:
        owner.oldest = newer
    if newer >= 0:
        places[newer].older = older
    else:
        owner.newest = older
