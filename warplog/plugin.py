"""Adds the entries and all that is made from them to the site. The only module that imports MkDocs.

The rule kept here: a path of the repository is the same path on the site (records and artifact files are
published as they are), and what an author can mend ends the build with one line a fault, no traceback.
"""

import re
from html import escape
from pathlib import Path
from typing import Any

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin, CombinedEvent, event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from warplog import exchange, finder, gallery, ways
from warplog import page as pages
from warplog.address import SITE_CARD, card_address, entry_address
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.journal import Journal, Outcome, read_journal
from warplog.placeholder import Page as Written
from warplog.placeholder import substitute
from warplog.record import schema
from warplog.site import Site
from warplog.source import Artifact, Repository

SCHEMA_URI = "record.schema.json"
STYLE_URI = "assets/warplog.css"
CARDS_KEPT = ".cache/warplog/cards"

_DATED = re.compile(r"^\d{4}-\d{2}-\d{2}-")
_HIDDEN = InclusionLevel.NOT_IN_NAV

log = get_plugin_logger(__name__)


class WarplogPlugin(BasePlugin):  # type: ignore[misc]  # mypy does not read MkDocs
    """Reads the repository around mkdocs.yml anew for each build."""

    journal: Journal
    written: dict[str, Written]
    searched: dict[str, str]
    serving = False

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
            archive = Archive(repository)
            self.journal, faults = read_journal(archive)
        except Fault as fault:
            raise _error([fault]) from None
        for artifact in repository.artifacts():
            try:
                faults += archive.of(artifact.slug).faults
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
        self.searched = {}
        self.written = ways.pages(self.journal)
        for uri, page in self.written.items():
            files.append(File.generated(config, uri, content=page.markdown, inclusion=_HIDDEN))
        site = Site(config.site_name, config.site_description or "", config.site_url or "")
        fonts = Path(config.docs_dir) / "assets" / "fonts"
        kept = Path(config.config_file_path).parent / CARDS_KEPT
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

    def on_page_markdown(self, markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
        """Return the page's Markdown with tokens where HTML will stand."""
        uri = page.file.src_uri
        outcome = self.journal.by_place.get(uri)
        page.meta.setdefault("image", SITE_CARD)
        try:
            if outcome is not None:
                related = ways.related(outcome, self.journal)
                written = pages.write(outcome, config.repo_url or "", related)
                page.meta = _meta(outcome, self.journal)
            elif uri == ways.HOME:
                page.meta["search"] = {"exclude": True}  # it says what the entries say
                written = ways.home(markdown, self.journal)
            else:
                return markdown
        except Fault as fault:
            if self.serving:
                return _fault_page([fault])
            raise _error([fault]) from None
        self.written[uri] = written
        return written.markdown

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

    def on_page_content(self, html: str, *, page: Page, **_: Any) -> str:
        """Return the page's HTML with each token replaced, if the author's part of it is harmless."""
        uri = page.file.src_uri
        written = self.written.pop(uri, None)
        if written is None:
            return html
        outcome = self.journal.by_place.get(uri)
        if outcome is not None:
            try:
                pages.refuse_active(html, written, uri)
            except Fault as fault:
                if self.serving:
                    return f"<pre>{escape(str(fault))}</pre>"
                raise _error([fault]) from None
            brief = len(self.journal.outcomes) > finder.BRIEF_FROM
            self.searched[uri] = finder.reduced(html, written, outcome, brief=brief)
        return substitute(html, written.html)

    @event_priority(90)  # type: ignore[untyped-decorator]
    def _show_reduced(self, context: Any, *, page: Page, **_: Any) -> Any:
        """Let the search plugin, which comes next, see the reduced copy of an entry."""
        uri = page.file.src_uri
        if uri in self.searched:
            page.content, self.searched[uri] = self.searched[uri], page.content
        return context

    @event_priority(-90)  # type: ignore[untyped-decorator]
    def _show_whole(self, context: Any, *, page: Page, **_: Any) -> Any:
        """Put the page back as readers see it."""
        page.content = self.searched.pop(page.file.src_uri, page.content)
        return context

    on_page_context = CombinedEvent(_show_reduced, _show_whole)


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
            files.append(File.generated(config, uri, abs_src_path=str(path)))
