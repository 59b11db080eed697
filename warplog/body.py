"""Reads the narrative of an entry: its measured numbers, its blocks, its anchors.

The rule kept here: a link to an anchor of the page is a claim, a value, a heading or a fault; a measured
number stands in a sentence; what is inside code and comments is nobody's business.
Positions are offsets into the file's text.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec import Struct

from warplog import hypertext, markup
from warplog.block import KINDS, Block, read_block
from warplog.fault import Fault
from warplog.front import SECTIONS
from warplog.markup import Fence, Heading, Link
from warplog.names import nearest
from warplog.passage import Passage
from warplog.standing import standing_problems

MARKER = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: |\r?$)", re.MULTILINE)
CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
_REMEDIES_AT_MOST = 20


class Placed(Struct, frozen=True):
    """A figure or source block with the offsets at which it starts and ends."""

    start: int
    end: int
    block: Block


class Body(Struct, frozen=True):
    """The narrative. `text` is the whole file, and the narrative starts at the offset `start`.

    `prose` is `text` with code and comments blanked; `links` are the measured numbers, and
    `blocks` what the fences ask for, both in order.
    """

    text: str
    prose: str
    start: int
    links: tuple[Link, ...]
    blocks: tuple[Placed, ...]


def text_faults(text: str, place: str) -> Iterator[Fault]:
    """Yield what no text of an entry may hold: merge markers, control characters, each once."""
    for pattern, problem, remedy in (
        (MARKER, "a merge was left unfinished", "keep one side and remove the markers"),
        (CONTROL, "a control character", "remove it"),
    ):
        found = pattern.search(text, 1 if text.startswith("\ufeff") else 0)
        if found:
            yield Fault(f"{place}:{markup.line_at(text, found.start())}", problem, remedy)


def read_body(text: str, start: int, place: str, ids: set[str], faults: list[Fault]) -> Body:
    """Return the narrative that starts at offset `start`, and add what is wrong to `faults`.

    `ids` are the claims and values that a number may name.
    """
    fences = markup.fences(text, start)
    prose = markup.mask(text, fences)
    headings = markup.headings(text, prose, start)
    links = markup.links(prose, start)
    blocks = []
    for fence in fences:
        try:
            block = _block(text, fence, place)
        except Fault as fault:
            faults.append(fault)
        else:
            blocks += [Placed(fence.start, fence.end, block)] if block else []
    source = markup.mask_code(text, fences)
    measured = tuple(link for link in links if link.id in ids)
    for offset, problem, remedy in (
        *_link_problems(links, headings, ids),
        *_heading_problems(measured, headings, ids),
        *_html_problems(source, fences, start),
        *standing_problems(measured, text, prose, source, start),
    ):
        faults.append(Fault(f"{place}:{markup.line_at(text, offset)}", problem, remedy))
    return Body(text, prose, start, measured, tuple(blocks))


def _block(text: str, fence: Fence, place: str) -> Block | None:
    """Return what a fence asks for, None where it is plain code, or raise Fault."""
    line = markup.line_at(text, fence.start)
    if not fence.closed:
        raise Fault(f"{place}:{line}", "the code fence is never closed", "close it with ```")
    kind = fence.info.split()[0] if fence.info else ""
    if kind not in KINDS:
        return None
    if fence.indent or fence.info != kind:
        remedy = f"start the line with ```{kind} and put what it shows below"
        raise Fault(f"{place}:{line}", f"a {kind} block stands alone", remedy)
    inner = text[fence.inner_start : fence.inner_end]
    return read_block(kind, Passage(inner, place, line + 1, f"{kind}: "))


def _link_problems(
    links: list[Link], headings: list[Heading], ids: set[str]
) -> Iterator[tuple[int, str, str]]:
    anchors = {heading.id for heading in headings} | SECTIONS
    unknown = 0
    for link in links:
        if link.id not in ids and link.id not in anchors:
            unknown += 1
            few = unknown <= _REMEDIES_AT_MOST  # looking for the nearest takes its time
            remedy = nearest(link.id, ids | anchors) if few else "mend the ones above first"
            yield link.start, f"no claim, value or heading {link.id!r}", remedy
        if link.id in ids and "\n" in link.text:
            yield link.start, "a measured number spans lines", f"write [?](#{link.id})"


def _heading_problems(
    measured: Sequence[Link], headings: list[Heading], ids: set[str]
) -> Iterator[tuple[int, str, str]]:
    starts = [link.start for link in measured]
    for heading in headings:
        if heading.level == 1:
            yield heading.start, "a heading of level 1", "the title is one; start at ##"
        if heading.id in ids:
            problem = f"the heading's anchor {heading.id!r} is a claim or a value too"
            yield heading.start, problem, "word the heading otherwise"
        if bisect_left(starts, heading.start) < bisect_left(starts, heading.end):
            problem = "a measured number in a heading"
            yield heading.start, problem, "say it in the text below"


def _html_problems(source: str, fences: list[Fence], start: int) -> Iterator[tuple[int, str, str]]:
    remedy = "put it in backticks on one line, or leave it out"
    offsets = markup.line_starts(source, start)
    for each in hypertext.findings_in_source(source[start:]):
        yield offsets[each.line] + each.column, f"active HTML: {each.what}", remedy
    for fence in fences:
        for each in hypertext.findings_in_source("", [fence.info]):
            yield fence.start, f"active HTML: {each.what}", "leave it out"
