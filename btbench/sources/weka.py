"""Weka agent sessions (kv-cache-tester, cc-traces): one JSON document a session, with sub-agents inside.

Times count from the start of a session (those of a sub-agent from its own start), and nothing says when the
sessions began: starts are drawn, a Poisson process with a given mean gap, in the order of the sessions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from btbench.sources.batches import Batch
from btbench.sources.containers import numbered_lines
from btbench.sources.oddities import Intake
from btbench.sources.spelling import BROKEN, fault, in_words

_NULL = msgspec.Raw(b"null")


class _Request(msgspec.Struct, rename={"input_tokens": "in", "output_tokens": "out"}):
    t: float = 0.0
    input_tokens: int | None = None
    output_tokens: int | None = None
    hash_ids: msgspec.Raw = _NULL
    requests: list[_Request] | None = None  # of a sub-agent


class _Session(msgspec.Struct):
    requests: list[_Request]
    block_size: int | None = None
    hash_id_scope: str | None = None


_DECODER = msgspec.json.Decoder(_Session)


@dataclass
class Sessions:
    """What is common to all sessions of a trace, and the clock that starts them."""

    gap_s: float  # mean time between two starts
    seed: int
    block_tokens: int | None = None
    scope: str = "local"
    count: int = 0

    def __post_init__(self) -> None:
        self._draws = random.Random(self.seed)
        self._start_s = 0.0

    def next_start_s(self) -> float:
        """When the next session starts; the first at 0."""
        if self.count:
            self._start_s += self._draws.expovariate(1.0 / self.gap_s)
        self.count += 1
        return self._start_s

    def note(self) -> str:
        """What was invented, in words."""
        return (
            f"session starts are not in the trace: {self.count} drawn with seed {self.seed}, "
            f"one every {self.gap_s:g} s on average"
        )

    def agree(self, session: _Session, line: int, intake: Intake) -> None:
        """Raises TraceError where a session differs from those before in what must be the same."""
        size, scope = session.block_size, session.hash_id_scope or "local"
        if self.count and (size, scope) != (self.block_tokens, self.scope):
            intake.fail(
                f"session {line} has block_size {size} and hash_id_scope {scope!r}, those before "
                f"{self.block_tokens} and {self.scope!r}.",
                "One trace has one block size.",
            )
        self.block_tokens, self.scope = size, scope


def _flat(requests: list[_Request], from_s: float) -> Iterator[tuple[float, _Request]]:
    """All requests with their times from the session's start, those of sub-agents too."""
    for request in requests:
        at_s = from_s + request.t
        if request.requests is not None:
            yield from _flat(request.requests, at_s)
        else:
            yield at_s, request


def read_rows(blocks: Iterator[bytes], sessions: Sessions, intake: Intake) -> Iterator[Batch]:
    """One batch a session; a session that cannot be decoded is refused. Rows have the number of their session."""
    for line, text in numbered_lines(blocks):
        try:
            session = _DECODER.decode(text)
        except msgspec.ValidationError as error:
            intake.refuse(line, "wrong type", in_words(error))
            continue
        except BROKEN as error:
            intake.refuse(line, "not JSON", f"not a session ({fault(error, text)}).")
            continue
        sessions.agree(session, line, intake)
        start_s = sessions.next_start_s()
        found = [(start_s + at_s, request) for at_s, request in _flat(session.requests, 0.0)]
        columns: dict[str, Any] = {
            "time": [at_s for at_s, _ in found],
            "input": [request.input_tokens for _, request in found],
            "output": [request.output_tokens for _, request in found],
            "blocks": [request.hash_ids for _, request in found],
            "session": [sessions.count] * len(found),
        }
        if found:
            yield Batch([line] * len(found), columns)
