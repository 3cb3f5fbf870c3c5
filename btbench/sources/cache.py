"""Packed traces on disk, so that a file is parsed once: one file a trace, named by content and options.

Layout, version 1: `MAGIC`, the length of the header (8 bytes, little-endian), the header (JSON: fields of the trace,
dtype and length of each array, digest of what follows), then the arrays, each at a multiple of 64 bytes. Written
under another name and renamed, so a reader sees a whole file or none; a damaged one is noticed by its digest and
made again.
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
    body = xxhash.xxh3_128()
    chunks: list[Any] = []
    layout = []
    for name, values in arrays.items():
        data = values.data.cast("B") if values.size else b""
        chunks += [data, bytes(-len(data) % ALIGNMENT)]
        layout.append((name, values.dtype.str, values.size))
    for chunk in chunks:
        body.update(chunk)
    header = msgspec.json.encode({"trace": plain, "arrays": layout, "digest": body.hexdigest()})
    start = MAGIC + len(header).to_bytes(8, "little") + header
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                out.writelines([start, bytes(-len(start) % ALIGNMENT), *chunks])
            os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise


def load(path: Path) -> Whole | None:
    """The packed trace of a file, or None where there is none or it is damaged."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _parse(data)
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError):
        return None


def _parse(data: mmap.mmap) -> Whole:
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("not a packed trace")
    at = len(MAGIC) + 8
    length = int.from_bytes(data[len(MAGIC) : at], "little")
    header = msgspec.json.decode(data[at : at + length])
    at += length
    at += -at % ALIGNMENT
    with memoryview(data) as view, view[at:] as body:
        if xxhash.xxh3_128_hexdigest(body) != header["digest"]:
            raise ValueError("damaged")
    arrays: dict[str, Any] = {}
    for name, kind, count in header["arrays"]:
        dtype = np.dtype(kind)
        arrays[name] = np.frombuffer(data, dtype, count, at) if count else np.zeros(0, dtype)
        at += dtype.itemsize * count
        at += -at % ALIGNMENT
    plain = header["trace"]
    plain["windows"] = tuple(Window(**w) for w in plain["windows"])
    plain["oddities"] = tuple(Oddity(**o) for o in plain["oddities"])
    plain["notes"] = tuple(plain["notes"])
    row = arrays.pop("row")
    return Whole(Trace(**plain, **arrays), row)
