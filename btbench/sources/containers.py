"""Files as bytes: compression told by content, truncation noticed, lines in blocks, content digests."""

from __future__ import annotations

import gzip
import io
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

import xxhash
import zstandard

from btbench.errors import TraceError

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 256 << 20
GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
Advance = Callable[[int], None]  # told the number of stored bytes just read


def unreadable(file: str, error: OSError) -> NoReturn:
    """An operating-system error as one a user can mend."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    raise TraceError(f"{file}: cannot be read: {reason}.") from error


def magic(path: Path, file: str) -> bytes:
    """The first bytes of a file. Raises TraceError where it is empty or cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(8)
    except OSError as error:
        unreadable(file, error)
    if not head:
        raise TraceError(f"{file}: the file is empty.", "A trace holds at least one row.")
    return head


def content_digest(paths: list[Path], names: list[str]) -> str:
    """xxh3_128 of the stored bytes; of the digests of all files where there are several."""
    digests = []
    for path, name in zip(paths, names, strict=True):
        digest = xxhash.xxh3_128()
        buffer = bytearray(BLOCK_BYTES)
        view = memoryview(buffer)
        try:
            with path.open("rb", buffering=0) as stream:
                while count := stream.readinto(buffer):
                    digest.update(view[:count])
        except OSError as error:
            unreadable(name, error)
        digests.append(digest.hexdigest())
    if len(digests) > 1:
        digests = [xxhash.xxh3_128("".join(digests).encode()).hexdigest()]
    return f"xxh3_128:{digests[0]}"


def spool(stream: BinaryIO, file: str) -> Path:
    """A stream that can be read once, kept in a temporary file that the caller removes."""
    try:
        with tempfile.NamedTemporaryFile(prefix="btbench-", suffix=".trace", delete=False) as kept:
            try:
                while block := stream.read(BLOCK_BYTES):
                    kept.write(block)
            except BaseException:
                os.unlink(kept.name)
                raise
            return Path(kept.name)
    except OSError as error:
        unreadable(file, error)


def _zstd_blocks(stream: BinaryIO, file: str) -> Iterator[bytes]:
    """Decompressed blocks of one or several frames; unlike the library's reader, it notices a cut frame."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    while data := stream.read(BLOCK_BYTES >> 2):
        while data:
            begun = True
            if block := frame.decompress(data):
                yield block
            data = frame.unused_data
            if frame.eof:
                frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
    if begun:
        raise EOFError


class _Counted(io.RawIOBase):
    """A file that reports how many stored bytes were read."""

    def __init__(self, stream: BinaryIO, advance: Advance) -> None:
        self._stream = stream
        self._advance = advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count = cast(io.RawIOBase, self._stream).readinto(buffer) or 0  # type: ignore[arg-type]
        self._advance(count)
        return count


def read_blocks(path: Path, file: str, advance: Advance) -> Iterator[bytes]:
    """The decompressed content in blocks. Raises TraceError where it is truncated, damaged or unreadable."""
    head = magic(path, file)
    try:
        with path.open("rb", buffering=0) as raw:
            stream = io.BufferedReader(_Counted(cast(BinaryIO, raw), advance), BLOCK_BYTES)
            if head.startswith(GZIP):
                unpacked = gzip.GzipFile(fileobj=stream)
                while block := unpacked.read(BLOCK_BYTES):
                    yield block
            elif head.startswith(ZSTD):
                yield from _zstd_blocks(cast(BinaryIO, stream), file)
            else:
                while block := stream.read(BLOCK_BYTES):
                    yield block
    except EOFError as error:
        raise TraceError(f"{file}: the compressed file is truncated.", "Download or copy it again.") from error
    except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise TraceError(f"{file}: the compressed file is damaged ({error}).", "Download or copy it again.") from error
    except OSError as error:
        unreadable(file, error)


def read_lines(path: Path, file: str, advance: Advance) -> Iterator[bytes]:
    """Blocks of whole lines; the last may lack its line end. A byte-order mark at the start is dropped."""
    rest: list[bytes] = []
    held = 0
    first = True
    for block in read_blocks(path, file, advance):
        if first:
            block = block.removeprefix(b"\xef\xbb\xbf")
            first = False
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, block[:cut]])
            rest, held = [], 0
        rest.append(block[cut:])
        held += len(block) - cut
        if held > LONGEST_LINE_BYTES:
            raise TraceError(
                f"{file}: a line is longer than {LONGEST_LINE_BYTES >> 20} MiB.", "One row a line is expected."
            )
    if held:
        yield b"".join(rest)


def numbered_lines(blocks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of blocks of whole lines that are not blank, with their 1-based numbers."""
    before = 0
    for block in blocks:
        lines = block.split(b"\n")
        for number, line in enumerate(lines, before + 1):
            if line.strip():
                yield number, line
        before += len(lines) - block.endswith(b"\n")
