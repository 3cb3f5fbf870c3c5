"""Folders btbench keeps things in."""

import os
from pathlib import Path

import platformdirs


def cache_root() -> Path:
    """Where btbench keeps what it can make again: `BTBENCH_CACHE`, else the user's cache folder."""
    return Path(os.environ.get("BTBENCH_CACHE") or platformdirs.user_cache_dir("btbench", appauthor=False))


def printable_name(text: str) -> str:
    """Text that may hold names of files, with � for each byte that is no UTF-8, so that it can be written anywhere."""
    return "".join("\N{REPLACEMENT CHARACTER}" if "\ud800" <= c <= "\udfff" else c for c in text)
