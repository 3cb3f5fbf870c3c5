"""The shape of a scenario file, table by table. `[trace]` has a file of its own, `btbench.trace_spec`.

Strict: an unknown key, a wrong type, a number out of range is a mistake. What one table says about another (a model
that is named, say) is looked at afterwards, in `resolve`.
"""

from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import Field, FiniteFloat, model_validator

from btbench.cluster.setup import ServingOptions
from btbench.scenario.words import Words
from btbench.trace_spec import Count, NonNegative, Positive, Seed, Strict, TraceSpec

# A scenario's name becomes a folder's; the others stand in tables and charts.
Name = Annotated[str, Field(pattern=r"^[^./\\\p{Cc}][^/\\\p{Cc}]*$"), Words("a name of one line without / or \\")]
LEAST_SHARE = 1e-6
Share = Annotated[FiniteFloat, Ge(LEAST_SHARE), Le(1)]


class EngineTable(Strict):
    """`[engine]`."""

    mfu: Share = ServingOptions.mfu
    mbu: Share = ServingOptions.mbu
    max_batch: Count = ServingOptions.max_batch
    disk_cache: bool = ServingOptions.disk_cache
    copies_wait: bool = ServingOptions.copies_wait  # `btbench.engine.copies` tells the rule


class RouterTable(Strict):
    """`[router]`: how old what the router knows is, and how often it is renewed."""

    signal_delay_s: NonNegative = ServingOptions.signal_delay_s
    signal_interval_s: Positive = ServingOptions.signal_interval_s


class ModelTable(Strict):
    """`[models.<name>]`: the fields of `cluster.models.Model`."""

    params: Positive
    active_params: Positive
    dtype_bytes: Positive
    layers: Count
    kv_heads: Count
    head_dim: Count


class GpuTable(Strict):
    """`[gpus.<name>]`: the fields of `cluster.gpus.Gpu`."""

    flops: Positive
    hbm_bytes_per_s: Positive
    hbm_bytes: Positive
    pcie_bytes_per_s: Positive
    rdma_bytes_per_s: Positive
    disk_bytes_per_s: Positive


class ReplicaTable(Strict):
    """One entry of `cluster`."""

    name: Name
    gpu: str
    gpus: Count


class SetupTable(Strict):
    """`[[setup]]`: equal replicas by number, or unequal ones by `cluster`."""

    name: Name
    model: str
    gpu: str | None = None
    gpus_per_replica: Count | None = None
    replicas: Annotated[int, Field(ge=1, le=100_000)] | None = None
    cluster: Annotated[list[ReplicaTable], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "SetupTable":
        equal = {"gpu", "gpus_per_replica", "replicas"}
        given = equal & self.model_fields_set
        if self.cluster is None and given != equal:
            raise ValueError(f"needs {', '.join(sorted(equal - given))} (or, for unequal replicas, cluster)")
        if self.cluster is not None and given:
            raise ValueError(f"cluster lists the replicas, so {', '.join(sorted(given))} cannot be given too")
        return self


class PublishedTable(Strict):
    """`[[published]]`: values somebody else found for this scenario, printed beside the results."""

    setup: str
    policy: str
    part: str = "all"
    mean_ttft_s: Positive
    p95_ttft_s: Positive | None = None


class ScenarioTable(Strict):
    """The whole file. The keys of `[policy.*]` depend on the policy (`btbench.scenario.policies`)."""

    name: Name | None = None
    seed: Seed = 42
    seeds: Annotated[int, Field(ge=1, le=1_000)] = 1
    policies: Annotated[list[str], Field(min_length=1)]
    baseline: str | None = None
    trace: TraceSpec
    engine: EngineTable = EngineTable()
    router: RouterTable = RouterTable()
    policy: dict[str, dict[str, Any]] = Field(default_factory=dict)
    setup: Annotated[list[SetupTable], Field(min_length=1)]
    models: dict[str, ModelTable] = Field(default_factory=dict)
    gpus: dict[str, GpuTable] = Field(default_factory=dict)
    published_source: str | None = None
    published: list[PublishedTable] = Field(default_factory=list)
