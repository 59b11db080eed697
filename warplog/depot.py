"""Keeps the measurements of records on the disk until someone asks for them, and few of them at a time.

The rule kept here: a record is checked once and then is what its digest says; where the file has become
another one since, that is a fault and not a mixture of both. A thousand records need the memory of a few.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import msgspec
from msgspec import Struct

from warplog.fault import Fault
from warplog.record import Measurement, Record

_KEPT = 24
_latest: dict[tuple[Path, str], Sequence[Measurement]] = {}


class Deposited(Sequence[Measurement]):
    """The measurements of the record at `path`, whose bytes have this `digest`."""

    __slots__ = ("_count", "_digest", "_path")

    def __init__(self, path: Path, digest: str, count: int) -> None:
        self._path, self._digest, self._count = path, digest, count

    def __len__(self) -> int:
        """Return how many there are, without reading them."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> Measurement: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Measurement]: ...
    def __getitem__(self, index: int | slice) -> Measurement | Sequence[Measurement]:
        """Return one or some; raises Fault where the file has changed since it was checked."""
        return _read(self._path, self._digest)[index]

    def __iter__(self) -> Iterator[Measurement]:
        """Return all of them, read once."""
        return iter(_read(self._path, self._digest))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __reduce__(self) -> tuple[type, tuple[Path, str, int]]:
        """Travel as the place of the measurements, not as they are."""
        return type(self), (self._path, self._digest, self._count)


class _Part(Struct):
    measurements: list[Measurement]


def deposited(record: Record, path: Path, text: bytes) -> Record:
    """Return `record`, which is what the file `path` with the bytes `text` says, without its weight."""
    digest = hashlib.sha256(text).hexdigest()
    _keep((path, digest), record.measurements)
    place = Deposited(path, digest, len(record.measurements))
    return msgspec.structs.replace(record, measurements=place)


def _read(path: Path, digest: str) -> Sequence[Measurement]:
    """Return the measurements of a file; those that were asked for lately are still there."""
    found = _latest.pop((path, digest), None)
    if found is None:
        try:
            text = path.read_bytes()
        except OSError:
            text = b""
        if hashlib.sha256(text).hexdigest() != digest:
            raise Fault(path.name, "changed while it was being read", "run the command again")
        found = msgspec.json.decode(text, type=_Part).measurements
    _keep((path, digest), found)
    return found


def _keep(name: tuple[Path, str], measurements: Sequence[Measurement]) -> None:
    _latest[name] = measurements
    while len(_latest) > _KEPT:
        with contextlib.suppress(
            StopIteration, KeyError, RuntimeError
        ):  # another thread was faster
            del _latest[next(iter(_latest))]
