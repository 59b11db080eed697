"""Looks at folders again and again, and tells which files are others than before.

The rule kept here: a look costs one glance at each file and works on every file system, also where the
system sends no word of changes; the more there is to see, the longer it rests between two looks.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event, Thread

from warplog.inputs import SKIPPED, Stamp, stamp

_REST = 0.1
_SHARE = 3


class Watch(Thread):
    """Watches `folders` and calls `tell` with the paths that appeared, changed or went."""

    def __init__(self, folders: Iterable[Path], tell: Callable[[set[Path]], None]) -> None:
        super().__init__(name="warplog watch", daemon=True)
        self._folders, self._tell = list(folders), tell
        self._ended = Event()
        self._seen = self.look()

    def run(self) -> None:
        """Look until `end` is called."""
        rest = _REST
        while not self._ended.wait(rest):
            start = os.times().elapsed
            seen = self.look()
            changed = {path for path, _ in self._seen.items() ^ seen.items()}
            self._seen = seen
            if changed:
                self._tell({Path(path) for path in changed})
            rest = max(_REST, _SHARE * (os.times().elapsed - start))

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()

    def look(self) -> dict[str, Stamp]:
        """Return every file below the folders with what tells it from an earlier one. Hidden files are
        parts that are still being written, and are left out.
        """
        seen: dict[str, Stamp] = {}
        pending = [os.fspath(folder) for folder in self._folders]
        while pending:
            with contextlib.suppress(OSError), os.scandir(pending.pop()) as members:
                for each in members:
                    if each.name.startswith(".") or each.name in SKIPPED:
                        continue
                    if each.is_dir(follow_symlinks=False):
                        pending.append(each.path)
                    else:
                        with contextlib.suppress(OSError):
                            seen[each.path] = stamp(each.stat())
        return seen
