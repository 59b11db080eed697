"""Finds the measured numbers that would not show as numbers where they stand in the narrative. Pure.

The rule kept here: a number becomes HTML of its own on the page, so it stands in a sentence, and not in
an attribute, a title, indented code or another link.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from warplog import hypertext
from warplog.markup import Link, line_starts

_NEAR = 2000
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n")
_IN_TITLE = re.compile(r"\]\([^()\n]*[\"'][^\"'\n]*\Z|^\s*\[(?!\^)[^\]\n]*\]:.*\Z|\{:?[^{}\n]*\Z")
_QUOTE = re.compile(r"(?: {0,3}> ?)+")
_CONTAINER = re.compile(r" *(?:(?:[-*+]|[0-9]+[.)])[ \t]|!!!|\?\?\?|\[\^[^\]]+\]:)")


def standing_problems(
    measured: Sequence[Link], text: str, prose: str, source: str, start: int
) -> Iterator[tuple[int, str, str]]:
    """Yield each measured number that would not become a number on the page where it stands."""
    if not measured:
        return
    tags = _tag_spans(source, start)
    code = list(indented_code(text, prose, start))
    for link in measured:
        remedy = "write it in a sentence of its own"
        if _inside(link, tags) or _IN_TITLE.search(_before(prose, link, start).rpartition("\n")[2]):
            yield link.start, "a measured number in an attribute or a title", remedy
        elif _inside(link, code):
            yield link.start, "a measured number in indented code", "indent it less"
        elif _in_brackets(link, prose, start):
            yield link.start, "a measured number inside a link or an image's text", remedy


def _tag_spans(source: str, start: int) -> list[tuple[int, int]]:
    offsets = line_starts(source, start)
    return [
        (offsets[line] + column, offsets[line] + column + len(tag))
        for line, column, tag in hypertext.tags(source[start:])
    ]


def _inside(link: Link, spans: list[tuple[int, int]]) -> bool:
    """Return whether `link` starts in one of `spans`, which are in order and apart."""
    index = bisect_left(spans, (link.start + 1,)) - 1
    return index >= 0 and spans[index][0] <= link.start < spans[index][1]


def _before(prose: str, link: Link, start: int) -> str:
    """Return the paragraph up to `link`, or its last 2000 characters."""
    return _PARAGRAPH.split(prose[max(start, link.start - _NEAR) : link.start])[-1]


def _in_brackets(link: Link, prose: str, start: int) -> bool:
    """Return whether `link` stands between brackets that are a link or an image themselves."""
    before = _before(prose, link, start)
    open_brackets = 0
    for bracket in re.findall(r"(?<!\\)[\[\]]", before):
        open_brackets = max(0, open_brackets + (1 if bracket == "[" else -1))
    after = _PARAGRAPH.split(prose[link.end : link.end + _NEAR])[0]
    for match in re.finditer(r"(?<!\\)[\[\]]", after):
        if not open_brackets:
            return False
        depth = -1 if match[0] == "]" else 1
        if depth < 0 and after[match.end() : match.end() + 1] in {"(", "["}:
            return True
        open_brackets += depth
    return False


def indented_code(text: str, masked: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where each line of code starts and ends that is code because it is indented.

    That is one after a blank line, four columns further in than the list item or note that holds it.
    """
    depth, after_blank, code = 0, True, False
    offset = start
    for line, kept in zip(text[start:].split("\n"), masked[start:].split("\n"), strict=True):
        words = _QUOTE.sub("", line, count=1).expandtabs(4)
        indent = len(words) - len(words.lstrip(" "))
        if not kept.strip() or not words.strip():
            after_blank = True
        elif indent >= 4 * (depth + 1) and (after_blank or code):
            code = True
            yield offset, offset + len(line)
        else:
            code = False
            if _CONTAINER.match(words):
                depth = indent // 4 + 1
            elif after_blank:
                depth = indent // 4
            after_blank = False
        offset += len(line) + 1
