"""Pictures as frames of a GIF, which knows few colours: all frames share them, and what stands still stays still."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]  # (height, width, 3) red, green, blue

COLOURS = 200
_UNKNOWN = 255


class Palette:
    """The most frequent colours of some pictures. Other pictures are drawn in the nearest of them."""

    def __init__(self, samples: Sequence[Pixels]) -> None:
        codes, counts = np.unique(np.concatenate([_codes(sample) for sample in samples]), return_counts=True)
        often = codes[np.argsort(-counts, kind="stable")[:COLOURS]]
        self._colours = np.column_stack([often >> 16, often >> 8 & 255, often & 255])
        self._place = np.full(1 << 24, _UNKNOWN, np.uint8)  # of a colour's code in the palette, as far as met
        self._place[often] = np.arange(len(often))

    def frame(self, pixels: Pixels) -> Image.Image:
        """The picture in colours of the palette."""
        codes = _codes(pixels)
        places = self._place[codes]
        for code in np.unique(codes[places == _UNKNOWN]):
            away = np.square(self._colours - [code >> 16, code >> 8 & 255, code & 255]).sum(axis=1)
            self._place[code] = away.argmin()
        frame = Image.fromarray(self._place[codes].reshape(pixels.shape[:2]), "P")
        frame.putpalette(self._colours.astype(np.uint8).tobytes())
        return frame


def _codes(pixels: Pixels) -> npt.NDArray[np.int32]:
    """One number a pixel: 0xRRGGBB."""
    red, green, blue = pixels.reshape(-1, 3).astype(np.int32).T
    return np.asarray(red << 16 | green << 8 | blue)


def write_gif(frames: Iterable[Image.Image], path: Path, frames_per_s: int) -> None:
    """Write the frames, to be shown over and over."""
    first, *others = frames
    first.save(path, format="GIF", save_all=True, append_images=others, duration=1000 // frames_per_s, loop=0)
