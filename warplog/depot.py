"""Keeps the measurements of records on the disk until someone asks for them, and few of them at a time.

The rule kept here: a record is checked once and then is what its digest says; where the file has become
another one since, that is a fault and not a mixture of both. A thousand records need the memory of a few.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import overload

import msgspec
from msgspec import Struct

from warplog.fault import Fault
from warplog.record import Measurement, Record

_KEPT = 24


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
    place = Deposited(path, digest, len(record.measurements))
    return msgspec.structs.replace(record, measurements=place)


@lru_cache(maxsize=_KEPT)
def _read(path: Path, digest: str) -> list[Measurement]:
    try:
        text = path.read_bytes()
    except OSError:
        text = b""
    if hashlib.sha256(text).hexdigest() != digest:
        raise Fault(path.name, "changed while it was being read", "run the command again")
    return msgspec.json.decode(text, type=_Part).measurements
