"""Reads the Markdown of an entry without rendering it: fences, links, headings, numbers in prose.

The rule kept here: positions are offsets into the text as it stands in the file, so that what is written
back differs only where it was meant to. Code, inline code and comments are never prose: `mask` blanks
them and keeps every offset. A code block that is only indented counts as prose: use fences.
"""

import re
import unicodedata
from collections.abc import Iterator

from msgspec import Struct

_FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<mark>`{3,}|~{3,})(?P<info>[^\r\n]*)\r?$", re.MULTILINE
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"(?<![\\`])(`+)(?!`)(?:(?!\n[ \t\r]*\n)[\s\S])+?(?<!`)\1(?!`)")
_LINK = re.compile(r"(?<![\\!])\[(?P<text>[^\[\]]*)\]\(#(?P<id>[^()\s]*)(?:\s+\"[^\"\n]*\")?\)")
_ATX = re.compile(r"^(?P<mark>#{1,6})[ \t]+(?P<title>[^\r\n]*?)[ \t#]*\r?$", re.MULTILINE)
_SETEXT = re.compile(r"^(?P<title>[^\s>#|-][^\r\n]*)\r?\n(?P<mark>=+|-+)[ \t]*\r?$", re.MULTILINE)
_EXPLICIT_ID = re.compile(r"\{:?[^{}]*#(?P<id>[^\s{}]+)[^{}]*\}\s*$")
_INLINE_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_ACTIVE = re.compile(
    r"<\s*/?\s*(?:script|iframe|object|embed|form|base|meta|link|style)\b"
    r"|<[^<>]*[\s/\"']on[a-z]+\s*=|(?:java|vb)script\s*:|data\s*:\s*text/html",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.^])\d+(?:[.,\u202f]\d+)*"
    r"(?:[ \u00a0\u202f]?(?:%|×(?![ \u00a0]?\d)|°C|(?:"
    r"[pnmuµμ]s|[kKMGTP]i?B(?:/s)?|B/s|[kMGTP]?(?:FL)?OPS?/s|[kMGTP]?FLOPS|[kMG]Hz|Hz|[mk]?W"
    r"|(?:milli|micro|nano)?seconds?|cycles|percent"
    r"|times(?= (?:as|faster|slower|more|less|the)\b))(?!\w))"
    r"|[ \u00a0\u202f]s(?!\w)|x(?!\w))"
)


class Fence(Struct, frozen=True):
    """A fenced block: `start:end` with its fences, `inner_start:inner_end` without them."""

    info: str
    indent: str
    start: int
    end: int
    inner_start: int
    inner_end: int
    closed: bool


class Link(Struct, frozen=True):
    """A link to an anchor of its own page; `text_start:text_end` is what stands between brackets."""

    id: str
    text: str
    start: int
    end: int
    text_start: int
    text_end: int


class Heading(Struct, frozen=True):
    """A heading of the narrative, with the anchor that the site gives it."""

    level: int
    id: str
    start: int
    end: int


def line_at(text: str, offset: int) -> int:
    """Return the number of the line that holds `offset`; the first is 1."""
    return text.count("\n", 0, offset) + 1


def line_around(text: str, offset: int) -> str:
    """Return the whole line that holds `offset`, without its ending."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    return text[start : len(text) if end < 0 else end]


def fences(text: str, start: int = 0) -> list[Fence]:
    """Return the fenced blocks from `start` on; one that is never closed runs to the end."""
    found = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text, start):
        if opened is None:
            if match["mark"][0] == "~" or "`" not in match["info"]:
                opened = match
        elif _closes(opened, match):
            found.append(_fence(text, opened, match.start(), match.end(), closed=True))
            opened = None
    if opened is not None:
        found.append(_fence(text, opened, len(text), len(text), closed=False))
    return found


def _closes(opened: re.Match[str], match: re.Match[str]) -> bool:
    mark = match["mark"]
    return mark.startswith(opened["mark"]) and not match["info"].strip()


def _fence(text: str, opened: re.Match[str], inner_end: int, end: int, *, closed: bool) -> Fence:
    inner = min(opened.end() + 1, len(text), inner_end)
    info, indent = opened["info"].strip(), opened["indent"]
    return Fence(info, indent, opened.start(), end, inner, inner_end, closed)


def mask(text: str, blocks: list[Fence]) -> str:
    """Blank `blocks`, inline code and comments; every offset and every line stays where it is."""
    pieces, last = [], 0
    for block in blocks:
        pieces += [text[last : block.start], blank(text[block.start : block.end])]
        last = block.end
    masked = "".join([*pieces, text[last:]])
    for pattern in (_CODE, _COMMENT):
        masked = pattern.sub(lambda match: blank(match[0]), masked)
    return masked


def blank(text: str) -> str:
    """Return as many spaces as `text` has characters, with its line endings."""
    return re.sub(r"[^\r\n]", " ", text)


def links(masked: str, start: int = 0) -> list[Link]:
    """Return the links to anchors of the same page, in order."""
    return [
        Link(match["id"], match["text"], match.start(), match.end(), *match.span("text"))
        for match in _LINK.finditer(masked, start)
    ]


def headings(text: str, masked: str, start: int = 0) -> list[Heading]:
    """Return the headings with the anchors that Python-Markdown's toc gives them."""
    found: list[Heading] = []
    taken: set[str] = set()
    matches = [*_ATX.finditer(masked, start), *_SETEXT.finditer(masked, start)]
    for match in sorted(matches, key=lambda each: each.start()):
        mark = match["mark"]
        level = len(mark) if mark.startswith("#") else "=-".index(mark[0]) + 1
        anchor = _anchor(text[slice(*match.span("title"))], taken)
        taken.add(anchor)
        found.append(Heading(level, anchor, match.start(), match.end()))
    return found


def _anchor(title: str, taken: set[str]) -> str:
    explicit = _EXPLICIT_ID.search(title)
    if explicit:
        return explicit["id"]
    words = _INLINE_LINK.sub(r"\1", title).replace("`", "").replace("*", "")
    anchor, count = slugify(words), 0
    unique = anchor
    while not unique or unique in taken:
        count += 1
        unique = f"{anchor}_{count}"
    return unique


def slugify(words: str) -> str:
    """Return the anchor of a heading as Python-Markdown's `toc` extension makes it by default."""
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def active_content(masked: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the offset and the text of HTML that could run a program in a reader's browser."""
    for match in _ACTIVE.finditer(masked, start):
        yield match.start(), match[0]


def measured_numbers(prose: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the offset and the text of every number with a unit: ``33 µs``, ``4.1 TB/s``, ``12×``.

    Sizes in words (``1152-byte rows``) and dimensions (``64 × 128``) have none of these units.
    """
    for match in _NUMBER.finditer(prose, start):
        yield match.start(), match[0]
