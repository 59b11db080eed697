"""A built site as a folder of files: its pages, what each refers to, and what is not there.

The rule kept here: pages are found by walking the folder, so that a page added later is covered; an
address of the site's own, relative or absolute, must lead to a file, and its fragment to an id.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

SITE_URL = "https://warplog.example/"
MISSING_PAGE = "404.html"  # the only page that a server shows at any address
_HERE = "http://site/"
_ADDRESSES = {"href", "src", "action", "poster", "data", "xlink:href", "formaction"}
_URL = re.compile(r"url\(\s*(['\"]?)(.*?)\1\s*\)")
_ABSOLUTE = re.compile(rf"{re.escape(SITE_URL)}[^\s\"'<>)\]\\]*")


@dataclass(frozen=True)
class Reference:
    """An address as a page has it, with the line, the tag and its attribute."""

    line: int
    tag: str
    attribute: str
    address: str


@dataclass(frozen=True)
class Script:
    """A script of a page: the address that it is loaded from, or its text."""

    line: int
    kind: str
    address: str | None
    text: str


@dataclass
class Parsed(HTMLParser):
    """What a page's HTML holds."""

    html: str
    ids: list[str] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    attributes: list[tuple[int, str, str, str]] = field(default_factory=list)
    tags: Counter = field(default_factory=Counter)
    scripts: list[Script] = field(default_factory=list)
    links: list[dict[str, str]] = field(default_factory=list)
    metas: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self):
        super().__init__(convert_charrefs=True)
        self._script = None
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Take in a tag."""
        line = self.getpos()[0]
        given = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        self.attributes += [(line, tag, name, value) for name, value in given.items()]
        self.ids += [given["id"]] if "id" in given else []
        self.references += [
            Reference(line, tag, name, address) for name, address in _addresses(given)
        ]
        if tag == "script":
            self._script = (line, given.get("type", ""), given.get("src"))
            self._text = []
        elif tag == "link":
            self.links.append(given)
        elif tag == "meta":
            self.metas.append(given)

    def handle_data(self, data):
        """Take in text: only that of a script is of interest."""
        if self._script is not None:
            self._text.append(data)

    def handle_endtag(self, tag):
        """Close a script."""
        if tag == "script" and self._script is not None:
            self.scripts.append(Script(*self._script, "".join(self._text)))
            self._script = None


def _addresses(given):
    """Yield each address in the attributes of a tag, with the attribute's name."""
    for name in sorted(_ADDRESSES & given.keys()):
        yield name, given[name].strip()
    for name in sorted({"srcset", "imagesrcset"} & given.keys()):
        for candidate in filter(str.strip, given[name].split(",")):
            yield name, candidate.split()[0]
    for _, address in _URL.findall(given.get("style", "")):
        yield "style", address


class Built:
    """A site that was built into the folder `root`."""

    def __init__(self, root):
        self.root = Path(root)
        self._parsed = {}

    @cached_property
    def pages(self):
        """The paths of all pages, from the site's top."""
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*.html"))

    @property
    def entries(self):
        """The paths of the pages of entries."""
        return [page for page in self.pages if re.fullmatch(r"entries/[^/]+\.html", page)]

    def text(self, path):
        """The text of a file of the site."""
        return (self.root / path).read_text(encoding="utf-8")

    def parsed(self, page):
        """What a page's HTML holds, read once."""
        if page not in self._parsed:
            self._parsed[page] = Parsed(self.text(page))
        return self._parsed[page]

    def broken(self):
        """Every address of the site's own that leads nowhere, with page and line."""
        found = []
        for page in self.pages:
            for each in self.parsed(page).references:
                problem = self.problem(page, each.address)
                if problem:
                    found.append(f"{page}:{each.line}: <{each.tag} {each.attribute}>: {problem}")
        for sheet in sorted(self.root.rglob("*.css")):
            path = sheet.relative_to(self.root).as_posix()
            addresses = _URL.findall(sheet.read_text(encoding="utf-8"))
            problems = [self.problem(path, address) for _, address in addresses]
            found += [f"{path}: {problem}" for problem in problems if problem]
        return found

    def broken_absolute(self, path):
        """Every absolute address of the site in a file (a feed, a list) that leads nowhere."""
        found = _ABSOLUTE.findall(self.text(path))
        return [problem for each in found if (problem := self.problem(path, each))]

    def problem(self, page, address):
        """What is wrong with an address on `page`; None for nothing, and for one of another site."""
        if address.startswith(SITE_URL):
            address = "/" + address.removeprefix(SITE_URL)
        elif urlsplit(address).scheme or address.startswith("//"):
            return None
        elif address.startswith("/") and page != MISSING_PAGE:
            return f"{address!r} works neither in a folder nor from a file"
        target = urlsplit(urljoin(_HERE + page, address))
        path = unquote(target.path.removeprefix("/"))
        if path.endswith("/") or not path:
            if not address.startswith("/"):
                return f"{address!r} is a folder, which shows nothing from a file"
            path += "index.html"
        if not (self.root / path).is_file():
            return f"{address!r} leads to no file"
        return self._fragment_problem(path, target.fragment, address)

    def _fragment_problem(self, path, fragment, address):
        if not path.endswith(".html") or fragment in ("", "top"):
            return None
        page = self.parsed(path)
        if unquote(fragment) in page.ids:
            return None
        return f"{address!r}: {path} has no such anchor"
