"""Reads an agent's transcript, JSON lines of Claude Code or Codex, one line at a time.

The rule kept here: a transcript is never held whole; a line that is broken, too long or of no known kind is
passed over and counted, and nothing in it can end the reading.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from warplog import claudecode, codex
from warplog.conversation import Event
from warplog.fault import Fault

_LINE_AT_MOST = 64 * 1024 * 1024
_DEEPEST = 40
_UNTOLD = {"signature", "encrypted_content", "image_url", "thinkingMetadata"}
_NAMES = ("id", "Id", "uuid", "Uuid", "ID")


class Books(Struct):
    """What was read: lines, those that are broken or too long, and records of unknown types by type."""

    lines: int = 0
    broken: int = 0
    too_long: int = 0
    unknown: Counter[str] = Counter()


class Transcript:
    """The records of one file; each reading starts at its beginning, keeps new books, and ends where the
    first one did, also where the session goes on and its file grows.
    """

    def __init__(self, path: Path) -> None:
        """Name the file; it is opened when it is read."""
        self.path = path
        self.books = Books()
        self._size: int | None = None

    def events(self) -> Iterator[Event]:
        """Yield what the records tell, in order; a record that stands twice is read once."""
        read: set[str] = set()
        for record in self.records():
            name = record.get("uuid")
            if isinstance(name, str):
                if name in read:
                    continue
                read.add(name)
            yield from self.told(record)

    def told(self, record: dict[str, Any]) -> Iterator[Event]:
        """Yield what one record tells, and count it where its type is unknown."""
        if not isinstance(record.get("type"), str | None):
            self.books.unknown["(no plain name)"] += 1
            return
        reader = codex if _is_codex(record) else claudecode
        kind = codex.kind(record) if reader is codex else str(record.get("type") or "")
        if not reader.is_record(record) and kind not in reader.QUIET:
            self.books.unknown[kind] += 1
        yield from reader.events(record)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each line that is a JSON object, and count the others. Raises Fault without the file."""
        self.books = Books(unknown=Counter())
        for line in self._lines():
            if not line.strip():
                continue
            self.books.lines += 1
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                self.books.broken += 1
                continue
            if isinstance(record, dict):
                yield record
            else:
                self.books.broken += 1

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the file; one that is too long is counted and left out."""
        try:
            if self.path.exists() and not self.path.is_file():
                problem = "is no plain file, and a transcript is read twice"
                raise Fault(str(self.path), problem, "save it to a file, and name that")
            with self.path.open("rb") as file:
                if self._size is None:
                    self._size = os.fstat(file.fileno()).st_size
                while line := _line(file, self._size):
                    if len(line) < _LINE_AT_MOST or line.endswith(b"\n"):
                        yield line
                        continue
                    self.books.lines += 1
                    self.books.too_long += 1
                    while line and not line.endswith(b"\n"):
                        line = _line(file, self._size)
        except OSError as error:
            remedy = "name a transcript: a file of JSON lines"
            problem = f"cannot be read ({error.strerror})"
            raise Fault(str(self.path), problem, remedy) from None


def _line(file: BinaryIO, end: int) -> bytes:
    """Return the next line, or as much of it as is read at once; nothing from the byte `end` on."""
    return file.readline(min(_LINE_AT_MOST, max(0, end - file.tell())))


def _is_codex(record: dict[str, Any]) -> bool:
    """Return whether a record has the form that Codex gives its own."""
    kind = record.get("type")
    if isinstance(record.get("message"), dict):
        return False
    if kind is None and ("record_type" in record or "instructions" in record):
        return True
    enveloped = kind in codex.ENVELOPES and isinstance(record.get("payload"), dict)
    return (
        enveloped
        or kind in codex.READ | codex.QUIET
        or str(kind).startswith(("item.", "turn.", "thread."))
    )


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield every text in a record, keys aside, those in JSON that stands in a text too.

    Left out are the names that records give each other, and what is encrypted or a picture.
    """
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield value
        if value[:1] in "{[" and value[-1:] in "}]":
            try:
                yield from texts(json.loads(value), depth + 1)
            except (ValueError, RecursionError):
                return
    elif isinstance(value, list):
        for each in value:
            yield from texts(each, depth + 1)
    elif isinstance(value, dict):
        picture = value.get("type") in ("base64", "image", "input_image")
        for key, each in value.items():
            named = isinstance(each, str) and str(key).endswith(_NAMES)
            if not (named or key in _UNTOLD or (picture and key == "data")):
                yield from texts(each, depth + 1)
