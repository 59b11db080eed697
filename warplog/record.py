"""A record: all that one reproduction measured on one device, as strict JSON that is never edited.

The rule kept here: a record is written whole or not at all, says which source it was measured from,
carries a seal over its own content, and holds no NaN, no infinity and no stand-in for a missing number.
Imports no torch: it is where the measuring and the reading half meet.
"""

import contextlib
import hashlib
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct

from warplog import sound
from warplog.fault import Fault
from warplog.place import line_of, line_of_repeated

SCHEMA = 1
SIGNIFICANT_DIGITS = 6
SAMPLES_AT_MOST = 100

Number = int | float
Scalar = int | float | str
Workload = dict[str, Scalar]
Run = Annotated[list[Number], Meta(min_length=1, max_length=SAMPLES_AT_MOST)]


class Interval(Struct, frozen=True):
    """The closed interval from the lowest run to the highest.

    With six runs it holds the true median of runs with probability 1 - 2**(1-6), about 97 %,
    whatever their distribution: each run falls on either side of it like a fair coin.
    """

    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Self:
        """Return the hull of `values`, which must not be empty."""
        return cls(float(min(values)), float(max(values)))


class Measurement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All runs of one metric of one subject on one workload.

    `runs` holds one list of samples a process, in SI units; a subject that was wrong or raised has
    `failed` with the reason instead. `traffic` (bytes) and `work` (operations) are what one call must
    move and do; they put the floor beside a latency.
    """

    metric: str
    unit: str
    subject: str
    workload: Workload
    runs: Annotated[list[Run], Meta(min_length=1)] | None = None
    failed: str | None = None
    traffic: Number | None = None
    work: Number | None = None
    timer: str | None = None
    cache: str | None = None

    @property
    def medians(self) -> list[float]:
        """The median of each run, in `unit`."""
        return [float(statistics.median(run)) for run in self.runs or []]


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """What was measured: a digest over the closure of the artifact's files, and the commit."""

    digest: str
    files: dict[str, str]
    commit: str | None
    modified: bool | None


class Protocol(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How it was measured. `version` grows when a change to the harness could change a number;
    `harness` is the digest of the modules that measured.
    """

    version: int
    runs: int
    timer: str
    flush_bytes: int
    harness: str | None = None


class Environment(Struct, frozen=True, forbid_unknown_fields=True):
    """Where it was measured: nothing that names a person, a host or a path."""

    gpu: dict[str, Scalar] | None
    driver: str | None
    python: str
    system: str
    packages: dict[str, str]
    variables: dict[str, str]
    clocks: list[dict[str, Any]]


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """One reproduction. `disturbed` says in words what else the GPU was doing, if anything."""

    schema: int
    artifact: str
    device: str
    recorded: str
    seconds: float
    source: Source
    protocol: Protocol
    environment: Environment
    disturbed: list[str]
    measurements: list[Measurement]
    seal: str = ""


def compact(value: Number) -> Number:
    """Round to six significant digits; integers stay whole. NaN and infinity raise ValueError."""
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        message = f"{value} is not a measurement"
        raise ValueError(message)
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def seal_of(record: Record) -> str:
    """Return the digest of a record's own content, so that an edit by hand shows."""
    content = msgspec.to_builtins(msgspec.structs.replace(record, seal=""))
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def dumps(record: Record) -> str:
    """Write a record as JSON: one line a field and one line a measurement, so that a diff reads."""
    record = msgspec.structs.replace(record, seal=seal_of(record))
    fields = msgspec.to_builtins(record)
    lines = []
    for name, value in fields.items():
        if name == "measurements":
            rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in value)
            lines.append(f'"measurements": [\n  {rows}]' if rows else '"measurements": []')
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}")
    return "{" + ",\n ".join(lines) + "}\n"


def loads(text: bytes, place: str) -> Record:
    """Read a record, or raise Fault with the line that is wrong. `place` names the file."""
    remedy = "restore the file from git, or reproduce again with --publish"
    head = _parsed(text, place, remedy)
    schema = head.get("schema") if isinstance(head, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        problem = f"schema {schema} is newer than this Warplog's {SCHEMA}"
        raise Fault(f"{place}:{line_of(text, ['schema'])}", problem, "update Warplog")
    try:
        record = msgspec.convert(head, Record)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `")
        raise Fault(f"{place}:{line_of(text, path.rstrip('`'))}", message, remedy) from None
    if record.schema != SCHEMA:
        raise Fault(f"{place}:{line_of(text, ['schema'])}", f"no schema {record.schema}", remedy)
    for steps, problem in sound.problems(head):
        raise Fault(f"{place}:{line_of(text, steps)}", problem, remedy)
    if record.seal != seal_of(record):
        line = line_of(text, ["seal"])
        raise Fault(
            f"{place}:{line}", "the content does not match its seal: edited by hand", remedy
        )
    return record


def _parsed(text: bytes, place: str, remedy: str) -> Any:
    """Return the JSON in `text`, or raise Fault where it is none or gives a key twice."""
    try:
        head = msgspec.json.decode(text)
        twice = sound.repeated_key(text)
    except RecursionError:
        raise Fault(f"{place}:1", "not a record: nested too deep", remedy) from None
    except ValueError as error:  # msgspec's and the standard library's errors are ValueErrors
        raise Fault(f"{place}:{_broken_line(text)}", f"not strict JSON ({error})", remedy) from None
    if twice is not None:
        line = line_of_repeated(text, twice)
        raise Fault(f"{place}:{line}", f"the key {twice[:80]!r} is given twice", remedy)
    return head


def _broken_line(text: bytes) -> int:
    """Return the line at which the standard parser gives up, or the last line."""
    try:
        json.loads(text.decode("utf-8", "replace"), parse_constant=_refuse)
    except json.JSONDecodeError as error:
        return error.lineno
    except ValueError as error:
        constant = str(error).encode()
        return text[: text.find(constant)].count(b"\n") + 1
    return text.count(b"\n") or 1


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def read(path: Path, place: str | None = None) -> Record:
    """Read the record at `path`; the file's name must be its UTC time and its folder its device."""
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
    return record


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
    while True:
        path = folder / file_name(record.recorded)
        newest = max((each.name for each in folder.glob("*.json")), default="")
        if newest > path.name:
            problem = f"{newest} is newer than now, {record.recorded}"
            raise Fault(place, problem, "set this host's clock, then publish again")
        with _claimed(path) as free:
            if free:
                loads(dumps(record).encode(), path.name)
                write_whole(path, dumps(record))
                return path
        time.sleep(1)
        record = msgspec.structs.replace(record, recorded=utc_now())


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
        claim.rmdir()


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a record, generated from the classes above."""
    return msgspec.json.schema(Record)
