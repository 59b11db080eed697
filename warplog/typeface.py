"""Sets text in pixels, in the site's own fonts.

The rule kept here: a text of any length, in any script, becomes lines that fit; a letter that the fonts
lack is an empty box and never an error. A letter is drawn once, a word is laid once from its letters, and
both are kept, since to draw them anew would be most of the work.
"""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock

from msgspec import Struct
from PIL import Image, ImageFont

from warplog.fault import Fault

ELLIPSIS = "\u2026"
_NO_LETTER = "\U0010ffff"
_LETTERS_AT_MOST = 1000
_COVERED = 255
_OVERHANG = 4
_KEPT = 200


class Piece(Struct, frozen=True, eq=False):
    """A letter or a word: a picture in which 255 is covered by ink (None for a blank), where its left top
    corner is from where the piece starts on the line's upper edge, and how wide it is.
    """

    cover: Image.Image | None
    left: int
    top: int
    width: float


class Typeface:
    """A font at one size in pixels and one weight. `paths` are its files, tried in order: woff2 too.

    `ascent` is how far the line that letters stand on is below the upper edge, `descent` how far the lower
    edge is below it.
    """

    def __init__(self, paths: list[Path], size: int, weight: int) -> None:
        self._fonts = [_font(path, size, weight) for path in paths]
        self._lock = Lock()
        self.ascent, self.descent = self._fonts[0].getmetrics()
        self._letter = lru_cache(maxsize=_KEPT)(self._draw)
        self._word = lru_cache(maxsize=_KEPT)(self._compose)
        self._space = self._letter(" ").width

    def width(self, text: str) -> float:
        """Return the width of a line in pixels."""
        words = text.split(" ")
        return sum(self._word(word).width for word in words) + self._space * (len(words) - 1)

    def words(self, text: str) -> Iterator[tuple[int, Piece]]:
        """Yield each word of a line with how far from the line's start it starts."""
        x = 0.0
        for word in text.split(" "):
            piece = self._word(word)
            yield round(x), piece
            x += piece.width + self._space

    def wrapped(self, text: str, width: float, at_most: int) -> list[str]:
        """Return `text` in at most so many lines of `width` pixels; what is cut ends with an ellipsis."""
        words = text[:_LETTERS_AT_MOST].split()
        lines: list[str] = []
        while words and len(lines) < at_most:
            lines.append(self._first_line(words, width))
        if words and lines:
            lines[-1] = self._cut(f"{lines[-1]} {words[0]}", width)
        return lines

    def _first_line(self, words: list[str], width: float) -> str:
        """Take from `words` what fits on a line: at least a letter."""
        taken, room = 0, width
        while taken < len(words) and self._word(words[taken]).width <= room:
            room -= self._word(words[taken]).width + self._space
            taken += 1
        if taken:
            line = " ".join(words[:taken])
            del words[:taken]
            return line
        word = words.pop(0)
        fits, room = 1, width - self._letter(word[0]).width
        while fits < len(word) and self._letter(word[fits]).width <= room:
            room -= self._letter(word[fits]).width
            fits += 1
        words[:0] = [word[fits:]] if word[fits:] else []
        return word[:fits]

    def _cut(self, text: str, width: float) -> str:
        while text and self.width(text + ELLIPSIS) > width:
            text = (text.rpartition(" ")[0] or text[:-1]).rstrip(" ,;:.")
        return text + ELLIPSIS

    def _compose(self, word: str) -> Piece:
        """Lay a word from its letters."""
        letters = [self._letter(character) for character in word]
        width = sum(letter.width for letter in letters)
        before = max((-letter.left for letter in letters), default=0)
        size = (max(1, round(width) + before + _OVERHANG), self.ascent + self.descent)
        canvas = Image.new("L", size, 0)
        x = float(before)
        for letter in letters:
            if letter.cover is not None:
                canvas.paste(_COVERED, (round(x) + letter.left, letter.top), letter.cover)
            x += letter.width
        inked = canvas.getbbox()
        if inked is None:
            return Piece(None, 0, 0, width)
        return Piece(canvas.crop(inked), inked[0] - before, inked[1], width)

    def _draw(self, character: str) -> Piece:
        """Draw a letter with the first font that has it."""
        with self._lock:
            for font, missing in zip(self._fonts, self._missing, strict=True):
                letter, pixels = _rendered(font, character)
                if pixels != missing:
                    break
            return letter

    @cached_property
    def _missing(self) -> list[bytes]:
        """How each font draws a letter that it lacks."""
        return [_rendered(font, _NO_LETTER)[1] for font in self._fonts]


def _rendered(font: ImageFont.FreeTypeFont, character: str) -> tuple[Piece, bytes]:
    core, (left, top) = font.getmask2(character, "L")
    pixels = bytes(core)
    cover = Image.frombytes("L", core.size, pixels) if pixels else None
    return Piece(cover, left, top, font.getlength(character)), pixels


def _font(path: Path, size: int, weight: int) -> ImageFont.FreeTypeFont:
    try:
        font = ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)
        font.set_variation_by_axes([weight])
    except OSError as error:
        remedy = "restore the file from git, and install Pillow as a wheel: it reads woff2"
        raise Fault(path.name, f"is no font that can be read ({error})", remedy) from None
    return font
