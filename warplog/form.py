"""What a record may hold by its schema and the harness never writes. Pure.

The rule kept here: a number is measured once, under its own unit and not under the name of what is derived
from others; what counts versions and commits has their form.
"""

import re

from warplog.physics import AGAIN, Found, named
from warplog.quantity import DERIVED, UNITS
from warplog.record import PROTOCOL, Record

_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_SHOWN = 3


def foreign(record: Record) -> Found:
    """Yield the steps to what no harness writes, what is wrong, and what to do about it."""
    if not record.measurements:
        yield ["measurements"], "measurements: there is none", AGAIN
    yield from _versions(record)
    found = list(_rows(record))
    yield from found[:_SHOWN]
    if len(found) > _SHOWN:
        yield ["measurements"], f"{len(found) - _SHOWN} more measurements are of such a kind", AGAIN


def _versions(record: Record) -> Found:
    protocol, commit = record.protocol, record.source.commit
    if protocol.version > PROTOCOL:
        problem = f"protocol: version {protocol.version} is newer than this Warplog's {PROTOCOL}"
        yield ["protocol", "version"], problem, "update Warplog"
    if protocol.version < 1 or protocol.flush_bytes < 0:
        yield ["protocol"], "protocol: a version below 1, or less than nothing flushed", AGAIN
    if protocol.harness is not None and not _DIGEST.match(protocol.harness):
        yield ["protocol", "harness"], "protocol: the harness is named by no digest", AGAIN
    if commit is not None and not _COMMIT.match(commit):
        problem = "source: the commit is none: 7 to 64 hexadecimal digits"
        yield ["source", "commit"], problem, AGAIN


def _rows(record: Record) -> Found:
    """Yield each measurement that stands twice, is derived from others, or is in another unit."""
    seen: set[tuple[object, ...]] = set()
    for index, each in enumerate(record.measurements):
        steps = ["measurements", str(index)]
        key = (each.metric, each.subject, *sorted(each.workload.items()))
        if key in seen:
            yield steps, f"{named(each)}: is there twice", AGAIN
        seen.add(key)
        if each.metric in DERIVED:
            yield [*steps, "metric"], f"{named(each)}: is derived, and never recorded", AGAIN
        elif each.unit != UNITS.get(each.metric, each.unit):
            problem = f"{named(each)}: in {each.unit!r}, where it is in {UNITS[each.metric]!r}"
            yield [*steps, "unit"], problem, AGAIN
