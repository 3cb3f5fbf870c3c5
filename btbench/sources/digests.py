"""Digests of traces that were read from no file."""

import numpy as np
import xxhash

from btbench.trace import Trace


def content_digest(trace: Trace) -> str:
    """Of the arrays, windows and block size of a trace."""
    digest = xxhash.xxh3_128()
    for array in (
        trace.arrival_s,
        trace.input_tokens,
        trace.output_tokens,
        trace.run_offsets,
        trace.runs,
        trace.run_blocks,
        trace.tail_blocks,
    ):
        digest.update(np.ascontiguousarray(array).data)
    digest.update(repr((trace.block_tokens, trace.windows)).encode())
    return f"xxh3_128:{digest.hexdigest()}"
