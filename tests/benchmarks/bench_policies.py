"""How fast each policy routes, on one core, compiling and parsing aside.

pytest tests/benchmarks/bench_policies.py --benchmark-columns=min,mean,rounds

Each bound is what btbench promises; what was measured stands in the extra columns (--benchmark-json).
"""

from pathlib import Path

import pytest
from benchmarks.bench_engine import engine_s, h100s
from cases import folder_of

from btbench.cluster.setup import ServingOptions
from btbench.engine import replay
from btbench.policies.custom import Decision
from btbench.policies.parameters import BtbParameters, Parameters, SglangParameters
from btbench.policies.plugins import load_plugin
from btbench.policies.registry import NAMES, Policy
from btbench.sources import open_trace
from btbench.sources.generator import generate_trace
from btbench.trace_spec import GeneratorSpec, TraceSpec


def sglang(**rule) -> Policy:
    return Policy("sglang", "sglang", Parameters(sglang=SglangParameters(**rule)))


POLICIES = {
    **{name: Policy(name, name) for name in NAMES},
    "sglang 0.2.2": sglang(version="0.2.2"),
    "sglang 0.2.4": sglang(version="0.2.4"),
    "sglang slipping": sglang(sub_block_match=1.0),
    "sglang forgetting": sglang(max_tree_tokens=1e6, eviction_interval_s=0.1),
    "btb before smg": Policy("btb", "btb", Parameters(btb=BtbParameters(fallback="smg"))),
}


@pytest.mark.parametrize("name", POLICIES)
def test_bursted_window(benchmark, name):
    """At least 1 million requests/s on 4 replicas."""
    trace = generate_trace(GeneratorSpec())
    assert len(trace) / engine_s(benchmark, trace, h100s(4), POLICIES[name]) > 1e6


@pytest.mark.parametrize("name", POLICIES)
def test_256_replicas(benchmark, name):
    """A request costs at most twenty times what it costs on 4 replicas."""
    trace = generate_trace(GeneratorSpec())
    policy = POLICIES[name]
    few = min(replay(trace, h100s(4), policy, ServingOptions(), 42).engine_s for _ in range(20))
    many = engine_s(benchmark, trace, h100s(256), policy)
    benchmark.extra_info["times_the_cost_at_4"] = round(many / few, 2)
    assert many < 20 * few


@pytest.mark.parametrize("name", POLICIES)
def test_mooncake_conversation(benchmark, name):
    """At least 1 million requests/s on the real trace, whose prompts all begin with one block."""
    folder = folder_of("BTBENCH_TRACES")
    if folder is None:
        pytest.skip("BTBENCH_TRACES does not point to real traces")
    trace = open_trace(TraceSpec(source=str(folder / "mooncake" / "conversation_trace.jsonl.gz")), Path(), seed=42)
    assert len(trace) / engine_s(benchmark, trace, h100s(4), POLICIES[name]) > 1e6


class FewestTokens:
    """A policy in Python that looks at every replica."""

    def route(self, request, cluster) -> Decision:
        return Decision(min(range(len(cluster.load)), key=cluster.queued_tokens.__getitem__))


def test_a_class_in_python(benchmark):
    """At least 100,000 requests/s on 4 replicas."""
    trace = generate_trace(GeneratorSpec())
    policy = Policy("FewestTokens", "custom", custom=FewestTokens)
    assert len(trace) / engine_s(benchmark, trace, h100s(4), policy) > 1e5


LEAST_LOAD = """\
from btbench.jit import inlined
from btbench.policies.picks import pick_least_loaded


@inlined
def mine(view, i, memory, draws, orders):
    return pick_least_loaded(view.load, draws)
"""


def test_a_compiled_function(benchmark, tmp_path):
    """As fast as a built-in policy, within half: `least_load` again, from a file."""
    (tmp_path / "mine.py").write_text(LEAST_LOAD)
    trace = generate_trace(GeneratorSpec())
    built_in = min(replay(trace, h100s(4), POLICIES["least_load"], ServingOptions(), 42).engine_s for _ in range(30))
    assert engine_s(benchmark, trace, h100s(4), load_plugin("mine.py:mine", tmp_path)) < 1.5 * built_in
