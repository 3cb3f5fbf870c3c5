"""Timers that fire at every multiple of an interval."""

import numpy as np

from btbench.jit import inlined


@inlined
def multiple_after(now, interval):  # type: ignore[no-untyped-def]
    """The first multiple of an interval after a time, k × interval in floating point."""
    k = np.floor(now / interval)  # which rounding may have put one too high
    while k * interval <= now:
        if (k + 1) * interval == k * interval:  # an interval too short to tell from none
            return now
        k += 1
    return k * interval


@inlined
def multiple_until(now, interval):  # type: ignore[no-untyped-def]
    """The last multiple of an interval at or before a time, k × interval in floating point."""
    k = np.floor(now / interval)  # which rounding may have put one too high or too low
    while k * interval > now:
        k -= 1
    while (k + 1) * interval <= now:
        if (k + 1) * interval == k * interval:  # an interval too short to tell from none
            return now
        k += 1
    return k * interval
