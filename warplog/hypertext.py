"""Reads HTML as a browser would, to find what must not reach a reader: programs, forms, odd addresses.

The rule kept here: what is not known to be harmless is refused. Elements are those of a text; attributes
never handle events; an address is relative or of http, https or mailto once entities are decoded and
blanks are gone; and what parsers disagree on (odd comments, tags cut short) is refused too. Pure.
"""

import re
from collections.abc import Iterable
from html import unescape
from html.parser import HTMLParser

from msgspec import Struct

from warplog.markup import line_at

_NAMES = """
a abbr article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del details
dfn div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark nav
ol p pre q rp rt ruby s samp section small span strike strong sub summary sup table tbody td tfoot th
thead time tr tt u ul var wbr
"""
ELEMENTS = frozenset(_NAMES.split())
SCHEMES = {"http", "https", "mailto"}
ADDRESSES = {
    "action", "background", "cite", "data", "formaction", "href", "longdesc", "ping", "poster",
    "src", "srcset", "usemap", "xlink:href",
}  # fmt: skip
SHIELDED = {"a", "code", "h1", "h2", "h3", "h4", "h5", "h6", "pre"}
_BLANKS = re.compile(r"[\x00-\x20\x7f-\xa0\u200b\u2028\u2029\ufeff]")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_EVENT = re.compile(r"[\s/\"']on[a-z]+\s*=", re.IGNORECASE)
_AUTOLINK = re.compile(r"<(?:https?://|mailto:)[^<>\s\"'`]*>|<[\w.+-]+@[\w.-]+>", re.IGNORECASE)
_TARGET = re.compile(
    r"\]\([ \t\r\n]*(?P<inline><[^<>\n]*>|[^\s()<>]*)"
    r"|^ {0,3}\[(?!\^)[^\]\n]*\]:[ \t]*(?P<apart>\S+)",
    re.MULTILINE,
)
_RUNS = re.compile(r"(?:javascript|vbscript)\s*:|data\s*:\s*text/html", re.IGNORECASE)
_BRACES = re.compile(r"\{:?(?P<attributes>[^{}\n]*)\}")
_OPEN = re.compile(r"<[a-zA-Z/!?]")


class Finding(Struct, frozen=True):
    """What is wrong, and the line (from 0) and the column at which it stands."""

    line: int
    column: int
    what: str


def scheme_of(address: str) -> str:
    """Return the scheme of an address in lower case as a browser reads it; empty where relative."""
    found = _SCHEME.match(_BLANKS.sub("", unescape(address)))
    return found[1].lower() if found else ""


def findings(html: str) -> list[Finding]:
    """Return all that must not reach a reader in rendered `html`."""
    reader = Reader()
    reader.read(html)
    return reader.findings


def findings_in_source(markdown: str, fence_infos: Iterable[str] = ()) -> list[Finding]:
    """Return what would be active once `markdown`, whose code is blanked, is rendered.

    Besides HTML these are targets of links, addresses spelled with entities, and attributes in braces;
    `fence_infos` are what stands behind the fences, where braces are read too.
    """
    reader = Reader()
    reader.read(_AUTOLINK.sub(lambda match: " " * len(match[0]), markdown))
    found = reader.findings
    lines = {each.line for each in found}
    for match in _TARGET.finditer(markdown):
        target = (match["inline"] or match["apart"] or "").strip("<>")
        if scheme_of(target) not in {"", *SCHEMES}:
            found.append(_finding(markdown, match.start(), f"the address {target[:40]!r}"))
    for number, line in enumerate(markdown.split("\n")):
        words = _RUNS.search(unescape(line))
        if words and number not in lines:
            found.append(Finding(number, 0, f"the address {words[0][:40]!r}"))
    for match in _BRACES.finditer(markdown):
        if _bad_braces(match["attributes"]):
            found.append(_finding(markdown, match.start(), f"the attributes {match[0][:40]!r}"))
    for info in fence_infos:
        if any(_bad_braces(match["attributes"]) for match in _BRACES.finditer(info)):
            found.append(_finding(markdown, 0, f"the attributes {info[:40]!r}"))
    return _one_a_line(found)


def tags(markdown: str) -> list[tuple[int, int, str]]:
    """Return the line (from 0), the column and the text of every opening tag in `markdown`."""
    reader = Reader()
    reader.read(markdown)
    return reader.tags


def _one_a_line(found: list[Finding]) -> list[Finding]:
    first: dict[int, Finding] = {}
    for each in found:
        first.setdefault(each.line, each)
    return [first[line] for line in sorted(first)]


def _finding(text: str, offset: int, what: str) -> Finding:
    column = offset - (text.rfind("\n", 0, offset) + 1)
    return Finding(line_at(text, offset) - 1, column, what)


def _bad_braces(attributes: str) -> bool:
    reader = Reader()
    reader.read(f"<span {attributes.replace('>', '')}>")
    return bool(reader.findings)


class Reader(HTMLParser):
    """Keeps what is wrong, where tags stand, and the texts that are plain prose and nothing else."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.findings: list[Finding] = []
        self.tags: list[tuple[int, int, str]] = []
        self.prose: list[str] = []
        self._shields: list[str] = []

    def read(self, html: str) -> None:
        """Read all of `html`; a tag or a comment that it does not close is a finding."""
        try:
            self.feed(html)
        except AssertionError:  # the parser's own word for a declaration that it does not know
            self._refuse("a declaration")
            return
        if _OPEN.search(self.rawdata):
            self._refuse(f"a tag that is never closed, {self.rawdata[:40]!r}")
        else:
            self.handle_data(self.rawdata)

    def _refuse(self, what: str) -> None:
        line, column = self.getpos()
        self.findings.append(Finding(line - 1, column, what))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Refuse an element or an attribute that is not harmless."""
        text = self.get_starttag_text() or ""
        line, column = self.getpos()
        self.tags.append((line - 1, column, text))
        if tag in SHIELDED:
            self._shields.append(tag)
        if tag not in ELEMENTS:
            self._refuse(f"the element {f'<{tag}>'[:40]!r}")
        elif _EVENT.search(text) or any(name.startswith("on") for name, _ in attrs):
            self._refuse(f"what runs on an event, {text[:40]!r}")
        for name, value in attrs:
            if name in ADDRESSES and scheme_of(value or "") not in {"", *SCHEMES}:
                self._refuse(f"the address {(value or '')[:40]!r}")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element; the end of one that is refused is refused with it."""
        if tag in self._shields:
            del self._shields[len(self._shields) - 1 - self._shields[::-1].index(tag) :]
        if tag not in ELEMENTS and not self.findings:
            self._refuse(f"the element {f'</{tag}>'[:40]!r}")

    def handle_data(self, data: str) -> None:
        """Keep text that is neither code, nor a link, nor a heading."""
        if not self._shields:
            self.prose.append(data)

    def handle_comment(self, data: str) -> None:
        """Refuse a comment that browsers end elsewhere."""
        if data.startswith((">", "->")) or "--!>" in data or "<!--" in data:
            self._refuse("an odd comment")

    def handle_decl(self, decl: str) -> None:
        """Refuse declarations."""
        self._refuse(f"the declaration {decl[:40]!r}")

    def handle_pi(self, data: str) -> None:
        """Refuse processing instructions."""
        self._refuse(f"the instruction {data[:40]!r}")

    def unknown_decl(self, data: str) -> None:
        """Refuse marked sections, which browsers take for comments of another length."""
        self._refuse(f"the section {data[:40]!r}")
