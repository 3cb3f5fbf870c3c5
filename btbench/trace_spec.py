"""What a user asks for when naming a trace: the `[trace]` table of a scenario, and the options of the commands.

Strict: an unknown key, a wrong type, a number out of range is an error of pydantic, which the scenario
reader and the command line turn into a message with key and line.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Positive = Annotated[FiniteFloat, Field(ge=1e-9, le=1e24)]  # so that no sum or quotient of two overflows
NonNegative = Annotated[FiniteFloat, Field(ge=0, le=1e12)]
Seed = Annotated[int, Field(ge=0)]  # a generator takes -1 for 1
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


MOST_WINDOWS = 10_000  # cut from one trace; each is a replay of its own


class Strict(BaseModel):
    """Base of everything read from a user's file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class WindowSpec(Strict):
    """`[trace.windows]`: windows cut from one long trace (`count` × `rows`, or `span_s`), or the rows' own (`by`)."""

    count: Annotated[int, Field(ge=1, le=MOST_WINDOWS)] | None = None
    rows: Count | None = None
    span_s: Positive | None = None
    start: Annotated[int, Field(ge=0)] | Literal["random"] = 0
    seed: Seed = 1
    by: str | None = None
    label_by: str | None = None


class GeneratorSpec(Strict):
    """`[trace.generator]`: the keys of the Bursted-ART generator, defaults as published (July 2026)."""

    seed: Seed = 20260721
    skip_outputs: Annotated[int, Field(ge=0, le=10**9)] = 0  # 32-bit outputs of the generator discarded first
    windows: Count = 1  # synthetic windows built
    split: Literal["all", "train", "test"] = "all"  # train is a quarter of the shuffled windows, test the rest
    bursts: Annotated[int, Field(ge=0)] = 8
    burst_size: Count = 500
    prefix_tokens: Count = 65_536
    suffix_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] = 256
    output_tokens: Count = 1
    first_burst_s: NonNegative = 20.0
    burst_spacing_s: NonNegative = 40.0
    start_jitter_s: NonNegative = 2.0
    burst_window_s: NonNegative = 60.0
    decoys: Annotated[int, Field(ge=0)] = 120
    decoy_size: Count = 1
    decoy_window_s: NonNegative = 0.1
    lead_s: NonNegative = 6.0
    background: Annotated[int, Field(ge=0)] = 0
    background_prefix_tokens: Count = 2_048
    background_output_tokens: Count = 1
    block_tokens: Count = 256
    base: str | None = None  # a trace that windows of consecutive rows are taken from, as [trace] source, or "art-like"
    base_windows: Annotated[int, Field(ge=0, le=MOST_WINDOWS)] = 0
    base_rows: Count = 1000  # of each


class TraceSpec(Strict):
    """`[trace]`: where the requests come from."""

    source: str  # a catalogue name, a file, "-", hf:owner/repo, or "generated" with [trace.generator]
    block_tokens: Count | None = None  # needed only where the trace does not tell
    arrival_scale: Positive = 1.0
    format: str | None = None  # forces a format instead of detecting it
    default_output_tokens: Count | None = None  # for rows without output_length
    time_unit: Literal["s", "ms", "us", "ns"] | None = None  # of the time column, where the format does not tell
    tie: Literal["row", "spread"] = "row"  # equal times: kept in row order, or dealt evenly over the clock's tick
    skip_bad_rows: bool = False  # rows that cannot be read are dropped and counted
    session_gap_s: Positive = 60.0  # mean gap between invented session starts, for traces timed within sessions
    windows: WindowSpec | None = None
    generator: GeneratorSpec | None = None
