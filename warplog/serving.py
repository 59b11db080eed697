"""The half of the plugin that serves an author: takes in what changed, builds a page when it is asked for.

The rule kept here: what stands is the last whole build of MkDocs; a page is put through the same steps as
in a whole build, with what has changed since.
"""

import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mkdocs.commands.build import _build_page, _populate_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.utils import is_markdown_file
from watchdog.events import FileModifiedEvent

from warplog.fault import Fault
from warplog.menu import command
from warplog.preview import Preview
from warplog.source import Artifact
from warplog.watch import Watch

if TYPE_CHECKING:
    from jinja2 import Environment
    from mkdocs.structure.nav import Navigation

_FREE = 8001
Content = str | bytes | Path


class PublishedFile(File):  # type: ignore[misc]  # mypy does not read MkDocs
    """A file of the repository; a journal has thousands, so it is copied without a look around."""

    def copy_file(self, dirty: bool = False) -> None:  # noqa: FBT001, FBT002 - MkDocs' words
        """Write the file to its place on the site; if `dirty`, only where it has changed."""
        if dirty and not self.is_modified():
            return
        source, target = Path(self.abs_src_path), Path(self.abs_dest_path)
        try:
            target.write_bytes(source.read_bytes())
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


def add_files(files: Files, artifact: Artifact, root: Path, config: MkDocsConfig) -> None:
    """Publish an artifact's files and all its records under the paths that they have here."""
    records = [path for path in artifact.records.glob("*/*.json") if path.name[0] != "."]
    for path in [*artifact.files(), *sorted(records)]:
        if not is_markdown_file(path.name):
            uri = path.relative_to(root).as_posix()
            files.append(PublishedFile.generated(config, uri, abs_src_path=str(path)))


class Serving:
    """The last whole build, and how to bring a part of it up to date.

    `take_in` is given the files that changed, and returns False where only a whole build can show them;
    `generated` returns what is made from the journal as a whole, by its source address.
    """

    def __init__(
        self,
        take_in: Callable[[set[Path]], bool],
        generated: Callable[[MkDocsConfig], Mapping[str, Content]],
    ) -> None:
        self._take_in, self._generated = take_in, generated
        self._made: Mapping[str, Content] | None = None
        self._watch: Watch | None = None
        self.preview: Preview | None = None
        self.config: MkDocsConfig
        self.files: Files
        self.environment: Environment
        self.navigation: Navigation

    def start(
        self, server: LiveReloadServer, build: Callable[[], None], folders: Iterable[Path]
    ) -> None:
        """Stand between the server and the author, and watch `folders`. Raises PluginError, which MkDocs
        prints in one line, where another program serves at that address.
        """
        _refuse_taken(server)
        preview = self.preview = Preview(self._changed, self._refresh, build)
        server.builder = preview.rebuild
        mount = urlsplit(self.config.site_url or "/").path
        server.set_app(preview.application(server.get_app(), mount))
        server.unwatch(self.config.docs_dir)
        watched = next(
            iter(server.observer.emitters)
        ).watch  # that of mkdocs.yml, which MkDocs watches

        def tell(changed: set[Path]) -> None:
            preview.hear(changed)
            event = FileModifiedEvent(self.config.config_file_path)
            server.observer.event_queue.put((event, watched))

        self._watch = Watch([Path(self.config.docs_dir), *folders], tell)
        self._watch.start()

    def end(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.end()

    def _changed(self, changed: set[Path]) -> bool:
        self._made = None
        taken = self._take_in(changed)
        root = Path(self.config.config_file_path).parent
        for path in changed if taken else ():
            address = path.relative_to(root).as_posix()
            new = self.files.get_file_from_path(address) is None and path.is_file()
            if new and not is_markdown_file(path.name):
                source = str(path)
                self.files.append(
                    PublishedFile.generated(self.config, address, abs_src_path=source)
                )
        return taken

    def _refresh(self, address: str) -> None:
        """Make what is at an address of the site as a whole build would."""
        file = next((each for each in self.files if each.dest_uri == address), None)
        if file is None or file.inclusion.is_excluded():
            return
        if file.generated_by == "warplog" and file.abs_src_path is None:
            self._made = self._made or self._generated(self.config)
            content = self._made.get(file.src_uri, file.content_bytes)
            file.content_bytes = content.encode() if isinstance(content, str) else content
        if file.page is None:
            file.copy_file(dirty=True)
            return
        pages = self.files.documentation_pages(inclusion=InclusionLevel.is_in_serve)
        _populate_page(file.page, self.config, self.files)
        _build_page(file.page, self.config, pages, self.navigation, self.environment)


def _refuse_taken(server: LiveReloadServer) -> None:
    """Raise PluginError where the server's address cannot be had; MkDocs would end with a traceback."""
    host, port = server.server_address[:2]
    with socket.socket(server.address_family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            other = port + 1 if port >= _FREE else _FREE
            remedy = f"stop what serves there, or use another: {command('serve', '-a', f'{host}:{other}')}"
            problem = f"cannot serve at {host}:{port} ({error.strerror})"
            raise PluginError(str(Fault("mkdocs serve", problem, remedy))) from None
