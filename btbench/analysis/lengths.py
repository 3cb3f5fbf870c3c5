"""How long prompts and answers are, and how much of a prompt a cache could hold."""

from dataclasses import dataclass

import numpy as np

from btbench.analysis.prepared import Prepared
from btbench.analysis.statistics import Distribution, distribution


@dataclass(frozen=True)
class Lengths:
    """Distributions over all requests."""

    input_tokens: Distribution | None
    output_tokens: Distribution | None
    cacheable_tokens: Distribution | None  # min(prompt blocks × block tokens, input); null without blocks
    prompt_blocks: Distribution | None


def measure_lengths(prepared: Prepared) -> Lengths:
    """Lengths of a trace."""
    trace = prepared.trace
    cacheable = np.minimum(prepared.blocks * trace.block_tokens, trace.input_tokens)
    return Lengths(
        input_tokens=distribution(trace.input_tokens),
        output_tokens=distribution(trace.output_tokens),
        cacheable_tokens=distribution(cacheable) if trace.has_blocks else None,
        prompt_blocks=distribution(prepared.blocks) if trace.has_blocks else None,
    )
