"""The picture that stands beside a link to an entry: its title, headline number and verdicts.

The rule kept here: a card says no more than the page, and names the GPU beside each number. It is drawn
without the network, in the site's colours and fonts, and the same journal gives the same bytes.
"""

from collections import Counter
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from PIL import Image, ImageDraw

from warplog.claim import Verdict
from warplog.outline import Line
from warplog.raster import Ink, Raster
from warplog.typeface import Piece, Typeface

WIDTH, HEIGHT = 1200, 630
_LEFT, _RIGHT = 72, 1128
_BRAND, _TITLE, _ABOUT, _COLUMNS, _CHIPS = 82, 112, 400, 416, 562
_GAP, _PAD, _CHIP = 32, 11, 32
_COLUMNS_AT_MOST = 3
_INKS = {verdict: Ink[verdict.name] for verdict in Verdict}
_SIGNS = {
    Verdict.SUPPORTED: "\u2713",
    Verdict.REFUTED: "\u2717",
    Verdict.INCONCLUSIVE: "\u2248",
    Verdict.UNTESTED: "\u2013",
}
_MARK = 40
_SMOOTH = 4
_MARK_SIDE = 24
_MARK_PARTS = (
    ((3, 3), (5.4, 3), (5.4, 21), (3, 21)),
    ((8.2, 3), (10.6, 3), (10.6, 21), (8.2, 21)),
    ((13.4, 3), (15.8, 3), (15.8, 11.2), (21, 19.8), (18.94, 21.04), (13.4, 11.88)),
)  # site_src/assets/mark.svg


class Card(Struct, frozen=True):
    """All that a card shows. `about` says what the headline numbers measure."""

    name: str
    beside: str
    title: str
    summary: str
    about: str
    lines: list[Line]


class Painter:
    """Paints cards with the fonts in the folder `fonts`; raises Fault where one cannot be read."""

    def __init__(self, fonts: Path) -> None:
        self._fonts = fonts
        self._titles = [self._serif(size, 600) for size in (60, 52, 44)]
        self._summary, self._number = self._serif(30, 400), self._serif(52, 600)
        self._brand, self._small = self._sans(25, 600), self._sans(22, 400)
        self._chip = self._sans(20, 600)

    def _serif(self, size: int, weight: int) -> Typeface:
        return self._face("serif", size, weight)

    def _sans(self, size: int, weight: int) -> Typeface:
        return self._face("sans", size, weight)

    def _face(self, name: str, size: int, weight: int) -> Typeface:
        paths = [self._fonts / f"{name}.woff2", self._fonts / f"{name}-more.woff2"]
        return Typeface(paths, size, weight)

    def paint(self, card: Card) -> bytes:
        """Return a card as a PNG of 1200 by 630 pixels."""
        raster = Raster(WIDTH, HEIGHT)
        self._paint_brand(raster, card)
        below = self._paint_title(raster, card.title)
        self._paint_summary(raster, card.summary, below)
        shown = card.lines[:_COLUMNS_AT_MOST]
        more = f"+ {len(card.lines) - len(shown)} GPUs" if len(card.lines) > len(shown) else ""
        self._paint_row(raster, _ABOUT, _LEFT, card.about, more)
        width = (_RIGHT - _LEFT + _GAP) // max(1, len(shown)) - _GAP
        for index, line in enumerate(shown):
            self._paint_column(raster, line, _LEFT + index * (width + _GAP), width)
        return raster.png()

    def _paint_brand(self, raster: Raster, card: Card) -> None:
        raster.stamp((_LEFT - 4, _BRAND - 30), self._mark, Ink.ACCENT)
        start = _LEFT + _MARK + 8
        raster.text((start, _BRAND), card.name, self._brand, Ink.INK)
        end = start + round(self._brand.width(card.name)) + _GAP
        self._paint_row(raster, _BRAND, end, "", card.beside)

    def _paint_row(self, raster: Raster, baseline: int, start: int, left: str, right: str) -> None:
        """Write small words at both ends of a row; those at the left give way."""
        end = _RIGHT
        for words in self._small.wrapped(right, end - start, 1):
            end -= round(self._small.width(words)) + _GAP
            raster.text((end + _GAP, baseline), words, self._small, Ink.FAINT)
        for words in self._small.wrapped(left, end - start, 1):
            raster.text((start, baseline), words, self._small, Ink.FAINT)

    def _paint_title(self, raster: Raster, title: str) -> int:
        """Write the title in the largest size that takes it whole; return where it ends."""
        for face, at_most in zip(self._titles, (2, 3, 3), strict=True):
            lines = face.wrapped(title, _RIGHT - _LEFT, at_most + 1)
            if len(lines) <= at_most:
                break
        else:
            lines = face.wrapped(title, _RIGHT - _LEFT, at_most)
        step = round(face.ascent * 1.1)
        for number, words in enumerate(lines):
            raster.text((_LEFT, _TITLE + step * number + face.ascent), words, face, Ink.INK)
        return _TITLE + step * len(lines) + face.descent

    def _paint_summary(self, raster: Raster, summary: str, top: int) -> None:
        step = 41
        room = max(0, (_ABOUT - self._small.ascent - 8 - top) // step)
        lines = self._summary.wrapped(summary, _RIGHT - _LEFT, min(2, room))
        for number, words in enumerate(lines):
            baseline = top + step * number + self._summary.ascent
            raster.text((_LEFT, baseline), words, self._summary, Ink.SOFT)

    def _paint_column(self, raster: Raster, line: Line, left: int, width: int) -> None:
        """Write one GPU: its name, its number with the interval, and its verdicts."""
        raster.fill((left, _COLUMNS, left + width, _COLUMNS + 2), Ink.INK)
        texts = [
            (line.name, self._brand, Ink.INK, 36),
            (line.number, self._number, Ink.INK, 93),
            (
                " \u00b7 ".join(filter(None, [line.note, line.interval])),
                self._small,
                Ink.FAINT,
                130,
            ),
        ]
        for text, face, ink, down in texts:
            for words in face.wrapped(text, width, 1):
                raster.text((left, _COLUMNS + down), words, face, ink)
        self._paint_chips(raster, line.counts, left, width)

    def _paint_chips(self, raster: Raster, counts: Counter[Verdict], left: int, width: int) -> None:
        """Write how many claims have each verdict; as signs where the words do not fit."""
        found = [verdict for verdict in Verdict if counts[verdict]]
        words = [f"{counts[verdict]} {verdict.value}" for verdict in found]
        taken = sum(self._chip.width(each) + 2 * _PAD + 8 for each in words)
        if taken > width:
            words = [f"{_SIGNS[verdict]} {counts[verdict]}" for verdict in found]
        end = left + width
        for verdict, text in zip(found, words, strict=True):
            right = left + round(self._chip.width(text)) + 2 * _PAD
            if right > end:
                break
            raster.fill((left, _CHIPS, right, _CHIPS + _CHIP), _INKS[verdict], tint=True)
            raster.text((left + _PAD, _CHIPS + 23), text, self._chip, _INKS[verdict])
            left = right + 8

    @cached_property
    def _mark(self) -> Piece:
        """The site's mark, drawn large and made small, so that its edges are smooth."""
        scale = _MARK * _SMOOTH / _MARK_SIDE
        large = Image.new("L", (_MARK * _SMOOTH, _MARK * _SMOOTH), 0)
        for part in _MARK_PARTS:
            corners = [(x * scale, y * scale) for x, y in part]
            ImageDraw.Draw(large).polygon(corners, fill=255)
        return Piece(large.resize((_MARK, _MARK), Image.Resampling.BOX), 0, 0, _MARK)
