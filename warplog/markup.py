"""Reads the Markdown of an entry without rendering it: fences, links, headings, numbers in prose.

The rule kept here: positions are offsets into the text as it stands in the file, so that what is written
back differs only where it was meant to. Code, inline code and comments are never prose: `mask` blanks
them and keeps every offset. A code block that is only indented counts as prose: use fences.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

_FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<mark>`{3,}|~{3,})(?P<info>[^\r\n]*)\r?$", re.MULTILINE
)
_RUN = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t\r]*(?=\n)")
_LINK = re.compile(r"(?<![\\!])\[(?P<text>[^\[\]]*)\]\(#(?P<id>[^()\s]*)(?:\s+\"[^\"\n]*\")?\)")
_ATX = re.compile(r"^(?P<mark>#{1,6})[ \t]+(?P<title>[^\r\n]*)\r?$", re.MULTILINE)
_SETEXT = re.compile(r"^(?P<title>[^\s>#|-][^\r\n]*)\r?\n(?P<mark>=+|-+)[ \t]*\r?$", re.MULTILINE)
_ATTRIBUTES = re.compile(r"\{:?(?P<words>[^{}]*)\}\Z")
_INLINE_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_NUMBER = re.compile(
    r"(?<![\w.^])(?<!\d[,\u202f])\d+(?:[.,\u202f]\d+)*"
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
    return bisect_left(_line_ends(text), offset) + 1


@lru_cache(maxsize=4)
def _line_ends(text: str) -> list[int]:
    """Return the offset of every newline; kept, because a text with one fault often has many."""
    return [match.start() for match in re.finditer("\n", text)]


def line_starts(text: str, start: int) -> list[int]:
    """Return the offset of each line of ``text[start:]``, the first of which may be a part."""
    return [start, *(match.end() for match in re.compile("\n").finditer(text, start))]


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
    masked = _without(text, [(block.start, block.end) for block in blocks])
    masked = _without(masked, code_spans(masked))
    return _without(masked, comments(masked))


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, last = [], 0
    for start, end in spans:
        pieces += [text[last:start], blank(text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])


def mask_code(text: str, blocks: list[Fence]) -> str:
    """Blank `blocks` and what is inline code on one line: what is left may be HTML to Markdown, which
    looks for HTML at the start of each line before it looks for code.
    """
    masked = _without(text, [(block.start, block.end) for block in blocks])
    spans = [each for each in code_spans(masked) if "\n" not in masked[slice(*each)]]
    return _without(masked, spans)


def code_spans(text: str) -> list[tuple[int, int]]:
    """Return where inline code starts and ends: runs of as many backticks within one paragraph."""
    found: list[tuple[int, int]] = []
    start = 0
    for end in [*(match.start() for match in _BLANK_LINE.finditer(text)), len(text)]:
        found += _code_between(text, start, end)
        start = end
    return found


def _code_between(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    runs = list(_RUN.finditer(text, start, end))
    later: defaultdict[int, list[re.Match[str]]] = defaultdict(list)
    for run in reversed(runs):
        later[len(run[0])].append(run)
    last = start
    for run in runs:
        same = later[len(run[0])]
        same.pop()
        escaped = run.start() > 0 and text[run.start() - 1] == "\\"
        if run.start() < last or escaped or not same:
            continue
        last = same[-1].end()
        yield run.start(), last


def comments(text: str) -> list[tuple[int, int]]:
    """Return where HTML comments start and end; one that is never closed is none."""
    found, start = [], text.find("<!--")
    while start >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            break
        found.append((start, end + 3))
        start = text.find("<!--", end + 3)
    return found


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
    taken: dict[str, int] = {}
    matches = [*_ATX.finditer(masked, start), *_SETEXT.finditer(masked, start)]
    for match in sorted(matches, key=lambda each: each.start()):
        mark = match["mark"]
        level = len(mark) if mark.startswith("#") else "=-".index(mark[0]) + 1
        title = text[slice(*match.span("title"))].rstrip(" \t\r")
        title = title.rstrip(" \t#") if mark.startswith("#") else title
        found.append(Heading(level, _anchor(title, taken), match.start(), match.end()))
    return found


def _anchor(title: str, taken: dict[str, int]) -> str:
    """Return the anchor of a heading; `taken` holds the last number that each anchor was given."""
    attributes = _ATTRIBUTES.search(title)
    words = attributes["words"].split() if attributes else []
    explicit = next((word[1:] for word in words if word.startswith("#") and word != "#"), None)
    if explicit is not None:
        taken.setdefault(explicit, 0)
        return explicit
    plain = _INLINE_LINK.sub(r"\1", title).replace("`", "").replace("*", "")
    anchor = unique = slugify(plain)
    while not unique or unique in taken:
        taken[anchor] = taken.get(anchor, 0) + 1
        unique = f"{anchor}_{taken[anchor]}"
    taken.setdefault(unique, 0)
    return unique


def slugify(words: str) -> str:
    """Return the anchor of a heading as Python-Markdown's `toc` extension makes it by default."""
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def measured_numbers(prose: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the offset and the text of every number with a unit: ``33 µs``, ``4.1 TB/s``, ``12×``.

    Sizes in words (``1152-byte rows``) and dimensions (``64 × 128``) have none of these units.
    """
    for match in _NUMBER.finditer(prose, start):
        yield match.start(), match[0]
