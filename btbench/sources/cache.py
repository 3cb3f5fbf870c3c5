"""Packed traces on disk, so that a file is parsed once: one file a trace, named by content and options.

Layout: `MAGIC`, XXH3 (128 bits) of all that follows, the length of the header (8 bytes, little-endian), the header
(JSON: fields of the trace; name, dtype and length of each array), then the arrays, each at a multiple of 64 bytes.
Written under another name and renamed, so a reader sees a whole file or none; a damaged one is noticed by its digest
and made again.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import xxhash

from btbench.paths import cache_root
from btbench.sources.packing import Whole
from btbench.trace import Oddity, Trace, Window

MAGIC = b"btbench-trace-01"
BEFORE = len(MAGIC) + 16  # bytes, with the digest
ALIGNMENT = 64
PACKAGE = Path(__file__).parent


def code_digest() -> str:
    """Digest of the code that reads and packs, so that nothing packed by other code is taken for its own."""
    digest = xxhash.xxh3_128()
    for path in sorted([*PACKAGE.glob("*.py"), PACKAGE.parent / "runs.py", PACKAGE.parent / "trace.py"]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def cache_path(digest: str, options: dict[str, Any]) -> Path:
    """Where the trace of this content, packed under these options, is kept."""
    key = msgspec.json.encode([code_digest(), digest, sorted(options.items())])
    return cache_root() / "traces" / f"{xxhash.xxh3_128_hexdigest(key)}.trace"


def _arrays(whole: Whole) -> dict[str, np.ndarray[Any, Any]]:
    values = {f.name: getattr(whole.trace, f.name) for f in fields(Trace)} | {"row": whole.row}
    return {name: np.ascontiguousarray(v) for name, v in values.items() if isinstance(v, np.ndarray)}


def store(path: Path, whole: Whole) -> None:
    """Keep a packed trace; a folder that cannot be written is no error."""
    arrays = _arrays(whole)
    plain = {f.name: getattr(whole.trace, f.name) for f in fields(Trace) if f.name not in arrays}
    header = msgspec.json.encode([plain, [(name, v.dtype.str, v.size) for name, v in arrays.items()]])
    start = len(header).to_bytes(8, "little") + header
    chunks: list[Any] = [start, bytes(-(BEFORE + len(start)) % ALIGNMENT)]
    for values in arrays.values():
        data = values.data.cast("B") if values.size else b""
        chunks += [data, bytes(-len(data) % ALIGNMENT)]
    digest = xxhash.xxh3_128()
    for chunk in chunks:
        digest.update(chunk)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                out.writelines([MAGIC, digest.digest(), *chunks])
            os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise


def load(path: Path) -> Whole | None:
    """The packed trace of a file, or None where there is none or it is damaged."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    with memoryview(data) as view, view[BEFORE:] as body:
        if data[:BEFORE] != MAGIC + xxhash.xxh3_128_digest(body):
            return None
    return _parse(data)


def _parse(data: mmap.mmap) -> Whole:
    at = BEFORE + 8
    length = int.from_bytes(data[BEFORE:at], "little")
    plain, layout = msgspec.json.decode(data[at : at + length])
    at += length
    arrays: dict[str, Any] = {}
    for name, kind, count in layout:
        at += -at % ALIGNMENT
        dtype = np.dtype(kind)
        arrays[name] = np.frombuffer(data, dtype, count, at) if count else np.zeros(0, dtype)
        at += dtype.itemsize * count
    plain["windows"] = tuple(Window(**w) for w in plain["windows"])
    plain["oddities"] = tuple(Oddity(**o) for o in plain["oddities"])
    plain["notes"] = tuple(plain["notes"])
    row = arrays.pop("row")
    return Whole(Trace(**plain, **arrays), row)
