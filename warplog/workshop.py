"""Reads, judges and writes entries, and keeps what came of each until something that it is made of changes.

The rule kept here: with what was kept or without, the result is the same; many entries at once are made by
several processes, which only keep and never decide: what one of them could not make is made again here,
where its faults are heard.
"""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec

from warplog import page as pages
from warplog.cache import Cache, digest, made_by
from warplog.entry import load
from warplog.evidence import Archive
from warplog.fault import Fault, Faults
from warplog.inputs import Contents, Inputs
from warplog.journal import Outcome, outcome_of
from warplog.placeholder import Page
from warplog.source import Repository

ALONE_UP_TO = 40
_TRUSTED = ("warplog.", "pathlib")
_PLAIN = {
    ("builtins", "set"),
    ("collections", "Counter"),
    ("datetime", "date"),
    ("msgspec._core", "rebuild"),
}


class Workshop:
    """Makes the outcomes and the pages of a repository's entries.

    `repository_url` is where a browser finds the repository; `contents` outlives a build while serving.
    """

    def __init__(
        self,
        repository: Repository,
        cache: Cache,
        repository_url: str = "",
        contents: Contents | None = None,
    ) -> None:
        self.repository = repository
        self.archive = Archive(repository)
        self._cache, self._url = cache, repository_url
        self._inputs = Inputs(repository.root, contents)
        self._keys: dict[str, str | None] = {}

    @property
    def paths(self) -> list[Path]:
        """The files of the entries, oldest first."""
        return sorted((self.repository.root / "entries").glob("*.md"))

    def key(self, path: Path) -> str | None:
        """Return under which key the work on an entry is kept; None where it is not."""
        if path.name not in self._keys:
            made_of = self._inputs.of(path)
            self._keys[path.name] = made_of and digest(made_by(), self._url, made_of)
        return self._keys[path.name]

    def outcome(self, path: Path) -> Outcome:
        """Return the entry at `path`, judged; raises Faults with all that is wrong with it."""
        key = self.key(path)
        kept = self._cache.get(digest("outcome", key)) if key else None
        outcome = _outcome_in(kept) if kept else None
        if outcome is None:
            entry = load(path, self.repository, self.archive)
            outcome = outcome_of(entry, self.archive.of(entry.artifact))
            if key:
                self._cache.put(digest("outcome", key), pickle.dumps(outcome, protocol=5))
        return outcome

    def page(self, outcome: Outcome) -> Page:
        """Return the page of an entry; raises Fault where a figure or a listing cannot be made."""
        key = self.key(outcome.entry.path)
        kept = self._cache.get(digest("page", key)) if key else None
        if kept is not None:
            return msgspec.msgpack.decode(kept, type=Page)
        page = pages.write(outcome, self._url)
        if key:
            self._cache.put(digest("page", key), msgspec.msgpack.encode(page))
        return page

    def make(self, folder: Path) -> None:
        """Make all that is not kept yet in `folder`, the cache's, by several processes if it is much."""
        missing = [path for path in self.paths if not self._is_kept(path)]
        workers = min(os.cpu_count() or 1, len(missing) // ALONE_UP_TO)
        if workers < 2:  # noqa: PLR2004 - one process is this one
            return
        command = [sys.executable, "-m", __name__, str(self.repository.root), str(folder), self._url]
        around = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [around, os.environ.get("PYTHONPATH")]))
        started = [
            subprocess.Popen([*command, str(number), str(workers)], env={**os.environ, "PYTHONPATH": path})
            for number in range(workers)
        ]
        for each in started:
            each.wait()

    def _is_kept(self, path: Path) -> bool:
        key = self.key(path)
        return key is not None and self._cache.holds(digest("page", key))


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


def main(root: str, folder: str, url: str, number: str, workers: str) -> None:
    """Make every `workers`-th entry from the `number`-th on, and keep it."""
    shop = Workshop(Repository(Path(root)), Cache(Path(folder)), url)
    for path in shop.paths[int(number) :: int(workers)]:
        try:
            shop.page(shop.outcome(path))
        except (Fault, Faults):
            continue


if __name__ == "__main__":
    main(*sys.argv[1:])
