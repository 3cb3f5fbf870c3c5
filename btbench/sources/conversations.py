"""Conversations without times (LMSYS-Chat-1M, ShareGPT): every answer is a request that has all before it as prompt.

There are no times and no tokens in them. Lengths are taken as one token for four characters, which is said; they
serve for a look at lengths and turns, never for a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from btbench.sources.batches import Batch
from btbench.sources.oddities import Intake
from btbench.sources.spelling import in_words

CHARACTERS_PER_TOKEN = 4
NOTE = "the trace has no times, and lengths are estimated: one token for four characters"
ANSWERS = frozenset({"assistant", "gpt", "chatgpt", "bard", "bing", "model"})


class _Turn(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    speaker: str | None = msgspec.field(default=None, name="from")
    value: str | None = None


class _Conversation(msgspec.Struct):
    conversation: list[_Turn] | None = None
    conversations: list[_Turn] | None = None


_DECODER = msgspec.json.Decoder(_Conversation)


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def read_rows(blocks: Iterator[bytes], intake: Intake) -> Iterator[Batch]:
    """One batch for some conversations; rows have the number of their conversation."""
    line = 0
    for block in blocks:
        rows: list[int] = []
        columns: dict[str, list[Any]] = {"time": [], "input": [], "output": [], "session": []}
        for text in block.split(b"\n"):
            line += 1
            if not text.strip():
                continue
            try:
                conversation = _DECODER.decode(text)
            except msgspec.ValidationError as error:
                intake.refuse(line, "wrong type", in_words(error))
                continue
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                intake.refuse(line, "not JSON", f"not a conversation ({error}).")
                continue
            before = 0
            for turn in conversation.conversation or conversation.conversations or []:
                length = len(turn.content or turn.value or "")
                if (turn.role or turn.speaker) in ANSWERS and before:
                    rows.append(line)
                    for role, value in (("time", 0.0), ("session", line)):
                        columns[role].append(value)
                    columns["input"].append(_tokens(before))
                    columns["output"].append(_tokens(length))
                before += length
        if rows:
            yield Batch(rows, columns)
