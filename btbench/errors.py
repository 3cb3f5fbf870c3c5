"""What can go wrong through a user's input: one class, a few named kinds.

Every error of this family is printed as a few lines, without a traceback, and ends the command with
its exit status. Anything else that escapes is a fault of btbench and fails loudly.
"""


class BtbenchError(Exception):
    """A problem the user can mend.

    `message` says what was wrong and where (file, line or row, key, value); `hint` says what is allowed
    or what to do.
    """

    exit_status = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class UsageError(BtbenchError):
    """An option or argument of the command line is wrong."""


class ScenarioError(BtbenchError):
    """A scenario file is wrong: key, line, value, what is allowed."""


class TraceError(BtbenchError):
    """A trace cannot be read: file, line or row, what was found, what is allowed."""


class CapacityError(BtbenchError):
    """A model or a request does not fit the replica named."""


class PolicyError(BtbenchError):
    """A policy of the user's own cannot be loaded, raised, or decided what cannot be done."""


class OutputError(BtbenchError):
    """A result cannot be written or read back."""


class NetworkError(BtbenchError):
    """A trace cannot be brought over the network."""


class GateFailed(BtbenchError):
    """A `--fail-on` gate of a comparison failed."""

    exit_status = 1


def nearest(word: str, allowed: list[str]) -> str:
    """The allowed names as a hint, opened by the nearest spelling of `word` where there is one."""
    import difflib

    close = difflib.get_close_matches(word, allowed, n=1, cutoff=0.5)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}Allowed: {', '.join(dict.fromkeys(allowed))}."
