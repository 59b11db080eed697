"""Where records are kept: each a file of its own, written whole, added and never replaced.

The rule kept here: a reader sees a file as it was or as it is, never a part of one, and two publishers
never take the same name. What a publisher left behind that was killed meanwhile is in nobody's way.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from warplog.depot import deposited
from warplog.fault import Fault
from warplog.record import Record, dumps, loads

_LEFT_SECONDS = 60.0  # a publisher holds a claim for some milliseconds


def read(path: Path, place: str | None = None) -> Record:
    """Read the record at `path`; the file's name must be its UTC time and its folder its device.

    Its measurements are in the depot: read again when they are asked for.
    """
    place = place or path.name
    try:
        text = path.read_bytes()
    except OSError as error:
        raise Fault(place, f"cannot be read ({error.strerror})", "restore it from git") from None
    record = loads(text, place)
    expected = f"{record.device}/{file_name(record.recorded)}"
    actual = f"{path.parent.name}/{path.name}"
    if actual != expected:
        raise Fault(place, f"is filed as {actual} but says {expected}", "move it back")
    return deposited(record, path, text)


def file_name(recorded: str) -> str:
    """Return the name of a record's file for its UTC time, without characters that a path dislikes."""
    return recorded.replace(":", "") + ".json"


def utc_now() -> str:
    """Return this second in UTC, as ISO 8601 with a Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def publish(record: Record, records: Path) -> Path:
    """Add `record` under `records`/<device>/ as a new file, and never replace one.

    Where another reproduction published in the same second, this one takes the next free second.
    Raises Fault where the folder leads elsewhere, where a newer record is there already (then the
    clock was set back), or where the record could not be read again; OSError where it cannot be
    written.
    """
    place = f"{records.parent.name}/{records.name}/{record.device}"
    folder = records / record.device
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != records.parent.resolve() / records.name / record.device:
        raise Fault(place, "is a link that leads elsewhere", "put the folder itself there")
    _sweep(folder)
    while True:
        path = folder / file_name(record.recorded)
        newest = max((each.name for each in folder.glob("*.json")), default="")
        if path.name < newest <= file_name(utc_now()):
            record = msgspec.structs.replace(record, recorded=utc_now())
            continue
        if newest > path.name:
            problem = f"{newest} is newer than now, {record.recorded}"
            raise Fault(place, problem, "set this host's clock, then publish again")
        with _claimed(path) as free:
            if free:
                text = dumps(record)
                loads(text.encode(), path.name)
                write_whole(path, text)
                return path
        time.sleep(1)
        record = msgspec.structs.replace(record, recorded=utc_now())


def _sweep(folder: Path) -> None:
    """Remove what publishers left in `folder` that were killed: claims and parts that nobody works on."""
    for path in [*folder.glob(".*.claim"), *folder.glob(".*.part")]:
        with contextlib.suppress(
            OSError
        ):  # another publisher was faster, or it is not ours to remove
            if time.time() - path.stat().st_mtime > _LEFT_SECONDS:
                path.rmdir() if path.is_dir() else path.unlink()


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Say whether `path` is free, and let nobody else claim it meanwhile; a folder is the claim."""
    claim = path.with_name(f".{path.name}.claim")
    try:
        claim.mkdir()
    except FileExistsError:
        yield False
        return
    try:
        yield not path.exists()
    finally:
        with contextlib.suppress(OSError):  # a claim that stays is swept, and the record is there
            claim.rmdir()
