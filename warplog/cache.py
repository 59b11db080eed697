"""Keeps what was made under a digest of all that it was made from, so that it need not be made again.

The rule kept here: a file that is lost, cut short or not ours is as good as none; one is written beside its
place and renamed, so that two builds at once harm nothing; what nobody used for two weeks is removed.
"""

import hashlib
import importlib.metadata
import os
import sys
import time
import zlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

FOLDER = ".cache/warplog"
_OURS = b"warplog\x01"
_DAY = 86_400.0
_UNUSED_AT_MOST = 14 * _DAY
_PACKAGES = ("msgspec", "Pygments", "PyYAML")


class Cache:
    """Bytes by key in the folder `folder`, which may be lost at any time; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, key: str) -> bytes | None:
        """Return what was kept under `key`; None where nothing is that can be trusted."""
        if self._folder is None:
            return None
        path = self._path(self._folder, key)
        try:
            content = path.read_bytes()
            if time.time() - path.stat().st_mtime > _DAY:
                os.utime(path)
        except OSError:
            return None
        return _opened(content)

    def holds(self, key: str) -> bool:
        """Return whether anything is kept under `key`, without a look at it."""
        return self._folder is not None and self._path(self._folder, key).exists()

    def put(self, key: str, content: bytes) -> None:
        """Keep `content` under `key`; where the disk is full or may not be written, keep nothing."""
        if self._folder is None:
            return
        path = self._path(self._folder, key)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(_OURS + zlib.crc32(content).to_bytes(4, "big") + content)
            part.replace(path)
        except OSError:
            return

    def forget(self) -> None:
        """Remove what nobody used for two weeks, and parts that were never finished."""
        if self._folder is None:
            return
        before = time.time() - _UNUSED_AT_MOST
        for path in self._folder.glob("??/*"):
            try:
                if path.stat().st_mtime < before:
                    path.unlink()
            except OSError:
                continue

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / key[2:]


def _opened(content: bytes) -> bytes | None:
    head = len(_OURS) + 4
    kept = content[head:]
    return kept if content[:head] == _OURS + zlib.crc32(kept).to_bytes(4, "big") else None


def digest(*parts: str | bytes) -> str:
    """Return one digest over `parts`, in which their borders count."""
    found = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(content).to_bytes(8, "big") + content)
    return found.hexdigest()


@lru_cache(maxsize=1)
def made_by() -> str:
    """Return a digest of all code that turns an entry into a page, ours and that of others."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    return digest(sys.version, *versions(_PACKAGES), *(path.read_bytes() for path in modules))


def versions(packages: Iterable[str]) -> list[str]:
    """Return the versions of installed packages."""
    return [importlib.metadata.version(package) for package in packages]
