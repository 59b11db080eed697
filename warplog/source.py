"""Where things are, and the digest that binds a record to the source that it was measured from.

The rule kept here: the digest covers the closure that decides a number (the artifact's own files, the
shared modules that it really imported), line endings do not count, and no path leaves the repository.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from warplog.fault import Fault
from warplog.record import Record

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_NAME_AT_MOST, _PATH_AT_MOST = 255, 1000  # bytes; systems allow more in all, less a deep checkout
_NAMED_AT_MOST = 6
_GENERATED = {"__pycache__", ".DS_Store", ".ipynb_checkpoints"}
_RUN_BY_BROWSERS = {
    ".html", ".htm", ".xhtml", ".xht", ".shtml", ".svg", ".svgz", ".xml", ".xsl", ".xslt", ".mhtml", ".mht",
}  # fmt: skip


class Change(StrEnum):
    """What became of a file since a record was measured."""

    EDITED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True)
class Repository:
    """A checkout that holds `entries/` and `artifacts/`."""

    root: Path

    @classmethod
    def find(cls, start: Path) -> "Repository":
        """Return the repository around `start`, or raise Fault."""
        for folder in (start.resolve(), *start.resolve().parents):
            if (folder / "entries").is_dir() and (folder / "artifacts").is_dir():
                return cls(folder)
        raise Fault(
            "warplog",
            "no folder here or above holds entries/ and artifacts/",
            "run it inside a Warplog checkout",
        )

    def artifact(self, slug: str) -> "Artifact":
        """Return the artifact called `slug`, or raise Fault; a path that leaves the tree is refused."""
        place = f"artifacts/{slug}"
        if not _SLUG.match(slug) or not fits(slug):
            remedy = "an artifact is named by its folder: a-z, 0-9 and single hyphens"
            raise Fault("artifacts", f"no artifact can be called {slug[:80]!r}", remedy)
        folder = self.root / "artifacts" / slug
        if not (folder / "reproduce.py").is_file():
            known = ", ".join(artifact.slug for artifact in self.artifacts())
            raise Fault(place, "there is no such artifact", f"use one of: {known or 'none yet'}")
        if not folder.resolve().is_relative_to((self.root / "artifacts").resolve()):
            raise Fault(place, "the link leaves the repository", "put the files into the folder")
        return Artifact(slug, folder)

    def artifacts(self) -> list["Artifact"]:
        """Return every artifact, by name."""
        scripts = sorted((self.root / "artifacts").glob("*/reproduce.py"))
        return [Artifact(script.parent.name, script.parent) for script in scripts]

    def shared(self) -> list["Artifact"]:
        """Return the modules that artifacts share, as an artifact without a script; none without any."""
        folder = self.root / "artifacts" / "shared"
        return [Artifact("shared", folder)] if folder.is_dir() else []


@dataclass(frozen=True)
class Artifact:
    """A kernel with all that is needed to re-run it: `folder` is `artifacts/<slug>`."""

    slug: str
    folder: Path

    @property
    def records(self) -> Path:
        """The folder of this artifact's published records."""
        return self.folder / "records"

    def files(self) -> list[Path]:
        """Return the artifact's own files, sorted. Raises Fault for a link that leaves its folder, and for
        a name that no record can hold or that would make a program of what is published.
        """
        found: list[Path] = []
        pending = [self.folder]
        while pending:
            with os.scandir(pending.pop()) as members:
                for each in members:
                    if each.name in _GENERATED or Path(each) == self.records:
                        continue
                    self._refuse_leaving(each)
                    self._refuse_name(each)
                    if each.is_dir(follow_symlinks=False):
                        pending.append(Path(each))
                    elif each.is_file():
                        found.append(Path(each))
        return sorted(found)

    def _refuse_leaving(self, member: os.DirEntry[str]) -> None:
        """Raise Fault for a link to a place outside the artifact's folder."""
        path = Path(member)
        if member.is_symlink() and not path.resolve().is_relative_to(self.folder.resolve()):
            place = f"artifacts/{self.slug}/{path.relative_to(self.folder).as_posix()}"
            raise Fault(place, "the link leaves the artifact", "put the file itself there")

    def _refuse_name(self, member: os.DirEntry[str]) -> None:
        """Raise Fault for a name that is no plain text, and for a file that browsers would run."""
        path = Path(member)
        place = f"artifacts/{self.slug}/{path.relative_to(self.folder).as_posix()}"
        if not member.name.isprintable():
            raise Fault(place, "the name is no plain text", "give it a name of visible characters")
        if path.suffix.lower() in _RUN_BY_BROWSERS:
            problem = f"on the site a browser would run what is in a {path.suffix} file"
            raise Fault(place, problem, "leave it out, or save it as .txt or .png")

    def digests(self, shared: list[str]) -> dict[str, str]:
        """Return the digest of each file by its path as seen from the artifact's folder.

        `shared` names modules of `artifacts/shared` in that form (``../shared/x.py``); one that is
        gone is left out, so that the whole digest differs.
        """
        digests = {
            path.relative_to(self.folder).as_posix(): file_digest(path) for path in self.files()
        }
        for name in shared:
            path = self.folder / name
            inside = path.resolve().is_relative_to((self.folder.parent / "shared").resolve())
            if inside and path.is_file():
                digests[name] = file_digest(path)
        return dict(sorted(digests.items()))

    def commit(self) -> tuple[str | None, bool | None]:
        """Return the commit of the checkout and whether the artifact differs from it; None without git."""
        try:
            head = _git(self.folder, "rev-parse", "HEAD")
            status = _git(self.folder, "status", "--porcelain", "--", ".", ":(exclude)records")
        except (OSError, subprocess.CalledProcessError):
            return None, None
        return head.strip(), bool(status.strip())

    def changes(self, record: Record) -> dict[str, Change]:
        """Return what became of each file that differs from those that `record` was measured from.

        Where none does the record is fresh; otherwise it is stale.
        """
        then = record.source.files
        now = self.digests([name for name in then if name.startswith("../")])
        names = sorted(then.keys() | now.keys())
        changed = {
            name: Change.ADDED
            if name not in then
            else Change.EDITED
            if name in now
            else Change.REMOVED
            for name in names
            if then.get(name) != now.get(name)
        }
        if not changed and record.source.digest != closure_digest(then):
            return {"(the digest does not fit its own list of files)": Change.EDITED}
        return changed


def told(changes: Mapping[str, Change], at_most: int = _NAMED_AT_MOST) -> str:
    """Say what became of which files: ``a changed, b and c were added and d was removed``."""
    said = []
    for change in Change:
        names = [name for name, each in changes.items() if each is change]
        if names:
            was = "" if change is Change.EDITED else "was " if len(names) == 1 else "were "
            said.append(f"{_listed(names, at_most)} {was}{change}")
    return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))


def _listed(words: Sequence[str], at_most: int = _NAMED_AT_MOST) -> str:
    """Return some of `words` and how many more there are."""
    more = len(words) - at_most
    return ", ".join(words[:at_most]) + (f" and {more} more" if more > 0 else "")


def fits(path: str) -> bool:
    """Return whether a system can look for `path`: none of its names is over 255 bytes, nor all of it over
    a thousand.
    """
    names = [len(name.encode("utf-8", "surrogatepass")) for name in path.split("/")]
    return max(names) <= _NAME_AT_MOST and sum(names) <= _PATH_AT_MOST


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; in a text (no NUL byte) the line endings do not count."""
    content = path.read_bytes()
    if b"\0" not in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return "sha256:" + hashlib.sha256(content).hexdigest()


def closure_digest(files: dict[str, str]) -> str:
    """Return one digest over `files`, a map from path to digest."""
    listing = "".join(f"{name}\0{files[name]}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(listing.encode()).hexdigest()


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
