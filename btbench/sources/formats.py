"""The trace formats people have: their columns, units and the meaning of their block ids.

One literal row a format. What differs between them is settled here and never guessed: the unit of time, the block
size, and whether an id stands for the whole prefix, for one block alone, or for something only its session knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from btbench.errors import TraceError, nearest
from btbench.sources.oddities import listed

UNITS_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
ROLES = ("time", "input", "output", "blocks", "session", "parent", "user", "delay", "window", "label")


@dataclass(frozen=True)
class Format:
    """How one kind of file names and means its columns."""

    name: str
    title: str  # for people
    signature: tuple[tuple[str, ...], ...]  # recognised by all columns of any of these
    columns: dict[str, str] = field(default_factory=dict)  # role -> column
    unit: str | None = "s"  # of time: a key of UNITS_PER_S, "date", "none", or None where it cannot be told
    block_tokens: int | None = None
    ids: Literal["prefix", "block", "session", "none"] = "prefix"  # what a block id stands for
    layout: Literal["rows", "sessions", "conversations"] = "rows"  # what one row or document holds
    drops_failures: bool = False  # rows without any token are failed requests

    def column(self, role: str) -> str:
        """The column's name, for messages."""
        return self.columns.get(role, role)


_LENGTHS = {"input": "input_length", "output": "output_length", "blocks": "hash_ids"}
_OWN = {"time": "arrival_s", **_LENGTHS, "window": "trace_id", "label": "source"}
_AIPERF = {"time": "timestamp", **_LENGTHS, "session": "session_id", "delay": "delay"}

FORMATS = (
    Format(
        "weka",
        "Weka agent sessions (kv-cache-tester, cc-traces)",
        (("requests", "hash_id_scope"), ("requests", "block_size")),
        ids="session",
        layout="sessions",
    ),
    Format(
        "bursted-art",
        "Bursted-ART",
        (("arrival_s", "trace_id", "row_in_window"), ("arrival_s", "trace_id", "dataset_version")),
        _OWN,
        block_tokens=256,
    ),
    Format("btbench", "btbench rows", (("arrival_s", "input_length"),), _OWN),
    Format(
        "art",
        "ART-Chat (Parquet)",
        (("timestamp_ms", "input_length"),),
        {"time": "timestamp_ms", **_LENGTHS, "user": "token_hash"},
        unit="ms",
        block_tokens=256,
    ),
    Format(
        "art",
        "ART-Chat (JSONL)",
        (("timestamp", "input_length", "unique_input_tokens"), ("timestamp", "input_length", "token_hash")),
        {"time": "timestamp", **_LENGTHS, "user": "token_hash"},
        unit="ms",
        block_tokens=256,
    ),
    Format(
        "qwen-bailian",
        "Qwen-Bailian usage trace",
        (("timestamp", "input_length", "chat_id", "parent_chat_id"),),
        {"time": "timestamp", **_LENGTHS, "session": "chat_id", "parent": "parent_chat_id"},
        block_tokens=16,
        ids="block",
    ),
    Format(
        "mooncake",
        "Mooncake (also AIPerf's superset and vLLM timed_trace)",
        (
            ("timestamp", "input_length", "hash_ids"),
            ("input_length", "delay"),
            ("input_length", "session_id"),
            ("timestamp", "input_length", "text_input"),
            ("timestamp", "input_length", "messages"),
        ),
        _AIPERF,
        unit="ms",
        block_tokens=512,
    ),
    Format(
        "plain",
        "rows of timestamp and lengths, unit of time not told",
        (("timestamp", "input_length"),),
        {"time": "timestamp", **_LENGTHS},
        unit=None,
    ),
    Format(
        "burstgpt",
        "BurstGPT",
        (("Timestamp", "Request tokens", "Response tokens"),),
        {"time": "Timestamp", "input": "Request tokens", "output": "Response tokens", "session": "Session ID"},
        ids="none",
        drops_failures=True,
    ),
    Format(
        "azure",
        "Azure LLM inference trace (also Splitwise)",
        (("TIMESTAMP", "ContextTokens", "GeneratedTokens"),),
        {"time": "TIMESTAMP", "input": "ContextTokens", "output": "GeneratedTokens"},
        unit="date",
        ids="none",
    ),
    Format(
        "lmsys",
        "LMSYS-Chat-1M conversations",
        (("conversation_id", "conversation"),),
        unit="none",
        ids="none",
        layout="conversations",
    ),
    Format(
        "sharegpt", "ShareGPT conversations", (("conversations",),), unit="none", ids="none", layout="conversations"
    ),
)
DRAWN = frozenset(f.name for f in FORMATS if f.layout == "sessions")  # formats whose arrivals are drawn
NAMES = list(dict.fromkeys(f.name for f in FORMATS))


def block_tokens_of(name: str) -> int | None:
    """Tokens of a block of a format, where it tells."""
    return next((f.block_tokens for f in FORMATS if f.name == name), None)


def check_format_name(name: str) -> None:
    """Raises TraceError where no format is called so."""
    if name not in NAMES:
        raise TraceError(f"Unknown trace format {name!r}.", nearest(name, NAMES))


def detect(keys: Iterable[str], file: str, forced: str | None = None) -> Format:
    """The format whose columns these are, or the forced one. Raises TraceError where none fits."""
    have = set(keys)
    if forced is not None:
        check_format_name(forced)
        candidates = [f for f in FORMATS if f.name == forced]
    else:
        candidates = list(FORMATS)
    for candidate in candidates:
        if any(have.issuperset(signature) for signature in candidate.signature):
            return candidate
    if forced is not None:
        return _forced(candidates, have, file)
    raise TraceError(
        f"{file}: no known trace format has just these columns: {listed(have)}.",
        _closest(have)
        or f"A row needs at least arrival_s, input_length and output_length. Formats: {', '.join(NAMES)}.",
    )


def _closest(have: set[str]) -> str | None:
    """What the format that shares most columns would need besides."""
    pairs = [(candidate, set(signature)) for candidate in FORMATS for signature in candidate.signature]
    candidate, signature = max(pairs, key=lambda pair: (len(pair[1] & have) / len(pair[1]), len(pair[1] & have)))
    if not signature & have:
        return None
    missing = ", ".join(map(repr, sorted(signature - have)))
    return f"The nearest is {candidate.name} ({candidate.title}), which needs {missing} besides."


def _forced(candidates: list[Format], have: set[str], file: str) -> Format:
    """The first candidate whose time and input columns exist."""
    missing: list[str] = []
    for candidate in candidates:
        needed = [candidate.columns[role] for role in ("time", "input") if role in candidate.columns]
        needed = needed or list(candidate.signature[0])
        lacking = [column for column in needed if column not in have]
        if not lacking:
            return candidate
        missing = missing or lacking
    raise TraceError(
        f"{file}: missing column {', '.join(map(repr, missing))} of format {candidates[0].name!r}.",
        f"Found: {listed(have)}.",
    )
