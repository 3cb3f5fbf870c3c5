"""Patience with servers, and errors of the network a person can act on.

What is refused for the moment (429, 5xx, a lost connection) is tried again after the pause the server asks for;
everything else, and the last refusal, becomes one error that says what, why, and what to do.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import TypeVar

from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from btbench.errors import BtbenchError, NetworkError, OutputError
from btbench.progress import Progress

T = TypeVar("T")


TRIES = 5  # in a row without a byte gained
FIRST_TRIES = 2  # where no server has answered yet: most likely there is no network
LONGEST_PAUSE_S = 60.0  # a server that asks for more is not waited for
# whatever HTTP library this release of huggingface_hub uses, its errors have this base
HTTP_ERROR: type[Exception] = HfHubHTTPError.__bases__[0]
PASSING = frozenset({408, 429, 500, 502, 503, 504})


def hub_endpoint() -> str:
    """Address of the Hub: `HF_ENDPOINT`, else the public one."""
    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def is_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` forbids the network."""
    return constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES


def status_of(error: Exception) -> int | None:
    """The HTTP status of a refusal, or None."""
    return error.response.status_code if isinstance(error, HfHubHTTPError) else None


def _pause_s(error: Exception, tries: int) -> float:
    """What the server asks for, else 0.5, 1, 2, 4 … s."""
    if isinstance(error, HfHubHTTPError):
        asked = error.response.headers.get("Retry-After", "")
        if asked.isdigit():
            return float(asked)
    return float(2 ** (tries - 2))


class Patience:
    """Counts failures in a row and waits after each, until there have been too many."""

    def __init__(self, what: str, progress: Progress) -> None:
        self.what = what
        self.progress = progress
        self.tries = 0
        self.waited_s = 0.0
        self.answered = False

    def gained(self) -> None:
        """Something arrived: failures are counted anew."""
        self.tries = 0
        self.answered = True

    def after(self, error: Exception) -> None:
        """Wait where another try may help; else raise what a person can act on."""
        self.tries += 1
        status = status_of(error)
        passing = isinstance(error, HTTP_ERROR) and (status is None or status in PASSING)
        pause_s = _pause_s(error, self.tries)
        self.answered |= status is not None
        if not passing or self.tries >= (TRIES if self.answered else FIRST_TRIES) or pause_s > LONGEST_PAUSE_S:
            raise explained(error, self.what, self.waited_s) from error
        reason = "rate-limited" if status == 429 else f"the server answers {status}" if status else "connection lost"
        self.progress(f"{self.what}: {reason}, going on in {pause_s:g} s", 0, 0)
        time.sleep(pause_s)
        self.waited_s += pause_s

    def run(self, action: Callable[[], T]) -> T:
        """The result of an action that can be repeated as a whole."""
        while True:
            try:
                return action()
            except BtbenchError:
                raise
            except (HTTP_ERROR, OSError) as error:
                self.after(error)


def explained(error: Exception, what: str, waited_s: float = 0.0) -> BtbenchError:
    """An error of the network, the Hub or the disk in words: what, why, and what to do."""
    status = status_of(error)
    if isinstance(error, OfflineModeIsEnabled):
        return NetworkError(
            f"{what} is not on this machine, and HF_HUB_OFFLINE is set.",
            "Unset it to fetch the trace, or bring its file here and name that: --trace FILE.",
        )
    if isinstance(error, GatedRepoError):
        return NetworkError(
            f"{what} is gated: its owner wants its terms accepted first.",
            "Accept them on its page on the Hub, then log in with `hf auth login` or set HF_TOKEN.",
        )
    if isinstance(error, RevisionNotFoundError):
        return NetworkError(f"{what}: no such revision.", "Allowed: a branch, a tag or a commit of the repository.")
    if isinstance(error, RepositoryNotFoundError):
        return NetworkError(
            f"{what} is not on the Hub at {hub_endpoint()}, or is private.",
            "Check the name; for a private one log in with `hf auth login` or set HF_TOKEN.",
        )
    if isinstance(error, EntryNotFoundError) or status == 404:
        return NetworkError(
            f"{what} is not found at its address (404).", "It may have moved: traces.toml can name another."
        )
    if status == 401:
        return NetworkError(f"{what}: the access token is refused (401).", "Check HF_TOKEN, or `hf auth login` again.")
    if status == 403:
        return NetworkError(f"{what}: access is forbidden (403).", "The account behind HF_TOKEN may not read it.")
    if status == 429:
        return NetworkError(
            f"{what}: rate-limited (429), also after waiting {waited_s:g} s.",
            "Try again later; logged-in users (HF_TOKEN) are allowed more. What has arrived is kept.",
        )
    if status is not None:
        return NetworkError(f"{what}: the server answers {status}.", "Try again later; what has arrived is kept.")
    if isinstance(error, HTTP_ERROR):
        return NetworkError(
            f"{what}: no connection ({str(error) or type(error).__name__}).",
            "Check the network, proxies and HF_ENDPOINT, then try again; what has arrived is kept.",
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return OutputError(f"{what}: the disk is full ({error.filename or 'cache folder'}).", "BTBENCH_CACHE moves it.")
    return OutputError(f"{what}: cannot be kept: {error}.", "BTBENCH_CACHE moves the cache folder.")
