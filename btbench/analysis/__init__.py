"""What a trace says: same-prefix fan-out, bursts, reuse, arrivals, lengths.

`audit.analyze(trace, options)` measures everything and returns one value. The parts, bottom up:

    prefixes -> groups -> bursts -> fanout -> headline     how many requests that begin alike arrive together
                                 -> burst_list, detection  which bursts, and what btb's rule would notice of them
    prefixes -> stack_distance, owners -> reuse            what caches of every size would hit
    arrivals, lengths                                      the rest

A trace of several windows is pooled, never joined, for each window is replayed by itself on a fresh cluster. A group
is the requests *of one window* that begin alike, so a prefix that two windows have makes two groups; numbers of groups,
bursts and hits add up, time spans add up (for rates), and a largest fan-out or peak is the largest of any window. No
window of time reaches from one window of the trace into the next, and no request reuses what another window brought in.
"""
