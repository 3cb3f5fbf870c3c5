"""The analysis against the engine: a replica that serves every request finds what the reuse curve says."""

from pathlib import Path

import numpy as np
import pytest
from test_analysis_published import read

from btbench.analysis.audit import analyze
from btbench.analysis.options import Options
from btbench.cluster.gpus import GPUS
from btbench.cluster.models import MODELS
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.engine import TIERS, replay
from btbench.policies.registry import Policy
from btbench.sources import open_trace
from btbench.trace import Trace
from btbench.trace_spec import GeneratorSpec, TraceSpec

SETUP = Setup("one", MODELS["llama-3.3-70b"], (Replica("node0", GPUS["h100"], 4),))


def generated() -> Trace:
    jobs = GeneratorSpec(bursts=6, burst_size=20, burst_spacing_s=5, prefix_tokens=100_000, decoys=20, output_tokens=90)
    return open_trace(TraceSpec(source="generated", generator=jobs), Path(), seed=0)


@pytest.mark.parametrize("made", [True, False], ids=["generated", "real"])
def test_a_replay_on_one_replica_hits_what_can_be_reused(made: bool) -> None:
    trace = generated() if made else read("mooncake/conversation_trace.jsonl.gz")
    served = replay(trace, SETUP, Policy("least_load", "least_load"), ServingOptions(), 0).served
    found = analyze(trace, Options(setup=SETUP, answer_blocks=True)).reuse
    assert found is not None
    assert served.hit_tokens.sum() == found.hit_tokens  # host RAM keeps what leaves HBM, so it forgets nothing
    (at_hbm,) = [size for size in found.lru.hbm if size.blocks == found.lru.hbm_blocks]
    in_hbm = served.hit_tokens[served.tier == TIERS.index("hbm")].sum()
    whole_or_part = at_hbm.token_hit_rate * trace.input_tokens.sum()
    # a prompt whose end has left HBM counts as served from RAM, whole; the curve counts its beginning
    assert 0 < in_hbm <= whole_or_part + 0.5
    if made:  # prefixes that are there whole or not at all
        assert in_hbm == pytest.approx(whole_or_part) and in_hbm < 0.9 * found.hit_tokens


def test_half_of_the_reuse_needs_what_it_says() -> None:
    trace = generated()
    found = analyze(trace, Options()).reuse
    assert found is not None
    rates = np.array([[size.blocks, size.block_hit_rate] for size in found.lru.curve])
    for needed in found.lru.needed:
        wanted = needed.share_of_unlimited * found.block_hit_rate
        assert all(rates[rates[:, 0] >= needed.blocks, 1] >= wanted - 1e-12)
        assert all(rates[rates[:, 0] < needed.blocks / 1.022 - 1, 1] < wanted)
