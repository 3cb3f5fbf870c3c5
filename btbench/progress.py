"""The one way long work tells how far it is: an optional callback, and nothing else calls back."""

from collections.abc import Callable

# (what is being done, units done, units in all or 0 where not known); called a few times a second at most
Progress = Callable[[str, float, float], None]


def silent(stage: str, done: float, total: float) -> None:
    """A callback that shows nothing."""
