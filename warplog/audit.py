"""Checks a record that someone offers, without a GPU: is it sound, possible, likely, and of this source.

The rule kept here: a record is judged by its own samples and by what is published already, every finding
says where, what and how to mend it, and nothing is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from warplog.evidence import CEILINGS, Archive
from warplog.fault import Fault
from warplog.form import foreign
from warplog.menu import command
from warplog.physics import impossible
from warplog.place import line_of
from warplog.plausibility import repeated, unlikely
from warplog.privacy import kinds, private
from warplog.record import Record, check_seal, loads
from warplog.source import Artifact, closure_digest, told
from warplog.store import file_name

FRESH, STALE, UNKNOWN = "fresh", "stale", "unknown"
_SHOWN = 20
_BYTES_AT_MOST = 64 << 20
_OFFERED = "ask for the file as the harness wrote it, or for a new measurement"


class _Incomplete(msgspec.Struct):
    incomplete: bool


@dataclass(frozen=True)
class Audit:
    """What came of an audit: the record, None where it cannot be read; how its source compares with the
    checkout's; and what is wrong with it, if anything.
    """

    record: Record | None
    source: str
    findings: tuple[Fault, ...]


def audit(path: Path, archive: Archive, now: datetime | None = None) -> Audit:
    """Return what is to be said of the record in the file `path`; raises Fault where there is no file."""
    place, text = path.name, _content(path)
    if _is_incomplete(text):
        remedy = "it holds what was measured before a fault; mend that, and measure again"
        return Audit(None, UNKNOWN, (Fault(place, "is no record: incomplete", remedy),))
    try:
        record = loads(text, place, remedy=_OFFERED, sealed=False)
    except Fault as fault:
        return Audit(None, UNKNOWN, (fault,))
    if record.device == "cpu":
        remedy = f"measure on one: {command('reproduce', record.artifact, '--publish')}"
        problem = "was made without a GPU: nothing was timed, and nothing is to be offered"
        return Audit(None, UNKNOWN, (Fault(place, problem, remedy),))
    found = [*_sealed(record, text, place), *_filed(record, path)]
    source, problems = _source(record, archive)
    for steps, problem, remedy in [*problems, *_doubts(record, archive, now or datetime.now(UTC))]:
        found.append(Fault(f"{place}:{line_of(text, steps)}", problem, remedy))
    found += _private(msgspec.json.decode(text), text, place)
    return Audit(record, source, tuple(found))


def _is_incomplete(text: bytes) -> bool:
    """Return whether a file is what a reproduction kept that did not come to its end."""
    try:
        return bool(msgspec.json.decode(text, type=_Incomplete).incomplete)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return False


def read_here(path: Path) -> Record:
    """Return the record in the file `path`, wherever it lies; raises Fault where it holds none."""
    return loads(_content(path), path.name)


def _content(path: Path) -> bytes:
    """Return what a file holds, which may be a pipe; raises Fault where it cannot be read, or has no end."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_AT_MOST + 1)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise Fault(str(path), problem, "name the file of a record") from None
    if len(content) > _BYTES_AT_MOST:
        problem = f"holds more than {_BYTES_AT_MOST >> 20} MiB, which no record does"
        raise Fault(str(path), problem, "name the file of a record")
    return content


def _sealed(record: Record, text: bytes, place: str) -> Iterator[Fault]:
    """Yield a fault where the seal does not fit: the numbers may still say what else is wrong."""
    try:
        check_seal(record, text, place, _OFFERED)
    except Fault as fault:
        yield fault


def _filed(record: Record, path: Path) -> Iterator[Fault]:
    """Yield a fault for a file under `records/` whose name or folder are not the record's."""
    folder = path.resolve().parent
    wanted = f"{record.artifact}/records/{record.device}/{file_name(record.recorded)}"
    actual = "/".join([*folder.parts[-3:], path.name])
    if folder.parent.name == "records" and actual != wanted:
        yield Fault(path.name, f"is filed as {actual}", f"file it as artifacts/{wanted}")


Problems = list[tuple[list[str], str, str]]


def _source(record: Record, archive: Archive) -> tuple[str, Problems]:
    """Return how the record's source compares with the checkout's, and what is wrong about that."""
    files = record.source.files
    if closure_digest(files) != record.source.digest:
        problem = "source: the digest does not fit its own list of files"
        return UNKNOWN, [(["source", "digest"], problem, "measure again, with --publish")]
    try:
        artifact = archive.repository.artifact(record.artifact)
        unknown = [name for name in files if not _is_known(name, artifact)]
        changed = {} if unknown else artifact.changes(record)
    except Fault as fault:
        return UNKNOWN, [(["artifact"], f"artifact: {fault.problem}", fault.remedy)]
    commit = f" {record.source.commit[:12]}" if record.source.commit else ""
    remedy = f"check it at the commit{commit} that it is of, or measure this source"
    if unknown:
        problem = f"source: the checkout has no file {', '.join(map(repr, unknown[:_SHOWN]))}"
        return UNKNOWN, [(["source", "files", unknown[0]], problem, remedy)]
    if changed:
        problem = f"source: stale, {told(changed, _SHOWN)} since it was measured"
        return STALE, [(["source", "files"], problem, remedy)]
    return FRESH, []


def _is_known(name: str, artifact: Artifact) -> bool:
    """Return whether a record's source may name a file of that path, and the checkout has it."""
    shared = (artifact.folder.parent / "shared").resolve()
    try:
        path = (artifact.folder / name).resolve()
        inside = path.is_relative_to(artifact.folder.resolve()) or path.is_relative_to(shared)
        return inside and path.is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        return False


def _doubts(
    record: Record, archive: Archive, now: datetime
) -> Iterator[tuple[list[str], str, str]]:
    """Yield what cannot be and what is not likely, against what is published of the same device."""
    published: list[Record] = []
    ceilings = None
    if (archive.repository.root / "artifacts" / CEILINGS / "reproduce.py").is_file():
        known = archive.of(CEILINGS)
        published = [each.record for each in known.history.get(record.device, ())]
        newest = known.devices.get(record.device)
        if newest is not None and record.artifact != CEILINGS:
            ceilings = newest.record
    yield from foreign(record)
    yield from impossible(record, ceilings, published)
    yield from unlikely(record, now)
    yield from repeated(record, _known(record, archive))


def _known(record: Record, archive: Archive) -> Iterator[tuple[str, Record]]:
    """Yield each published record of the same artifact or device but this very one, with its place."""
    root = archive.repository.root
    for artifact in archive.repository.artifacts():
        try:
            history = archive.of(artifact.slug).history
        except Fault:  # of an artifact, and `check` tells of it
            continue
        for each in (one for past in history.values() for one in past):
            same = record.artifact == each.record.artifact or record.device == each.record.device
            if same and record.seal != each.record.seal:
                yield each.path.relative_to(root).as_posix(), each.record


def _private(data: Any, text: bytes, place: str) -> Iterator[Fault]:
    """Yield a fault for each text that holds a private trace, without showing it."""
    for steps, kind in private(data):
        where = ".".join(step[:40] for step in steps if not kinds(step))
        remedy = "take it out of the script, and measure again: a record is never edited"
        yield Fault(f"{place}:{line_of(text, steps)}", f"{where}: holds a trace: {kind}", remedy)
