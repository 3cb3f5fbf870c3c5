"""Charts put beside what a folder holds: all or none of them, and nothing replaced without being asked."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path


def draw_into(folder: Path, force: bool, draw: Callable[[Path], Sequence[Path]]) -> list[Path]:
    """Have `draw` write charts aside, put them into `folder` and return their paths.

    Raises OutputError where one cannot be written, or is there already and `force` is not given.
    """
    from btbench.errors import OutputError
    from btbench.results.files import SUMMARY
    from btbench.results.whole import whole_files

    if (folder / SUMMARY).exists():
        raise OutputError(f"{folder} holds a result, whose charts are others", "Choose another folder with --out.")

    with whole_files(folder) as aside:
        try:
            paths = [folder / path.name for path in draw(aside)]
        except OutputError as error:  # which names the folder aside
            raise OutputError(error.message.replace(str(aside), str(folder)), error.hint) from None
        there = [path for path in paths if os.path.lexists(path)]
        if there and not force:
            more = f" and {len(there) - 1} more" if len(there) > 1 else ""
            raise OutputError(
                f"{there[0]}{more} exist{'' if more else 's'} already",
                "Replace with --force, or choose another folder with --out.",
            )
    return paths
