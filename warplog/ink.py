"""The pieces that every chart is drawn with: text, rules, dots, and the style of a series.

The rule kept here: every text is escaped, every colour is a class and a presentation attribute (so that a
feed reader and a saved file have it too), and a series differs from the next by more than its colour.
"""

from collections.abc import Iterable
from functools import lru_cache
from html import escape

from msgspec import Struct

from warplog.lettering import clean

INK, RULE, PAPER = "#55524b", "#dcd8ce", "#fcfbf8"
_COLOURS = ("#0b4f8a", "#b04f14", "#6f695e", "#8d877b")
_MUTED = len(_COLOURS) - 1
_DASHES = ("", "6 3", "2 2.5", "9 3 2 3")
_OUTLINES: tuple[tuple[tuple[float, float], ...], ...] = (
    (),  # a circle
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((-1.2, 0.9), (0, -1.2), (1.2, 0.9)),
    ((-1.3, 0), (0, -1.3), (1.3, 0), (0, 1.3)),
    ((-1.2, -0.9), (0, 1.2), (1.2, -0.9)),
)


class Box(Struct, frozen=True):
    """The inner rectangle of a chart, in user units."""

    left: float
    top: float
    right: float
    bottom: float


class Style(Struct, frozen=True):
    """How one series looks: its colour, the thickness of its line, its dashes, the shape of its dots."""

    colour: int
    thick: float
    dash: str
    shape: int

    @property
    def paint(self) -> str:
        """The colour as attributes of a group; what is in it is filled and stroked with it."""
        value = _COLOURS[self.colour]
        return f'class="wl-s{self.colour}" fill="{value}" stroke="{value}"'


def style_of(index: int, *, muted: bool) -> Style:
    """Return the style of the series `index`: the first, ours, is solid and thick, a muted one grey."""
    if index == 0:
        return Style(0, 2.4, "", 0)
    colour = _MUTED if muted else (index - 1) % _MUTED + 1
    return Style(colour, 1.5, _DASHES[index % len(_DASHES)], index)


def text(
    x: float, y: float, words: str, anchor: str = "start", *, more: str = "", full: str = ""
) -> str:
    """Return a line of text; `more` are attributes, `full` is what it was shortened from."""
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    title = f"<title>{escape(clean(full))}</title>" if full and full != words else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{end}{more}>{escape(clean(words))}{title}</text>'


def rules(lines: Iterable[tuple[float, float, float, float]], name: str = "wl-rule") -> str:
    """Return straight lines, from x and y to x and y, as one path."""
    path = "".join(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" for x1, y1, x2, y2 in lines)
    dash = ' stroke-dasharray="3 3"' if name == "wl-parity" else ""
    colour = RULE if name == "wl-rule" else INK
    return f'<path class="{name}" stroke="{colour}" fill="none"{dash} d="{path}"/>' if path else ""


@lru_cache(maxsize=64)
def _outline(shape: int, size: float) -> str:
    """Return the path around a point of a dot of one of four shapes, from the point."""
    corners = _OUTLINES[shape % len(_OUTLINES)]
    steps = zip(((0.0, 0.0), *corners), corners, strict=False)
    path = "".join(
        f"l{size * (to[0] - at[0]):.1f} {size * (to[1] - at[1]):.1f}" for at, to in steps
    )
    return f"m{path[1:]}z"


def dot(shape: int, x: float, y: float, words: str, size: float = 3.2) -> str:
    """Return a dot of one of five shapes; `words`, which are escaped, are shown where a pointer rests
    on it.
    """
    if shape % len(_OUTLINES) == 0:
        return (
            f'<circle class="wl-point" stroke="none" cx="{x:.1f}" cy="{y:.1f}" r="{size:g}">'
            f"<title>{words}</title></circle>"
        )
    outline = f"M{x:.1f} {y:.1f}{_outline(shape, size)}"
    return f'<path class="wl-point" stroke="none" d="{outline}"><title>{words}</title></path>'


def hollow(x: float, y: float, words: str) -> str:
    """Return a ring; `words`, which are escaped, are shown where a pointer rests on it."""
    return (
        f'<circle class="wl-ring" fill="{PAPER}" stroke-width="1.8" cx="{x:.1f}" cy="{y:.1f}" r="3.2">'
        f"<title>{words}</title></circle>"
    )
