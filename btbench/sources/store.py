"""What was fetched, on this machine: whole files with a receipt each, and never anything half-done under its name.

A file is written as `<name>.part`, checked against the size and digest its source gives, and renamed; the receipt
`<name>.receipt.json` stands beside it. A file without a receipt, or of another size than it says, does not count.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import filelock
import msgspec

from btbench.errors import NetworkError, OutputError
from btbench.paths import cache_root
from btbench.progress import Progress

BLOCK_BYTES = 1 << 20


class Receipt(msgspec.Struct, frozen=True):
    """What is known of a fetched file."""

    bytes: int
    digest: str  # "sha256:<hex>", or "git:<hex>" for a blob that Git itself stores
    source: str  # its address


def store_root() -> Path:
    """The folder of everything fetched."""
    return cache_root() / "fetched"


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def receipt_of(path: Path) -> Receipt | None:
    """The receipt of a whole file, or None where the file is missing, partial or of the wrong size."""
    try:
        receipt = msgspec.json.decode(_beside(path, ".receipt.json").read_bytes(), type=Receipt)
        return receipt if path.stat().st_size == receipt.bytes else None
    except (OSError, msgspec.MsgspecError):
        return None


def digest_of(path: Path, kind: str) -> str:
    """Digest of a file's bytes, `kind` "sha256" or "git" (SHA-1 of a blob, as Git names it)."""
    digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return f"{kind}:{digest.hexdigest()}"


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file so that readers see all of it or the one before."""
    part = _beside(path, f".{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(data)
    os.replace(part, path)


def check_room(folder: Path, needed_bytes: int, what: str) -> None:
    """Raises OutputError where the disk has no room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise OutputError(
            f"{what} takes {needed_bytes / 1e6:,.1f} MB, but only {free / 1e6:,.1f} MB are free in {folder}.",
            "Free some room, or set BTBENCH_CACHE to a folder on another disk.",
        )


def keep(
    path: Path,
    what: str,
    source: str,
    write: Callable[[io.BufferedRandom], None],
    progress: Progress,
    *,
    size: int | None = None,
    digest: str | None = None,
) -> Path:
    """The whole file at `path`, written by `write` where it is not there yet; one process at a time.

    `write` is handed the part that an earlier try left (opened for reading and writing), and completes it. `size` and
    `digest` are what the source says of the whole. Raises NetworkError where the result differs from them.
    """
    if receipt_of(path) is not None:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path, what, progress):
        if receipt_of(path) is not None:  # another process brought it meanwhile
            return path
        part = _beside(path, ".part")
        if size is not None:
            check_room(path.parent, size - (part.stat().st_size if part.exists() else 0), what)
        with part.open("r+b" if part.exists() else "w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        _settle(part, path, what, source, size, digest)
    return path


def _settle(part: Path, path: Path, what: str, source: str, size: int | None, digest: str | None) -> None:
    """Check a complete part, write its receipt, give it its name."""
    found_bytes = part.stat().st_size
    found = digest_of(part, digest.partition(":")[0] if digest else "sha256")
    if (size is not None and size != found_bytes) or (digest is not None and digest != found):
        part.unlink()
        raise NetworkError(
            f"{what}: what arrived is not what its source lists: {found_bytes} bytes, {found}; "
            f"listed {size if size is not None else 'any number of'} bytes, {digest or 'no digest'}.",
            "The damaged copy is removed; fetch it again.",
        )
    receipt = Receipt(found_bytes, found, source)
    write_whole(_beside(path, ".receipt.json"), msgspec.json.format(msgspec.json.encode(receipt)))
    os.replace(part, path)


def _locked(path: Path, what: str, progress: Progress) -> filelock.BaseFileLock:
    """The lock of a file; says so where another process holds it."""
    lock = filelock.FileLock(_beside(path, ".lock"))
    try:
        lock.acquire(timeout=0)
        lock.release()
    except filelock.Timeout:
        progress(f"{what}: another process is fetching it, waiting", 0, 0)
    return lock
