"""Holds long texts on the disk until they are wanted once.

The rule kept here: a thousand pages wait for their turn without taking memory.
"""

import tempfile
from io import SEEK_END
from typing import IO


class Spool:
    """Texts by name in a file of its own."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._places: dict[str, tuple[int, int]] = {}

    def put(self, name: str, text: str) -> None:
        """Hold `text` under `name`, in the place of what was held there."""
        self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        content = text.encode("utf-8", "surrogatepass")
        self._places[name] = self._file.seek(0, SEEK_END), len(content)
        self._file.write(content)

    def take(self, name: str) -> str | None:
        """Return what is held under `name` and let go of it; None where nothing is."""
        if self._file is None or name not in self._places:
            return None
        start, length = self._places.pop(name)
        self._file.seek(start)
        return self._file.read(length).decode("utf-8", "surrogatepass")

    def close(self) -> None:
        """Let go of everything; it can be used again."""
        if self._file is not None:
            self._file.close()
        self._file, self._places = None, {}
