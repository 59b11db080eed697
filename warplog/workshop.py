"""Reads, judges and writes entries, and keeps what came of each until something that it is made of changes.

The rule kept here: with what was kept or without, the result is the same; what is read back are our own
nouns and nothing else, and where it is not, it is made anew.
"""

import contextlib
import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from warplog import page as pages
from warplog.cache import Cache, digest, made_by
from warplog.entry import load
from warplog.evidence import Archive
from warplog.inputs import Contents, Inputs
from warplog.journal import Outcome, outcome_of
from warplog.placeholder import Page
from warplog.source import Repository

_TRUSTED = ("warplog.", "pathlib")
_PLAIN = {
    ("builtins", "set"),
    ("collections", "Counter"),
    ("datetime", "date"),
    ("msgspec._utils", "rebuild"),
}


class Workshop:
    """Makes the outcomes and the pages of a repository's entries.

    `repository_url` is where a browser finds the repository; `contents` outlives a build while serving;
    `keys` are those of entries, by the names of their files, where they are known already, and
    `archive` holds the records that were read already.
    `before_page` is told each key before its page is looked for: others may be about to make it.
    """

    def __init__(
        self,
        repository: Repository,
        cache: Cache,
        repository_url: str = "",
        contents: Contents | None = None,
        keys: Mapping[str, str | None] | None = None,
        archive: Archive | None = None,
    ) -> None:
        self.repository = repository
        self.archive = archive or Archive(repository)
        self._cache, self._url = cache, repository_url
        self._contents = contents or Contents()
        self._inputs = Inputs(repository.root, self._contents)
        self._keys = dict(keys or {})
        self.before_page: Callable[[str], None] = lambda _: None

    @property
    def paths(self) -> list[Path]:
        """The files of the entries, oldest first."""
        return sorted((self.repository.root / "entries").glob("*.md"))

    def key(self, path: Path) -> str | None:
        """Return under which key the work on an entry is kept; None where it is not."""
        if path.name not in self._keys:
            made_of = self._inputs.of(path)
            self._keys[path.name] = made_of and self._digest(made_of)
        return self._keys[path.name]

    def _digest(self, made_of: str) -> str:
        return digest(made_by(), self._url, made_of)

    def _keep(self, kind: str, path: Path, key: str | None, content: bytes) -> None:
        """Keep what was made of an entry, unless a file that it is made of was changed meanwhile."""
        made_of = Inputs(self.repository.root, self._contents).of(path) if key else None
        if key and made_of and self._digest(made_of) == key:
            self._cache.put(digest(kind, key), content)

    def outcome(self, path: Path) -> Outcome:
        """Return the entry at `path`, judged; raises Faults with all that is wrong with it."""
        key = self.key(path)
        kept = self._cache.get(digest("outcome", key)) if key else None
        outcome = _outcome_in(kept) if kept else None
        if outcome is None:
            entry = load(path, self.repository, self.archive)
            outcome = outcome_of(entry, self.archive.of(entry.artifact))
            self._keep("outcome", path, key, pickle.dumps(outcome, protocol=5))
        return outcome

    def page(self, outcome: Outcome) -> Page:
        """Return the page of an entry; raises Fault where a figure or a listing cannot be made."""
        key = self.key(outcome.entry.path)
        if key:
            self.before_page(key)
        kept = self._cache.get(digest("page", key)) if key else None
        if kept is not None:
            with contextlib.suppress(msgspec.MsgspecError):
                return msgspec.msgpack.decode(kept, type=Page)
        page = pages.write(outcome, self._url)
        self._keep("page", outcome.entry.path, key, msgspec.msgpack.encode(page))
        return page

    def missing(self, path: Path) -> str | None:
        """Return the key of an entry whose page is to be made and can be kept; None for any other."""
        key = self.key(path)
        return None if key is None or self.is_kept(key) else key

    @property
    def keeps(self) -> bool:
        """Whether anything can be kept."""
        probe = digest("probe")
        self._cache.put(probe, b"")
        return self._cache.holds(probe)

    def is_kept(self, key: str) -> bool:
        """Return whether the page of the entry with this key is kept."""
        return self._cache.holds(digest("page", key))


class _Reader(pickle.Unpickler):
    """Makes our own nouns and nothing else, whatever a file of the cache asks for."""

    def find_class(self, module: str, name: str) -> object:
        found = None
        if module.startswith(_TRUSTED) or (module, name) in _PLAIN:
            found = super().find_class(module, name)
        if not isinstance(found, type) and (module, name) not in _PLAIN:
            message = f"{module}.{name} is none of our nouns"
            raise pickle.UnpicklingError(message)
        return found


def _outcome_in(kept: bytes) -> Outcome | None:
    try:
        found = _Reader(io.BytesIO(kept)).load()
    except Exception:  # noqa: BLE001 - whatever is wrong with a kept file, it is made again
        return None
    return found if isinstance(found, Outcome) else None
