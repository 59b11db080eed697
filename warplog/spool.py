"""Holds long texts on the disk until they are wanted once.

The rule kept here: a thousand pages wait for their turn without taking memory.
"""

import tempfile


class Spool:
    """Texts by name in a file of its own, which is gone when the spool is."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()
        self._places: dict[str, tuple[int, int]] = {}

    def put(self, name: str, text: str) -> None:
        """Hold `text` under `name`, in the place of what was held there."""
        content = text.encode("utf-8", "surrogatepass")
        self._places[name] = self._file.seek(0, 2), len(content)
        self._file.write(content)

    def take(self, name: str) -> str | None:
        """Return what is held under `name` and let go of it; None where nothing is."""
        if name not in self._places:
            return None
        start, length = self._places.pop(name)
        self._file.seek(start)
        return self._file.read(length).decode("utf-8", "surrogatepass")

    def close(self) -> None:
        """Let go of everything."""
        self._file.close()
