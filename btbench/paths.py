"""Folders btbench keeps things in."""

import os
from pathlib import Path

import platformdirs


def cache_root() -> Path:
    """Where btbench keeps what it can make again: `BTBENCH_CACHE`, else the user's cache folder."""
    return Path(os.environ.get("BTBENCH_CACHE") or platformdirs.user_cache_dir("btbench", appauthor=False))
