"""Files of charts: the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from btbench.charts.palette import LIGHT, Theme
from btbench.errors import UsageError, nearest
from btbench.results.summary import ALL

FORMATS = ("png", "svg", "pdf")


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """The formats, each once. Raises UsageError with those allowed."""
    for name in formats:
        if name not in FORMATS:
            raise UsageError(f"no such chart format: {name!r}", nearest(name, list(FORMATS)))
    return tuple(dict.fromkeys(formats))


_METADATA: dict[str, dict[str, Any]] = {  # nothing that changes from one run to the next
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "btbench"},
    "pdf": {"CreationDate": None, "Creator": "btbench", "Producer": None},
}


def save_figure(figure: Figure, folder: Path, stem: str, formats: Sequence[str], theme: Theme) -> list[Path]:
    """Write the figure as `stem.png` and so on (`stem-dark.png` on a dark page). Returns the paths.

    The folder is one whose files appear together (`whole_files`), so that none is seen by halves.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind in formats:
        path = folder / file_name(stem, kind, theme)
        figure.savefig(path, format=kind, metadata=_METADATA[kind])
        paths.append(path)
    return paths


def file_name(stem: str, kind: str, theme: Theme) -> str:
    """`stem.png`, or `stem-dark.png` on a dark page."""
    return f"{stem}.{kind}" if theme is LIGHT else f"{stem}-{theme.name}.{kind}"


def stem_of(name: str, part: str) -> str:
    """What the file of a chart is called, before its ending."""
    return name if part == ALL else name + "-" + re.sub(r"[^\w.-]+", "_", part)
