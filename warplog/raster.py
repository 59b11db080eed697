"""An image of few colours: text and rules in the site's inks, written as a PNG.

The rule kept here: a pixel is the index of a shade, and each ink has a ramp of shades from its background
to itself, so that the edges of letters are smooth and an image takes a quarter of the time of RGB.

We write the PNG ourselves because zlib, unlike Pillow's own writer, lets other threads work meanwhile.
"""

import struct
import zlib
from enum import IntEnum
from functools import lru_cache

from PIL import Image

from warplog.typeface import Piece, Typeface

SHADES = 16
_KEPT = 400
_FASTEST = 1
SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Ink(IntEnum):
    """What is drawn with: each is a colour on a background."""

    INK = 0
    SOFT = 1
    FAINT = 2
    ACCENT = 3
    SUPPORTED = 4
    REFUTED = 5
    INCONCLUSIVE = 6
    UNTESTED = 7


PAPER = "#fcfbf8"
COLOURS = {
    Ink.INK: ("#1d1c1a", PAPER),
    Ink.SOFT: ("#55524b", PAPER),
    Ink.FAINT: ("#6f6b62", PAPER),
    Ink.ACCENT: ("#0b4f8a", PAPER),
    Ink.SUPPORTED: ("#0f6b4f", "#e2f1ea"),
    Ink.REFUTED: ("#a6321c", "#fae6e0"),
    Ink.INCONCLUSIVE: ("#5a4b8a", "#ece8f6"),
    Ink.UNTESTED: ("#6b675e", "#efece5"),
}  # the light colours of site_src/style/1-base.css


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def _ramp(ink: Ink) -> list[int]:
    """Return the shades from the background of an ink to its colour, as red, green, blue, red ..."""
    colour, background = map(_rgb, COLOURS[ink])
    return [
        round(low + (high - low) * shade / (SHADES - 1))
        for shade in range(SHADES)
        for low, high in zip(background, colour, strict=True)
    ]


_PALETTE = bytes(value for ink in Ink for value in _ramp(ink))
_TABLES = {
    ink: [ink * SHADES + round(cover * (SHADES - 1) / 255) for cover in range(256)] for ink in Ink
}


class Raster:
    """An image of `width` by `height` pixels, at first all paper.

    Its first column stays 0: there a PNG says how the row is filtered, and 0 is not at all.
    """

    def __init__(self, width: int, height: int) -> None:
        self._image = Image.new("P", (width + 1, height), 0)

    def fill(self, box: tuple[int, int, int, int], ink: Ink, *, tint: bool = False) -> None:
        """Fill a box (left, top, right, bottom) with an ink, or with its background."""
        left, top, right, bottom = box
        self._image.paste(
            ink * SHADES + (0 if tint else SHADES - 1), (left + 1, top, right + 1, bottom)
        )

    def text(self, place: tuple[float, int], words: str, face: Typeface, ink: Ink) -> None:
        """Write a line from `place` on: its left edge, and the line that the letters stand on."""
        left, top = round(place[0]), place[1] - face.ascent
        for start, word in face.words(words):
            self.stamp((left + start, top), word, ink)

    def stamp(self, place: tuple[int, int], piece: Piece, ink: Ink) -> None:
        """Print a piece with an ink from `place` on; it covers what lies below it."""
        if piece.cover is not None:
            corner = (place[0] + piece.left + 1, place[1] + piece.top)
            self._image.paste(_shaded(piece, ink), corner)

    def png(self) -> bytes:
        """Return the image as a PNG."""
        width, height = self._image.size
        header = struct.pack(">IIBBBBB", width - 1, height, 8, 3, 0, 0, 0)
        chunks = (
            (b"IHDR", header),
            (b"PLTE", _PALETTE),
            (b"IDAT", zlib.compress(self._image.tobytes(), _FASTEST)),
            (b"IEND", b""),
        )
        return SIGNATURE + b"".join(_chunk(*chunk) for chunk in chunks)


@lru_cache(maxsize=_KEPT)
def _shaded(piece: Piece, ink: Ink) -> Image.Image:
    """Return the picture of a piece in the shades of an ink."""
    cover = piece.cover or Image.new("L", (1, 1))
    return cover.point(_TABLES[ink], "P")


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


def is_whole(content: bytes) -> bool:
    """Return whether `content` is a PNG whose chunks are all there and fit their checksums."""
    if not content.startswith(SIGNATURE):
        return False
    place, kind = len(SIGNATURE), b""
    while place < len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        kind, checked = content[place + 4 : place + 8], content[place + 4 : end]
        if content[end : end + 4] != struct.pack(">I", zlib.crc32(checked)):
            return False
        place = end + 4
    return kind == b"IEND" and place == len(content)
