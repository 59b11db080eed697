"""Adds the entries and all that is made from them to the site. Only it and `serving` import MkDocs.

The rule kept here: a path of the repository is the same path on the site (records and artifact files are
published as they are), and what an author can mend ends the build with one line a fault, no traceback.
"""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin, event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import get_toc

from warplog import finder, gallery, placeholder, ways
from warplog.address import SITE_CARD, entry_address
from warplog.bindery import Bindery, settings_of
from warplog.cache import FOLDER, Cache
from warplog.crew import Crew
from warplog.desk import Desk
from warplog.extras import extras, fonts
from warplog.fault import Fault
from warplog.feed import ITEMS_AT_MOST
from warplog.journal import Journal
from warplog.metadata import metadata
from warplog.preview import FAULTS, fault_addresses, fault_page
from warplog.rendering import headings
from warplog.serving import Content, Serving, add_files
from warplog.site import Site
from warplog.source import Repository
from warplog.spool import Spool

_HIDDEN = InclusionLevel.NOT_IN_NAV
_NO_ADDRESS = (
    "SITE_URL is not set, so there are no feeds, no sitemap and no preview pictures, which name whole "
    "addresses: to publish the site, set it to where the site will be"
)

log = get_plugin_logger(__name__)


class WarplogPlugin(BasePlugin):  # type: ignore[misc]  # mypy does not read MkDocs
    """Reads the repository around mkdocs.yml anew for each build."""

    cache: Cache
    written: dict[str, placeholder.Page]
    bindery: Bindery | None = None
    crew: Crew | None = None
    author = False

    def __init__(self) -> None:
        super().__init__()
        self.desk, self.spool = Desk(), Spool()
        self.serving = Serving(self._take_in, self._generated)

    @property
    def journal(self) -> Journal:
        """Every entry that is right."""
        return self.desk.journal

    def on_startup(self, *, command: str, dirty: bool) -> None:  # noqa: ARG002 - MkDocs' words
        """Hear whether an author is watching: then drafts are pages, and a fault is one, not the end."""
        self.author = self.desk.drafts = command == "serve"

    def on_files(self, files: Files, *, config: MkDocsConfig) -> None:
        """Add a page for each entry, the pages and files made from all of them, the files of each
        artifact and those that they share, the records and their schema.
        """
        try:
            repository = Repository.find(Path(config.config_file_path).parent)
        except Fault as fault:
            raise _error([fault]) from None
        kept, url = repository.root / FOLDER, config.repo_url or ""
        self.cache, self.bindery = Cache(kept), None
        shop = self.desk.open(repository, self.cache, url)
        self.crew = Crew(shop, kept, url, _site(config), fonts(Path(config.docs_dir)))
        self.crew.start()
        faults = self.desk.read()
        for artifact in [*self.desk.artifacts, *repository.shared()]:
            try:
                add_files(files, artifact, repository.root, config)
            except Fault as fault:
                faults.append(fault)
        if faults and not self.author:
            raise _error(faults)
        for each in faults:
            log.info("%s", each)
        for outcome in self.journal.outcomes:
            source = {"abs_src_path": str(outcome.entry.path)}
            _add_page(files, outcome.entry.place, entry_address(outcome.entry.slug), config, source)
        for place, address in fault_addresses(self.desk.faults_by_place).items():
            _add_page(files, place, address, config, {"content": ""})
        for uri, content in self._generated(config, ITEMS_AT_MOST).items():
            held = "abs_src_path" if isinstance(content, Path) else "content"
            text = str(content) if isinstance(content, Path) else content
            files.append(File.generated(config, uri, inclusion=_HIDDEN, **{held: text}))
        gc.freeze()  # what was read stays: a look at what pages leave behind need not pass it again

    def _generated(self, config: MkDocsConfig, newest: int | None = None) -> dict[str, Content]:
        """Return what is made from the journal as a whole: pages, files for machines, the stylesheet, and
        the cards, of which only the `newest` are painted.
        """
        self.written = ways.pages(self.journal)
        found: dict[str, Content] = {uri: page.markdown for uri, page in self.written.items()}
        sources, kept = Path(config.docs_dir), self.desk.shop.repository.root / FOLDER
        try:
            return found | dict(extras(self.journal, _site(config), sources, kept, newest))
        except Fault as fault:
            raise _error([fault]) from None

    def on_page_read_source(self, *, page: Page, **_: Any) -> str | None:
        """Read no entry a second time, and nothing of one that has faults."""
        uri = page.file.src_uri
        return "" if uri in self.journal.by_place or self.desk.faults_at(uri) else None

    def on_page_markdown(
        self, markdown: str, *, page: Page, config: MkDocsConfig, files: Files
    ) -> str:
        """Return the page's Markdown with tokens where HTML will stand."""
        uri = page.file.src_uri
        faults = self.desk.faults_at(uri)
        outcome = self.journal.by_place.get(uri)
        page.meta.setdefault("image", SITE_CARD)
        try:
            if faults or uri == FAULTS:
                return fault_page(faults or self.desk.faults)
            if outcome is not None:
                page.meta = metadata(outcome, self.journal)
                self.bindery = self.bindery or self._open_bindery(config, files)
                return self.bindery.prose(outcome)
            if uri == ways.HOME:
                page.meta["search"] = {"exclude": True}  # it says what the entries say
                self.written[uri] = ways.home(markdown, self.journal)
                return self.written[uri].markdown
        except Fault as fault:
            return self._told(fault)
        return markdown

    def _told(self, fault: Fault) -> str:
        """Return the page that tells an author of a fault; without one, the fault ends the build."""
        if self.author:
            return fault_page([fault])
        raise _error([fault]) from None

    def _open_bindery(self, config: MkDocsConfig, files: Files) -> Bindery:
        settings = settings_of(Path(config.config_file_path))
        addresses = {file.src_uri: file.dest_uri for file in files}
        brief = len(self.journal.outcomes) > finder.BRIEF_FROM
        return Bindery(self.desk.shop, self.cache, settings, addresses, brief=brief)

    def on_page_content(self, html: str, *, page: Page, files: Files, **_: Any) -> str:
        """Return the page's HTML with each token replaced; of an entry the reduced copy that the search
        is to see, while the whole waits on the disk.
        """
        uri = page.file.src_uri
        if self.bindery is None or not self.bindery.has_open(uri):
            written = self.written.get(uri)
            return html if written is None else placeholder.substitute(html, written.html)
        outcome = self.journal.by_place[uri]
        links = {file.src_uri: own for file, own in (page.links_to_anchors or {}).items()}
        anchors = sorted(page.present_anchor_ids or ())
        try:
            found, whole = self.bindery.bind(outcome, html, headings(page.toc), anchors, links)
        except Fault as fault:
            return self._told(fault)
        page.markdown, page.toc = "", get_toc(msgspec.to_builtins(found.headings))
        page.present_anchor_ids = set(found.anchors)
        linked = ((files.get_file_from_path(name), own) for name, own in found.links.items())
        page.links_to_anchors = {file: own for file, own in linked if file is not None}
        self.spool.put(uri, whole + ways.related(outcome, self.journal))
        return found.searched

    @event_priority(-90)  # type: ignore[untyped-decorator]
    def on_page_context(self, context: Any, *, page: Page, nav: Any, **_: Any) -> Any:
        """Put in the whole page, after the search plugin has seen the reduced copy."""
        self.serving.navigation = nav
        page.content = self.spool.take(page.file.src_uri) or page.content
        return context

    def on_post_page(self, output: str, *, page: Page, **_: Any) -> str:
        """Let go of what was written."""
        if page.file.src_uri in self.journal.by_place:
            page.content = ""
        return output

    def on_env(self, env: Any, *, config: MkDocsConfig, files: Files) -> None:
        """Paint the cards that are not painted yet; keep for the author what a page is built with. Leave
        out what would name whole addresses where the site has none, and say so.
        """
        if not config.site_url:
            config.theme.static_templates.discard("sitemap.xml")
            log.info("%s", _NO_ADDRESS)
        if self.crew is not None:
            self.crew.join()
        kept, sources = self.desk.shop.repository.root / FOLDER, Path(config.docs_dir)
        try:
            gallery.cards(self.journal, _site(config), fonts(sources), kept)
        except Fault as fault:
            raise _error([fault]) from None
        self.serving.environment, self.serving.config, self.serving.files = env, config, files

    def on_serve(self, server: Any, *, builder: Callable[[], None], **_: Any) -> None:
        """Show an edit when it is looked at; watch what the pages are made of."""
        root = self.desk.shop.repository.root
        self.serving.start(server, builder, [root / "entries", root / "artifacts"])

    def on_shutdown(self) -> None:
        """Stop watching."""
        self.serving.end()

    def _take_in(self, changed: set[Path]) -> bool:
        self.bindery = None
        return self.desk.take_in(changed)

    def on_post_build(self, **_: Any) -> None:
        """Let go of what this build held, and of what no build used for long."""
        self.on_build_error()
        self.cache.forget()

    def on_build_error(self, **_: Any) -> None:
        """Let go of what this build held."""
        gc.unfreeze()
        self.spool.close()
        if self.crew is not None:
            self.crew.close()


def _site(config: MkDocsConfig) -> Site:
    return Site(config.site_name, config.site_description or "", config.site_url or "")


def _error(faults: list[Fault]) -> PluginError:
    """Return what ends a build: MkDocs prints it without a traceback."""
    return PluginError("\n".join(str(fault) for fault in faults))


def _add_page(
    files: Files, place: str, address: str, config: MkDocsConfig, source: dict[str, str]
) -> None:
    """Add the page of an entry: links name it as the repository does, readers by its slug."""
    file = File.generated(config, place, inclusion=_HIDDEN, **source)
    file.dest_uri = address
    files.append(file)
