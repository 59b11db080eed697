"""A record: all that one reproduction measured on one device, as strict JSON that is never edited.

The rule kept here: a record is written whole or not at all, says which source it was measured from,
carries a seal over its own content, and holds no NaN, no infinity and no stand-in for a missing number.
Imports no torch: it is where the measuring and the reading half meet.
"""

import hashlib
import json
import math
import statistics
from collections.abc import Sequence
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct

from warplog import sound
from warplog.fault import Fault
from warplog.place import line_of, line_of_repeated

SCHEMA = 1
PROTOCOL = 1
SIGNIFICANT_DIGITS = 6
SAMPLES_AT_MOST = 100
_RESTORE = "restore the file from git, or reproduce again with --publish"
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

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
    measurements: Sequence[Measurement]
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
    return _digest(_CANONICAL(content).encode())


def _digest(canonical: bytes) -> str:
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def check_seal(record: Record, text: bytes, place: str, remedy: str) -> None:
    """Raise Fault where `record`, which `text` holds, is not what its seal was put on.

    A file that the harness wrote is in the canonical form but for spaces and the order of its keys, and
    to move its parts takes a fifth of the time of writing each number again.
    """
    parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    rows = msgspec.json.decode(parts.pop("measurements"), type=list[dict[str, msgspec.Raw]])
    moved = {name: _compact(part) for name, part in parts.items()}
    moved |= {"seal": b'""', "measurements": b"[" + b",".join(map(_row, rows)) + b"]"}
    if _digest(_in_order(moved)) != record.seal and seal_of(record) != record.seal:
        where = f"{place}:{line_of(text, ['seal'])}"
        raise Fault(where, "the content does not match its seal: edited by hand", remedy)


def _row(parts: dict[str, msgspec.Raw]) -> bytes:
    return _in_order({name: _compact(part) for name, part in parts.items()})


def _in_order(parts: dict[str, bytes]) -> bytes:
    """Write an object whose values are written already, its keys in order."""
    return b"{" + b",".join(b'"%s":%s' % (key.encode(), parts[key]) for key in sorted(parts)) + b"}"


def _compact(part: msgspec.Raw) -> bytes:
    """Write JSON without the spaces between its parts, each number and each text as it is spelt."""
    text = bytes(part)
    if text[:1] == b"{" or (text[:1] == b"[" and b'"' in text):
        return _CANONICAL(msgspec.json.decode(text)).encode()
    return text.replace(b" ", b"") if text[:1] == b"[" else text


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


def loads(text: bytes, place: str, *, remedy: str = _RESTORE, sealed: bool = True) -> Record:
    """Read a record, or raise Fault with the line that is wrong. `place` names the file; not `sealed` is
    for who calls `check_seal` as well.
    """
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
    if sealed:
        check_seal(record, text, place, remedy)
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
    except RecursionError:
        return 1
    except ValueError as error:
        constant = str(error).encode()
        return text[: text.find(constant)].count(b"\n") + 1
    return text.count(b"\n") or 1


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def schema() -> dict[str, Any]:
    """Return a record's JSON Schema, from the classes above."""
    return msgspec.json.schema(Record)
