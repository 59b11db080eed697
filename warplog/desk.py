"""The journal on an author's desk: read once, and then only what changed.

The rule kept here: what was read of a file stands until that file, or one that it rests on, is another.
"""

from pathlib import Path

from warplog.cache import Cache
from warplog.evidence import CEILINGS
from warplog.fault import Fault, Faults
from warplog.inputs import Contents, artifact_of
from warplog.journal import Journal, Outcome, read_journal
from warplog.publication import only_drafts
from warplog.source import Artifact, Repository
from warplog.workshop import Workshop

_SHARED = {"shared", CEILINGS}


class Desk:
    """The entries of a repository as they stand, and what is wrong with them.

    `journal` holds the entries that are right, `faults` all that an author can mend; `drafts` says
    whether drafts are shown too, as to their author.
    """

    journal: Journal
    faults: list[Fault]
    drafts = False

    def __init__(self) -> None:
        self._contents = Contents()
        self._read: dict[Path, Outcome | Faults] = {}

    def open(self, repository: Repository, cache: Cache, url: str) -> Workshop:
        """Return a workshop for a whole build, which reads everything anew."""
        self.shop = Workshop(repository, cache, url, self._contents)
        self._cache, self._url = cache, url
        self._read = {}
        return self.shop

    def read(self) -> list[Fault]:
        """Read what is not read yet, and return all that is wrong."""
        self.journal, self.faults = read_journal(
            self.shop.archive, self._outcome, drafts=self.drafts
        )
        known = {each.entry.artifact: each.known for each in self.journal.outcomes}
        for artifact in self.shop.repository.artifacts():
            try:
                found = known.get(artifact.slug) or self.shop.archive.of(artifact.slug)
                self.faults += found.faults
            except Fault as fault:
                self.faults.append(fault)
        return self.faults

    def take_in(self, changed: set[Path]) -> bool:
        """Read anew what rests on the files `changed`; False where a page comes or goes, or where too
        much rests on one of them: then only a whole build helps.
        """
        root, touched = self.shop.repository.root, changed & self._read.keys()
        artifacts = {_artifact(path, root) for path in changed - touched}
        if None in artifacts or artifacts & _SHARED or not all(map(Path.is_file, touched)):
            return False
        before = self._shown
        for slug in artifacts:
            self.shop.archive.forget(str(slug))
        for path, found in list(self._read.items()):
            if path in touched or _rests_on(path, found) in artifacts:
                del self._read[path]
        self.shop = Workshop(
            self.shop.repository, self._cache, self._url, self._contents, archive=self.shop.archive
        )
        self.read()
        return before == self._shown

    @property
    def faults_by_place(self) -> dict[str, list[Fault]]:
        """The faults by the file that they are in."""
        found: dict[str, list[Fault]] = {}
        for fault in self.faults:
            found.setdefault(fault.place.partition(":")[0], []).append(fault)
        return found

    def faults_at(self, place: str) -> list[Fault]:
        """Return what is wrong with the entry `place`: its own faults, else those of its records."""
        outcome = self.journal.by_place.get(place)
        return list(outcome.known.faults) if outcome else self.faults_by_place.get(place, [])

    @property
    def _shown(self) -> set[Path]:
        """The files of the entries that have a page: those that are published, and those with faults."""
        return {
            path
            for path, found in self._read.items()
            if isinstance(found, Faults) or self.drafts or not found.entry.draft
        }

    @property
    def artifacts(self) -> list[Artifact]:
        """The artifacts whose files are shown: all but those that only drafts, unseen, tell of."""
        known = [each.entry for each in self._read.values() if isinstance(each, Outcome)]
        hidden = set() if self.drafts else only_drafts(known) - {CEILINGS}
        return [each for each in self.shop.repository.artifacts() if each.slug not in hidden]

    def _outcome(self, path: Path) -> Outcome:
        """Return the entry at `path`, judged, or raise Faults; both are remembered."""
        if path not in self._read:
            try:
                self._read[path] = self.shop.outcome(path)
            except Faults as wrong:
                self._read[path] = wrong
        found = self._read[path]
        if isinstance(found, Faults):
            raise found
        return found


def _artifact(path: Path, root: Path) -> str | None:
    """Return the artifact that a file belongs to; None where it belongs to none."""
    parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
    return (
        parts[1] if parts[:1] == ("artifacts",) and len(parts) > len(("artifacts", "x")) else None
    )


def _rests_on(path: Path, found: Outcome | Faults) -> str | None:
    """Return the artifact that an entry is about, as far as it can be told."""
    if isinstance(found, Outcome):
        return found.entry.artifact
    try:
        return artifact_of(path)
    except (OSError, UnicodeDecodeError):
        return None
