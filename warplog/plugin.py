"""Adds the entries to the site. The only module that imports MkDocs, and thin.

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
from mkdocs.plugins import BasePlugin, get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from warplog import page as pages
from warplog.entry import Entry, load_all
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.record import schema
from warplog.source import Artifact, Repository

SCHEMA_URI = "record.schema.json"

_DATED = re.compile(r"^\d{4}-\d{2}-\d{2}-")
_HIDDEN = InclusionLevel.NOT_IN_NAV

log = get_plugin_logger(__name__)


class WarplogPlugin(BasePlugin):  # type: ignore[misc]  # mypy does not read MkDocs
    """Reads the repository around mkdocs.yml anew for each build."""

    archive: Archive
    entries: dict[str, Entry]
    written: dict[str, pages.Page]
    serving = False

    def on_startup(self, *, command: str, dirty: bool) -> None:  # noqa: ARG002 - MkDocs' words
        """Hear whether an author is watching: then a fault is a page and not the end."""
        self.serving = command == "serve"

    def on_config(self, config: MkDocsConfig) -> None:
        """Watch what the pages are made of, so that an edit shows while serving."""
        root = Path(config.config_file_path).parent
        config.watch += [str(root / "entries"), str(root / "artifacts")]

    def on_files(self, files: Files, *, config: MkDocsConfig) -> None:
        """Add a page for each entry, the files of each artifact, the records and their schema."""
        try:
            repository = Repository.find(Path(config.config_file_path).parent)
            self.archive = Archive(repository)
            found, faults = load_all(repository, self.archive)
        except Fault as fault:
            raise _error([fault]) from None
        for artifact in repository.artifacts():
            try:
                faults += self.archive.of(artifact.slug).faults
                _add_files(files, artifact, repository.root, config)
            except Fault as fault:
                faults.append(fault)
        if faults and not self.serving:
            raise _error(faults)
        self.written = {}
        self.entries = {}
        self._add_fault_pages(files, faults, config)
        for entry in found:
            if not entry.draft:
                self.entries[entry.place] = entry
                files.append(_entry_file(entry, config))
        text = msgspec.json.format(msgspec.json.encode(schema()), indent=2)
        files.append(File.generated(config, SCHEMA_URI, content=text))

    def on_page_markdown(self, markdown: str, *, page: Page, **_: Any) -> str:
        """Return the page's Markdown with tokens where HTML will stand."""
        uri = page.file.src_uri
        entry = self.entries.get(uri)
        try:
            if entry is not None:
                written = pages.write(entry, self.archive.of(entry.artifact))
                page.meta = _meta(entry)
            elif uri == "index.md":
                written = pages.home(markdown, list(self.entries.values()), self.archive)
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
                file.dest_uri = (Path(place).parent / name / "index.html").as_posix()
                files.append(file)

    def on_page_content(self, html: str, *, page: Page, **_: Any) -> str:
        """Return the page's HTML with each token replaced, if the author's part of it is harmless."""
        uri = page.file.src_uri
        written = self.written.pop(uri, None)
        if written is None:
            return html
        if uri in self.entries:
            try:
                pages.refuse_active(html, written, uri)
            except Fault as fault:
                if self.serving:
                    return f"<pre>{escape(str(fault))}</pre>"
                raise _error([fault]) from None
        return pages.substitute(html, written.html)


def _fault_page(faults: list[Fault]) -> str:
    """Return a page that says what to mend, one line a fault."""
    lines = "".join(f"<li>{escape(str(fault))}</li>" for fault in faults)
    return f"# To be mended\n\n<ol>{lines}</ol>\n"


def _error(faults: list[Fault]) -> PluginError:
    """Return what ends a build: MkDocs prints it without a traceback."""
    return PluginError("\n".join(str(fault) for fault in faults))


def _meta(entry: Entry) -> dict[str, Any]:
    """Return what the theme's templates show of an entry; they do not escape, so it is done here."""
    return {
        "title": escape(entry.title),
        "description": escape(entry.summary),
        "date": entry.date.isoformat(),
        "hide": ["navigation"],
    }


def _entry_file(entry: Entry, config: MkDocsConfig) -> File:
    """Return the file of an entry: links name it as the repository does, readers by its slug."""
    file = File.generated(config, entry.place, abs_src_path=str(entry.path), inclusion=_HIDDEN)
    file.dest_uri = (
        f"entries/{entry.slug}/index.html"
        if config.use_directory_urls
        else f"entries/{entry.slug}.html"
    )
    return file


def _add_files(files: Files, artifact: Artifact, root: Path, config: MkDocsConfig) -> None:
    """Publish an artifact's files and all its records under the paths that they have here."""
    records = [path for path in artifact.records.glob("*/*.json") if path.name[0] != "."]
    for path in [*artifact.files(), *sorted(records)]:
        if path.suffix != ".md":
            uri = path.relative_to(root).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
