"""What a process writes down as it measures: events, each one JSON object on a line.

The rule kept here: an event is checked where it is made, by the process that made it, so that a value
that no record can hold costs one clear error and not the whole reproduction; and no event names a
person, a host or a path.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import msgspec

from warplog import sound
from warplog.environment import scrub
from warplog.record import SAMPLES_AT_MOST, Measurement, Number, Scalar, Workload, compact

REASON_AT_MOST = 300
TEXT_AT_MOST = 4000
_ANY_TIME = "2026-01-01T00:00:00Z"

Write = Callable[[dict[str, Any]], None]


def writer(file: TextIO) -> Write:
    """Return what appends an event to `file`, whole and at once."""

    def write(event: dict[str, Any]) -> None:
        file.write(json.dumps(event, allow_nan=False) + "\n")
        file.flush()

    return write


class Events:
    """The measurements of one process. None is made twice: ratios pair them by name."""

    def __init__(self, write: Write) -> None:
        """`write` takes each event."""
        self.write = write
        self._made: set[str] = set()

    def measured(
        self,
        metric: str,
        unit: str,
        subject: str,
        workload: Workload,
        values: Sequence[Any],
        **about: Any,
    ) -> None:
        """Write a measurement: 1 to 100 finite numbers in `unit`, cut to six digits.

        `about` adds traffic, work, timer or cache; None is left out. Raises ValueError for what no
        record can hold, and for a measurement made before.
        """
        where = f"{metric} of {subject!r}"
        if not 1 <= len(values) <= SAMPLES_AT_MOST:
            raise ValueError(f"{where}: {len(values)} values; give 1 to {SAMPLES_AT_MOST}")
        numbers = [compact(number(value, where)) for value in values]
        known = {key: value for key, value in about.items() if value is not None}
        self._write(metric, unit, subject, workload, {"runs": [numbers], **known})

    def failed(self, metric: str, unit: str, subject: str, workload: Workload, why: str) -> None:
        """Write that a subject is wrong: one line, without paths."""
        reason = " ".join(scrub(why[:TEXT_AT_MOST]).split())[:REASON_AT_MOST] or "no reason given"
        self._write(metric, unit, subject, workload, {"failed": reason})

    def _write(
        self, metric: str, unit: str, subject: str, workload: Workload, rest: dict[str, Any]
    ) -> None:
        named = {"metric": metric, "unit": unit, "subject": subject, "workload": workload}
        _check({**named, **rest})
        self.check_new(metric, subject, workload)
        self._made.add(_key(metric, subject, workload))
        self.write({"event": "measurement", "measurement": {**named, **rest}})

    def check_new(self, metric: str, subject: str, workload: Workload) -> None:
        """Raise ValueError if this process has made the measurement before."""
        if _key(metric, subject, workload) in self._made:
            remedy = "name a size that tells the two apart, or compare all subjects at once"
            raise ValueError(f"{metric} of {subject!r} on {workload} was measured before; {remedy}")


def _key(metric: str, subject: str, workload: Workload) -> str:
    return json.dumps([metric, subject, workload], sort_keys=True)


def _check(measurement: dict[str, Any]) -> None:
    """Raise ValueError for a measurement that no record could hold."""
    where = f"{measurement['metric']} of {str(measurement['subject'])[:80]!r}"
    record = {"recorded": _ANY_TIME, "protocol": {"runs": 1}, "measurements": [measurement]}
    try:
        msgspec.convert(measurement, Measurement)
        msgspec.json.decode(json.dumps(measurement, allow_nan=False))
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
    for _, problem in sound.problems(record):
        raise ValueError(problem)


def _plain(value: Any) -> Any:
    """Return the Python value of a numpy or torch scalar, and anything else as it is."""
    return value.item() if hasattr(value, "item") else value


def number(value: Any, where: str) -> Number:
    """Return a finite int or float for a Python, numpy or torch scalar; bools count as 0 and 1.

    Raises ValueError, saying `where`, for anything else.
    """
    plain = _plain(value)
    if isinstance(plain, bool):
        return int(plain)
    if isinstance(plain, int) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    raise ValueError(f"{where}: {plain!r} is not a finite number")


def rows_of(sizes: Sequence[Any]) -> list[list[Scalar]] | None:
    """Return the numbers and words in each of `sizes`, in order; None where one holds anything else."""
    rows = []
    for each in sizes:
        plain = _plain(each)
        members = plain.values() if isinstance(plain, dict) else plain
        row = list(members) if isinstance(plain, list | tuple | dict) else [plain]
        try:
            rows.append(list(workload_of({f"size {i}": one for i, one in enumerate(row)}).values()))
        except ValueError:
            return None
    return rows


def workload_of(sizes: dict[str, Any]) -> Workload:
    """Return named sizes as a record holds them: numbers and words; a bool is the word true or false.

    Raises ValueError for what has no value to name, such as None or a list.
    """
    found: Workload = {}
    for key, value in sizes.items():
        plain = _plain(value)
        if isinstance(plain, bool):
            found[key] = str(plain).lower()
        elif isinstance(plain, str) and plain:
            found[key] = plain
        elif isinstance(plain, int | float):
            found[key] = number(plain, f"size {key}")
        else:
            raise ValueError(
                f"size {key}={plain!r} is neither a number nor a word; name it or drop it"
            )
    return found
