"""Bytes over HTTP: parts of files, and downloads that go on where they stopped.

One client for everything, the one huggingface_hub is configured with (proxies, certificates).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub.utils import get_session, hf_raise_for_status

from btbench.errors import BtbenchError, NetworkError
from btbench.sources.patience import HTTP_ERROR, Patience, status_of

TIMEOUT_S = 30.0  # without a byte


@contextmanager
def _opened(url: str, headers: dict[str, str]) -> Iterator[Any]:
    """The answer to a GET, its status checked."""
    wanted = {"Accept-Encoding": "identity", **headers}
    with get_session().stream("GET", url, headers=wanted, timeout=TIMEOUT_S) as response:
        hf_raise_for_status(response)
        yield response


def stream_into(
    file: io.BufferedRandom,
    url: str,
    headers: dict[str, str],
    patience: Patience,
    progress: Callable[[int], None],
    tag: Path | None = None,
) -> None:
    """Append the rest of a remote file to a local part of it; begin anew where the server will not resume.

    `tag` keeps the ETag of the version the part is of, for an address whose content may change between two tries.
    """
    while True:
        have = file.seek(0, os.SEEK_END)
        version = tag.read_text() if tag is not None and tag.exists() else ""
        if tag is not None and not version:
            have = 0
        resume = {"Range": f"bytes={have}-"} | ({"If-Range": version} if version else {}) if have else {}
        try:
            with _opened(url, headers | resume) as response:
                if response.status_code != 206:
                    have = file.seek(0)
                    file.truncate()
                    if tag is not None:
                        tag.write_text(response.headers.get("ETag", ""))
                for chunk in response.iter_bytes():
                    file.write(chunk)
                    have += len(chunk)
                    patience.gained()
                    progress(have)
            return
        except (HTTP_ERROR, OSError) as error:
            if have and status_of(error) == 416:  # nothing is left to send
                return
            patience.after(error)


def stream_lines(file: io.BufferedRandom, url: str, headers: dict[str, str], lines: int, patience: Patience) -> None:
    """The first lines of a remote text file, and no more of it than that takes."""

    def once() -> None:
        left = lines
        file.seek(0)
        file.truncate()
        with _opened(url, headers) as response:
            for chunk in response.iter_bytes():
                patience.gained()
                found = chunk.count(b"\n")
                if found >= left:
                    file.write(b"\n".join(chunk.split(b"\n", left)[:left]) + b"\n")
                    return
                file.write(chunk)
                left -= found

    patience.run(once)


def read_range(url: str, headers: dict[str, str], start: int, stop: int, patience: Patience) -> bytes:
    """Bytes `start` to `stop` (exclusive) of a remote file."""
    data = bytearray()
    while len(data) < stop - start:
        try:
            with _opened(url, headers | {"Range": f"bytes={start + len(data)}-{stop - 1}"}) as response:
                if response.status_code != 206:
                    raise NetworkError(
                        f"{patience.what}: {urlsplit(url).netloc} does not serve parts of files.",
                        "Fetch it as a whole.",
                    )
                for chunk in response.iter_bytes():
                    data += chunk
                    patience.gained()
        except BtbenchError:
            raise
        except (HTTP_ERROR, OSError) as error:
            patience.after(error)
    return bytes(data)


class RangeFile(io.RawIOBase):
    """A remote file that can be read at any place; every read is one request."""

    def __init__(
        self, url: str, headers: dict[str, str], size: int, patience: Patience, advance: Callable[[int], None]
    ) -> None:
        self.url = url
        self.headers = headers
        self.size = size
        self.patience = patience
        self.advance = advance  # told the number of bytes just read
        self.at = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The place the next read starts at."""
        return self.at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the place of the next read."""
        self.at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.size}[whence]
        return self.at

    def read(self, size: int = -1) -> bytes:
        """Bytes from the place on."""
        stop = self.size if size is None or size < 0 else min(self.size, self.at + size)
        if stop <= self.at:
            return b""
        data = read_range(self.url, self.headers, self.at, stop, self.patience)
        self.at = stop
        self.advance(len(data))
        return data
