"""Says what an entry is made of, as one digest, so that what was made from the same is not made again.

The rule kept here: every file that can change a page is in its digest (the entry, all files and records of
its artifact, the shared modules, the ceilings), and where that cannot be told there is no digest.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from warplog.cache import digest
from warplog.evidence import CEILINGS

_SLUG = r"[a-z0-9]+(?:-[a-z0-9]+)*"
_ARTIFACT = re.compile(rf"^artifact:[ \t]*[\"']?({_SLUG})[\"']?[ \t]*\r?$", re.MULTILINE)
SKIPPED = {"__pycache__", ".ipynb_checkpoints"}

Stamp = tuple[int, int, int]


def stamp(found: os.stat_result) -> Stamp:
    """Return what tells a file from an earlier one of the same name, without reading it."""
    return found.st_mtime_ns, found.st_size, found.st_ino


class Contents:
    """The digests of files, read again only where time, size or place of a file are others."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Stamp, str]] = {}

    def of(self, file: os.DirEntry[str] | Path) -> str:
        """Return the digest of a file; raises OSError where it cannot be read."""
        now, name = stamp(file.stat()), os.fspath(file)
        if name not in self._seen or self._seen[name][0] != now:
            self._seen[name] = now, hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return self._seen[name][1]


class Inputs:
    """What the entries of the repository at `root` are made of, at one moment."""

    def __init__(self, root: Path, contents: Contents | None = None) -> None:
        self._artifacts = root / "artifacts"
        self._contents = contents or Contents()

    def of(self, entry: Path) -> str | None:
        """Return the digest of all that the page of `entry` is made from; None where it names no
        artifact that can be read.
        """
        try:
            slug = artifact_of(entry)
            if slug is None:
                return None
            own = digest(*self._folder(self._artifacts / slug))
            return digest(str(entry), self._contents.of(entry), slug, own, self._common)
        except (OSError, UnicodeDecodeError):
            return None

    @cached_property
    def _common(self) -> str:
        """What every entry depends on: the shared modules, and the ceilings of the devices."""
        folders = (self._artifacts / name for name in ("shared", CEILINGS))
        return digest(*(each for folder in folders for each in self._folder(folder)))

    def _folder(self, folder: Path) -> Iterator[str]:
        """Yield the name and the digest of each file below `folder`, in order; nothing if it is none."""
        if not folder.is_dir():
            return
        with os.scandir(folder) as members:
            found = sorted(members, key=lambda each: each.name)
        for each in found:
            if each.name in SKIPPED:
                continue
            yield each.path
            if each.is_dir():
                yield from self._folder(Path(each))
            else:
                yield self._contents.of(each)


def artifact_of(entry: Path) -> str | None:
    """Return the artifact that an entry names, by a glance at its front matter; None where a glance
    does not tell.
    """
    named = _ARTIFACT.findall(entry.read_text(encoding="utf-8").partition("\n---")[0])
    return named[0] if len(named) == 1 else None
