"""Conversations without times (LMSYS-Chat-1M, ShareGPT): every answer is a request that has all before it as prompt.

There are no times and no tokens in them. Lengths are taken as one token for four characters, which is said; they
serve for a look at lengths and turns, never for a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from btbench.sources.batches import Batch
from btbench.sources.containers import numbered_lines
from btbench.sources.oddities import Intake
from btbench.sources.spelling import BROKEN, fault, in_words

BATCH_ROWS = 8_192
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
    """Batches of requests; rows have the number of their conversation."""
    requests = _requests(blocks, intake)
    while some := list(islice(requests, BATCH_ROWS)):
        lines, prompts, answers = (list(column) for column in zip(*some, strict=True))
        yield Batch(lines, {"time": [0.0] * len(some), "input": prompts, "output": answers, "session": lines})


def _requests(blocks: Iterator[bytes], intake: Intake) -> Iterator[tuple[int, int, int]]:
    """Conversation, prompt tokens and answer tokens of each answer; what cannot be decoded is refused."""
    for line, text in numbered_lines(blocks):
        try:
            conversation = _DECODER.decode(text)
        except msgspec.ValidationError as error:
            intake.refuse(line, "wrong type", in_words(error))
            continue
        except BROKEN as error:
            intake.refuse(line, "not JSON", f"not a conversation ({fault(error, text)}).")
            continue
        before = 0
        for turn in conversation.conversation or conversation.conversations or []:
            characters = len(turn.content or turn.value or "")
            if (turn.role or turn.speaker) in ANSWERS and before:
                yield line, _tokens(before), _tokens(characters)
            before += characters
