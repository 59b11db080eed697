"""How much room a text takes in a chart, and what is left of it where there is less.

The rule kept here: a text of any length and of any characters becomes lines that fit their room; nothing
in it can break the markup or turn the words beside it round. Pure.
"""

import re
import unicodedata
from functools import lru_cache

SIZE = 11.0
LINE = 12.5
ELLIPSIS = "…"
_SLACK = 1.04
_KEPT = 1024
_WIDTHS = {
    **dict.fromkeys("ijl", 0.25),
    **dict.fromkeys(" I!',.:t;`|\u202f", 0.34),
    **dict.fromkeys('fr()/[\\]{}"-^', 0.45),
    **dict.fromkeys("ABEKPSVXY&+<=>~×CDHRU", 0.74),
    **dict.fromkeys("GNOQw", 0.82),
    **dict.fromkeys("mMW%@…", 1.0),
}
_LETTER, _FOREIGN, _WIDE, _WIDEST = 0.63, 0.8, 1.4, 12.0
_BREAKS = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_JOINED = ("Mn", "Me", "Cf")
_WHOLE_WORDS = re.compile(r"[\ufdf0-\ufdff\U00012000-\U00012fff]")


def clean(text: str) -> str:
    """Return `text` on one line; a control character, which no page may hold and which could turn the
    direction of what follows, is shown as U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub("\ufffd", _BREAKS.sub(" ", text))


def isolated(text: str) -> str:
    """Return `text`, cleaned, so that its direction leaves the plain text around it as it is."""
    words = clean(text)
    return words if words.isascii() else f"\u2068{words}\u2069"


@lru_cache(maxsize=_KEPT)
def width_of(text: str) -> float:
    """Return the room that `text` needs in a chart, in user units: rather more than less."""
    return SIZE * _SLACK * sum(map(_em, text))


def _em(letter: str) -> float:
    if letter.isascii() or letter in _WIDTHS:
        return _WIDTHS.get(letter, _LETTER)
    if unicodedata.category(letter) in _JOINED:
        return 0.0
    if _WHOLE_WORDS.match(letter):
        return _WIDEST
    return _WIDE if unicodedata.east_asian_width(letter) in "WF" else _FOREIGN


def shortened(text: str, room: float) -> str:
    """Return `text`, cleaned, or its head and its tail around an ellipsis where `room` is less.

    The tail stays because names of variants differ there.
    """
    words = clean(text)
    longest = int(room)  # no letter is narrower than a unit, but for those of no width at all
    if len(words) <= longest and width_of(words) <= room:
        return words
    left = room - width_of(ELLIPSIS)
    head = _fitting(words, left * 0.6)
    tail = _fitting(words[::-1], left - width_of(head))[::-1]
    tail = tail.lstrip("".join(each for each in tail if unicodedata.category(each) in _JOINED))
    return head.rstrip() + ELLIPSIS + tail.lstrip()


def _fitting(words: str, room: float) -> str:
    """Return as much of the start of `words` as fits."""
    used = 0.0
    for index, letter in enumerate(words[: int(room) + 1]):
        used += SIZE * _SLACK * _em(letter)
        if used > room:
            return words[:index]
    return words[: int(room) + 1]


@lru_cache(maxsize=_KEPT)
def wrapped(text: str, room: float) -> tuple[str, ...]:
    """Return `text`, cleaned, on one line or on two of at most `room`, shortened where they are few."""
    words = clean(text)
    if len(words) <= int(room) and width_of(words) <= room:
        return (words,)
    first, rest = "", words[: int(2 * room) + 1]
    while rest:
        word, _, after = rest.partition(" ")
        tried = f"{first} {word}" if first else word
        if width_of(tried) > room:
            break
        first, rest = tried, after
    if not first or len(words) > int(2 * room) or width_of(rest) > 2 * room:
        return (shortened(words, room),)
    return (first, shortened(rest, room))
