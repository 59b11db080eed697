"""Adds the entries and all that is made from them to the site. The only module that imports MkDocs.

The rule kept here: a path of the repository is the same path on the site (records and artifact files are
published as they are), and what an author can mend ends the build with one line a fault, no traceback.
"""

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin, event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink, get_toc

from warplog import exchange, finder, gallery, ways
from warplog.address import SITE_CARD, card_address, entry_address
from warplog.bindery import Bindery
from warplog.cache import FOLDER, Cache, digest, versions
from warplog.crew import Crew
from warplog.fault import Fault
from warplog.inputs import Contents
from warplog.journal import Journal, Outcome, read_journal
from warplog.placeholder import Page as Written
from warplog.placeholder import substitute
from warplog.record import schema
from warplog.rendering import Heading
from warplog.site import Site
from warplog.source import Artifact, Repository
from warplog.spool import Spool
from warplog.workshop import Workshop

SCHEMA_URI = "record.schema.json"
STYLE_URI = "assets/warplog.css"
CARDS_KEPT = "cards"
RENDERERS = ("mkdocs", "mkdocs-material", "Markdown", "pymdown-extensions")

_DATED = re.compile(r"^\d{4}-\d{2}-\d{2}-")
_HIDDEN = InclusionLevel.NOT_IN_NAV

log = get_plugin_logger(__name__)


class WarplogPlugin(BasePlugin):  # type: ignore[misc]  # mypy does not read MkDocs
    """Reads the repository around mkdocs.yml anew for each build."""

    journal: Journal
    shop: Workshop
    cache: Cache
    spool: Spool
    bindery: Bindery | None
    crew: Crew | None = None
    written: dict[str, Written]
    serving = False

    def __init__(self) -> None:
        super().__init__()
        self.contents, self.spool = Contents(), Spool()

    def on_startup(self, *, command: str, dirty: bool) -> None:  # noqa: ARG002 - MkDocs' words
        """Hear whether an author is watching: then a fault is a page and not the end."""
        self.serving = command == "serve"

    def on_config(self, config: MkDocsConfig) -> None:
        """Watch what the pages are made of, so that an edit shows while serving."""
        root = Path(config.config_file_path).parent
        config.watch += [str(root / "entries"), str(root / "artifacts")]

    def on_files(self, files: Files, *, config: MkDocsConfig) -> None:
        """Add a page for each entry, the pages and files made from all of them, the files of each
        artifact, the records and their schema.
        """
        try:
            repository = Repository.find(Path(config.config_file_path).parent)
        except Fault as fault:
            raise _error([fault]) from None
        kept = repository.root / FOLDER
        self.cache, self.bindery = Cache(kept), None
        self.shop = Workshop(repository, self.cache, config.repo_url or "", self.contents)
        self.crew = Crew(self.shop, kept, config.repo_url or "")
        self.shop.before_page = self.crew.wait_for
        self.crew.start()
        self.journal, faults = read_journal(self.shop.archive, self.shop.outcome)
        known = {each.entry.artifact: each.known for each in self.journal.outcomes}
        for artifact in repository.artifacts():
            try:
                faults += (known.get(artifact.slug) or self.shop.archive.of(artifact.slug)).faults
                _add_files(files, artifact, repository.root, config)
            except Fault as fault:
                faults.append(fault)
        if faults and not self.serving:
            raise _error(faults)
        self._add_fault_pages(files, faults, config)
        for outcome in self.journal.outcomes:
            files.append(_entry_file(outcome, config))
        self._add_generated(files, config)

    def _add_generated(self, files: Files, config: MkDocsConfig) -> None:
        """Add what is made from the journal as a whole: pages, files for machines, the stylesheet."""
        self.written = ways.pages(self.journal)
        for uri, page in self.written.items():
            files.append(File.generated(config, uri, content=page.markdown, inclusion=_HIDDEN))
        site = Site(config.site_name, config.site_description or "", config.site_url or "")
        fonts = Path(config.docs_dir) / "assets" / "fonts"
        kept = self.shop.repository.root / FOLDER / CARDS_KEPT
        try:
            cards = gallery.cards(self.journal, site, fonts, kept)
        except Fault as fault:
            raise _error([fault]) from None
        for uri, path in cards.items():
            files.append(File.generated(config, uri, abs_src_path=str(path)))
        for uri, content in exchange.files(self.journal, site, cards):
            files.append(File.generated(config, uri, content=content))
        text = msgspec.json.format(msgspec.json.encode(schema()), indent=2)
        files.append(File.generated(config, SCHEMA_URI, content=text))
        files.append(File.generated(config, STYLE_URI, content=_style(Path(config.docs_dir))))

    def on_page_read_source(self, *, page: Page, **_: Any) -> str | None:
        """Read no entry a second time."""
        return "" if page.file.src_uri in self.journal.by_place else None

    def on_page_markdown(
        self, markdown: str, *, page: Page, config: MkDocsConfig, files: Files
    ) -> str:
        """Return the page's Markdown with tokens where HTML will stand."""
        uri = page.file.src_uri
        outcome = self.journal.by_place.get(uri)
        page.meta.setdefault("image", SITE_CARD)
        try:
            if outcome is not None:
                page.meta = _meta(outcome, self.journal)
                self.bindery = self.bindery or self._open_bindery(config, files)
                return self.bindery.prose(outcome)
            if uri == ways.HOME:
                page.meta["search"] = {"exclude": True}  # it says what the entries say
                self.written[uri] = ways.home(markdown, self.journal)
                return self.written[uri].markdown
        except Fault as fault:
            if self.serving:
                return _fault_page([fault])
            raise _error([fault]) from None
        return markdown

    def _open_bindery(self, config: MkDocsConfig, files: Files) -> Bindery:
        settings = digest(Path(config.config_file_path).read_bytes(), *versions(RENDERERS))
        addresses = {file.src_uri: file.dest_uri for file in files}
        brief = len(self.journal.outcomes) > finder.BRIEF_FROM
        return Bindery(self.shop, self.cache, settings, addresses, brief=brief)

    def _add_fault_pages(self, files: Files, faults: list[Fault], config: MkDocsConfig) -> None:
        """Add, for an author who watches, a page in the place of each entry that has faults, and one
        of all of them.
        """
        by_file: dict[str, list[Fault]] = {}
        for fault in faults:
            log.info("%s", fault)
            by_file.setdefault(fault.place.partition(":")[0], []).append(fault)
        if faults:
            by_file["faults.md"] = faults
        for place, own in by_file.items():
            if place.endswith(".md"):
                text = _fault_page(own)
                file = File.generated(config, place, content=text, inclusion=_HIDDEN)
                name = _DATED.sub("", Path(place).stem)
                file.dest_uri = (Path(place).parent / f"{name}.html").as_posix()
                files.append(file)

    def on_page_content(self, html: str, *, page: Page, files: Files, **_: Any) -> str:
        """Return the page's HTML with each token replaced; of an entry the reduced copy that the search
        is to see, while the whole waits on the disk.
        """
        uri = page.file.src_uri
        outcome = self.journal.by_place.get(uri)
        if outcome is None or self.bindery is None:
            written = self.written.pop(uri, None)
            return html if written is None else substitute(html, written.html)
        links = {file.src_uri: own for file, own in (page.links_to_anchors or {}).items()}
        anchors = sorted(page.present_anchor_ids or ())
        try:
            found, whole = self.bindery.bind(outcome, html, _headings(page.toc), anchors, links)
        except Fault as fault:
            if self.serving:
                return f"<pre>{escape(str(fault))}</pre>"
            raise _error([fault]) from None
        page.markdown, page.toc = "", get_toc(msgspec.to_builtins(found.headings))
        page.present_anchor_ids = set(found.anchors)
        linked = ((files.get_file_from_path(name), own) for name, own in found.links.items())
        page.links_to_anchors = {file: own for file, own in linked if file is not None}
        self.spool.put(uri, whole + ways.related(outcome, self.journal))
        return found.searched

    @event_priority(-90)  # type: ignore[untyped-decorator]
    def on_page_context(self, context: Any, *, page: Page, **_: Any) -> Any:
        """Put in the whole page, after the search plugin has seen the reduced copy."""
        page.content = self.spool.take(page.file.src_uri) or page.content
        return context

    def on_post_page(self, output: str, *, page: Page, **_: Any) -> str:
        """Let go of what was written."""
        if page.file.src_uri in self.journal.by_place:
            page.content = ""
        return output

    def on_post_build(self, **_: Any) -> None:
        """Let go of what this build held, and of what no build used for long."""
        self._let_go()
        self.cache.forget()

    def on_build_error(self, **_: Any) -> None:
        """Let go of what this build held."""
        self._let_go()

    def _let_go(self) -> None:
        self.spool.close()
        if self.crew is not None:
            self.crew.close()


class _Published(File):  # type: ignore[misc]  # mypy does not read MkDocs
    """A file of the repository; a journal has thousands, so it is copied without a look around."""

    def copy_file(self, dirty: bool = False) -> None:  # noqa: FBT001, FBT002 - MkDocs' words
        """Write the file to its place on the site."""
        if dirty and not self.is_modified():
            return
        source, target = Path(self.abs_src_path), Path(self.abs_dest_path)
        try:
            target.write_bytes(source.read_bytes())
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


def _headings(toc: Iterable[AnchorLink]) -> list[Heading]:
    return [Heading(each.title, each.id, each.level, _headings(each.children)) for each in toc]


def _fault_page(faults: list[Fault]) -> str:
    """Return a page that says what to mend, one line a fault."""
    lines = "".join(f"<li>{escape(str(fault))}</li>" for fault in faults)
    return f"# To be mended\n\n<ol>{lines}</ol>\n"


def _error(faults: list[Fault]) -> PluginError:
    """Return what ends a build: MkDocs prints it without a traceback."""
    return PluginError("\n".join(str(fault) for fault in faults))


def _meta(outcome: Outcome, journal: Journal) -> dict[str, Any]:
    """Return what the theme's templates show of an entry; they do not escape, so it is done here.

    `prev` and `next` are the entries before and after by date, as `url` from the site's top and `title`.
    """
    entry = outcome.entry
    older, newer = journal.neighbours(outcome)
    return {
        "title": escape(entry.title),
        "description": escape(entry.summary),
        "date": entry.date.isoformat(),
        "tags": [escape(tag) for tag in entry.tags],
        "image": card_address(entry.slug),
        "image_alt": escape(gallery.described(outcome)),
        "kind": "entry",
        "hide": ["navigation"],
        "prev": _link(older),
        "next": _link(newer),
    }


def _link(outcome: Outcome | None) -> dict[str, str] | None:
    if outcome is None:
        return None
    return {"url": entry_address(outcome.entry.slug), "title": escape(outcome.entry.title)}


def _style(site_source: Path) -> str:
    """Return the parts of the stylesheet as one."""
    parts = sorted((site_source / "style").glob("*.css"))
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def _entry_file(outcome: Outcome, config: MkDocsConfig) -> File:
    """Return the file of an entry: links name it as the repository does, readers by its slug."""
    entry = outcome.entry
    file = File.generated(config, entry.place, abs_src_path=str(entry.path), inclusion=_HIDDEN)
    file.dest_uri = entry_address(entry.slug)
    return file


def _add_files(files: Files, artifact: Artifact, root: Path, config: MkDocsConfig) -> None:
    """Publish an artifact's files and all its records under the paths that they have here."""
    records = [path for path in artifact.records.glob("*/*.json") if path.name[0] != "."]
    for path in [*artifact.files(), *sorted(records)]:
        if path.suffix != ".md":
            uri = path.relative_to(root).as_posix()
            files.append(_Published.generated(config, uri, abs_src_path=str(path)))
