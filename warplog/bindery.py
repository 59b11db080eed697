"""Binds an entry: its prose, rendered as Markdown, and the HTML that waits behind the tokens.

The rule kept here: what an author wrote is checked as it was rendered, before anything of ours is put in;
a rendering is kept for the next build once it has passed. Knows no MkDocs.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from warplog import finder
from warplog import page as pages
from warplog.address import entry_address
from warplog.cache import Cache, digest, versions
from warplog.journal import Outcome
from warplog.placeholder import Page, substitute
from warplog.rendering import Heading, Rendering, leads_on, neighbours, pack, unpack
from warplog.workshop import Workshop

RENDERERS = ("mkdocs", "mkdocs-material", "Markdown", "pymdown-extensions")


def settings_of(file: Path) -> str:
    """Return a digest of the site's settings in `file` and of what renders Markdown by them."""
    return digest(file.read_bytes(), *versions(RENDERERS))


class Bindery:
    """Binds the entries of one build.

    `settings` is a digest of what renders Markdown and of its settings; `addresses` says where on the site
    each source file is; `brief` keeps the search small.
    """

    def __init__(
        self,
        shop: Workshop,
        cache: Cache,
        settings: str,
        addresses: Mapping[str, str],
        *,
        brief: bool,
    ) -> None:
        self._shop, self._cache, self._settings = shop, cache, settings
        self._addresses, self._brief = addresses, brief
        self._pages: dict[str, Page] = {}
        self._kept: dict[str, Rendering] = {}

    @cached_property
    def _around(self) -> str:
        return digest(*(part for item in sorted(self._addresses.items()) for part in item))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self._addresses.values())

    def prose(self, outcome: Outcome) -> str:
        """Return the Markdown to be rendered; empty where a rendering of it is kept. Raises Fault where
        the page cannot be written.
        """
        place = outcome.entry.place
        page = self._pages[place] = self._shop.page(outcome)
        key = self._key(outcome)
        kept = unpack(self._cache.get(key)) if key else None
        if kept is None or kept.around not in (None, self._around):
            return page.markdown
        self._kept[place] = kept
        return ""

    def has_open(self, place: str) -> bool:
        """Return whether the prose of the entry `place` was given out, and its page is to be bound."""
        return place in self._pages

    def bind(
        self,
        outcome: Outcome,
        html: str,
        headings: list[Heading],
        anchors: list[str],
        links: dict[str, dict[str, str]],
    ) -> tuple[Rendering, str]:
        """Return the rendering of an entry and its whole HTML. The arguments are what Markdown made of
        `prose`. Raises Fault where the author's part could run something, or hides a measured number.
        """
        entry = outcome.entry
        page = self._pages.pop(entry.place)
        found = self._kept.pop(entry.place, None)
        if found is None:
            pages.refuse_active(html, page, entry.place)
            searched = finder.reduced(html, page, outcome, brief=self._brief)
            address = entry_address(entry.slug)
            around = self._around if neighbours(html, address) else None
            found = Rendering(html, searched, headings, anchors, links, around)
            key = self._key(outcome)
            if key and leads_on(html, address, self._known):
                self._cache.put(key, pack(found))
        return found, substitute(found.html, page.html)

    def _key(self, outcome: Outcome) -> str | None:
        key = self._shop.key(outcome.entry.path)
        return key and digest("rendering", key, self._settings, str(self._brief))
