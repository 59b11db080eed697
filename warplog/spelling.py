"""Reads a text as it was meant before it was escaped, and knows where each character stands in it. Pure.

The rule kept here: a value is the same value however JSON, a shell, an address or a line break spells it,
and what is found in the reading is removed from the text itself, escape and all.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property

_ESCAPE = re.compile(
    r"\\+u(?P<four>[0-9a-fA-F]{4})|\\+x(?P<two>[0-9a-fA-F]{2})|%(?P<percent>[2-7][0-9a-fA-F])"
    r"|\\+(?P<break>[nrt])|\\+(?=\W)|\\+$"
)
_UNSEEN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
    r"|[\ud800-\udfff\ufffe\uffff]"
)
_SPACE = re.compile(r"\s+")
_NARROWEST, _WIDEST = 30, 400
_BREAKS = {"n": "\n", "r": "\n", "t": "\t"}


def seen(text: str) -> str:
    """Return `text` as a reader sees it: without colours, control, zero-width and half characters."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class Reading:
    """A text read in another spelling: `text`, and where each part of it stands in the `original`."""

    def __init__(self, original: str, pattern: re.Pattern[str]) -> None:
        """Replace each match of `pattern` by what it means; the rest stays as it is."""
        pieces: list[str] = []
        self._starts, self._sources, self._lengths = [0], [0], [-1]
        done = length = 0
        for match in pattern.finditer(original):
            literal, meant = original[done : match.start()], _meaning(match)
            pieces += [literal, meant]
            length += len(literal)
            if meant:
                self._mark(length, match.start(), match.end() - match.start())
            length, done = length + len(meant), match.end()
            self._mark(length, done, -1)
        pieces.append(original[done:])
        self.text = "".join(pieces)

    def _mark(self, start: int, source: int, length: int) -> None:
        self._starts.append(start)
        self._sources.append(source)
        self._lengths.append(length)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where the characters `start` to `end` of the reading stand in the original."""
        first, _ = self._place(start)
        last, length = self._place(max(start, end - 1))
        return first, last + length

    def _place(self, position: int) -> tuple[int, int]:
        index = bisect_right(self._starts, position) - 1
        if self._lengths[index] < 0:
            return self._sources[index] + position - self._starts[index], 1
        return self._sources[index], self._lengths[index]


def _meaning(match: re.Match[str]) -> str:
    """Return the character that an escape stands for; nothing for one that only escapes."""
    kinds = match.groupdict()
    number = kinds.get("four") or kinds.get("two") or kinds.get("percent")
    if number:
        return chr(int(number, 16))
    return _BREAKS.get(kinds.get("break") or "", "")


class Spelled:
    """A text in its readings: as it stands, without escapes, as before a terminal wrapped it, and without
    any space or break.
    """

    def __init__(self, text: str) -> None:
        """Keep `text`; the readings are made when they are asked for."""
        self.text = text

    @cached_property
    def meant(self) -> Reading | None:
        """The text without escapes, or None where it has none."""
        return Reading(self.text, _ESCAPE) if _ESCAPE.search(self.text) else None

    @cached_property
    def unwrapped(self) -> Reading | None:
        """The text without escapes and without the breaks after lines of the full width, if it has any."""
        text = self.meant.text if self.meant else self.text
        width = max(map(len, text.split("\n")))
        if not _NARROWEST <= width <= _WIDEST:
            return None
        full = re.compile(rf"(?<=[^\n]{{{width}}})(?<=\S)\n(?=\S)")
        return Reading(text, full) if full.search(text) else None

    def readings(self) -> Iterator[tuple[str, Callable[[int, int], tuple[int, int]]]]:
        """Yield the readings in which to look, each with what tells where its parts stand in the text."""
        yield self.text, lambda start, end: (start, end)
        meant, unwrapped = self.meant, self.unwrapped
        if meant is not None:
            yield meant.text, meant.span
        if unwrapped is not None:
            yield unwrapped.text, lambda start, end: self._within(unwrapped.span(start, end))

    @cached_property
    def joined(self) -> Reading:
        """The text without escapes, spaces and line breaks: a value that was wrapped is whole here."""
        return Reading(self.meant.text if self.meant else self.text, _SPACE)

    def joined_span(self, start: int, end: int) -> tuple[int, int]:
        """Return where `start` to `end` of the joined reading stand in the text itself."""
        return self._within(self.joined.span(start, end))

    def _within(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return where a part of the text without escapes stands in the text itself."""
        return self.meant.span(*span) if self.meant else span


def joined(value: str) -> str:
    """Return a value as it reads in a joined text."""
    return _SPACE.sub("", value)
