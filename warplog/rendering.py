"""What Markdown made of an entry: kept, so that the same text need not be rendered again. Pure.

The rule kept here: a page whose links lead to other pages is kept only as long as those pages are the same,
and one with a link that leads nowhere is never kept, so that its warning is heard at every build.
"""

import posixpath
import re
from collections.abc import Container, Iterable
from html import unescape
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct

_LINK = re.compile(r"""<(?:a|img)\b[^>]*?\s(?:href|src)=(?:"([^"]*)"|'([^']*)')""")
_ELSEWHERE = re.compile(r"#|[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class Heading(Struct, frozen=True):
    """A line of the table of contents, with those below it."""

    name: str
    id: str
    level: int
    children: list["Heading"]


class Rendering(Struct, frozen=True):
    """An entry as rendered, its tokens still in it, and what MkDocs knows of it.

    `searched` is the reduced copy for the search; `links` holds, for each file that the page links to,
    the anchors and the links as written; `around` is the digest of the site's pages if any is linked to.
    """

    html: str
    searched: str
    headings: list[Heading]
    anchors: list[str]
    links: dict[str, dict[str, str]]
    around: str | None


def headings(toc: Iterable[Any]) -> list[Heading]:
    """Return a table of contents, whose items have these fields too but are called `title`."""
    return [Heading(each.title, each.id, each.level, headings(each.children)) for each in toc]


def pack(rendering: Rendering) -> bytes:
    """Write a rendering as bytes."""
    return msgspec.msgpack.encode(rendering)


def unpack(kept: bytes | None) -> Rendering | None:
    """Read a rendering back; None where the bytes are none."""
    try:
        return None if kept is None else msgspec.msgpack.decode(kept, type=Rendering)
    except msgspec.MsgspecError:
        return None


def neighbours(html: str, page: str) -> list[str]:
    """Return the addresses on the site that the page at the address `page` links to."""
    found = []
    for one, other in _LINK.findall(html):
        link = unescape(one or other)
        if link and not _ELSEWHERE.match(link):
            path = unquote(link.partition("#")[0].partition("?")[0])
            found.append(posixpath.normpath(posixpath.join(posixpath.dirname(page), path)))
    return found


def leads_on(html: str, page: str, addresses: Container[str]) -> bool:
    """Return whether every link of the page to the site leads to one of `addresses`."""
    return all(address in addresses for address in neighbours(html, page))
