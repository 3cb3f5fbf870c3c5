"""Options that are lists of numbers with commas between them."""

import math
from collections.abc import Callable
from typing import TypeVar

from btbench.errors import UsageError

MOST = 2**31 - 1
T = TypeVar("T", int, float)


def counts(option: str, text: str, may_be_empty: bool = False) -> tuple[int, ...]:
    """Whole numbers from 1 on, ascending, each once. Raises UsageError."""
    hint = f"Allowed: whole numbers from 1 to {MOST:,} with commas between them, as in {option} 4,16."
    return tuple(_parse(option, text, int, lambda n: 1 <= n <= MOST, hint, may_be_empty))


def lengths_s(option: str, text: str, may_be_zero: bool = False) -> tuple[float, ...]:
    """Lengths of time in seconds, ascending, each once. Raises UsageError."""
    least = "from 0 on" if may_be_zero else "above 0"
    hint = f"Allowed: seconds {least}, with commas between them, as in {option} 0.5,10."
    return tuple(
        _parse(option, text, float, lambda s: math.isfinite(s) and (s > 0 or (may_be_zero and s == 0)), hint, False)
    )


def _parse(
    option: str, text: str, kind: type[T], allowed: Callable[[T], bool], hint: str, may_be_empty: bool
) -> list[T]:
    if not text.strip() and may_be_empty:
        return []
    numbers: list[T] = []
    for part in text.split(","):
        try:
            number = kind(part)
        except ValueError:
            number = kind(-1)
        if not allowed(number):
            raise UsageError(f"{option} {text}: {part.strip()!r} is not allowed", hint)
        numbers.append(number)
    return sorted(set(numbers))
