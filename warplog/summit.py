"""What a device was measured to reach: the best of each kind of operation in its record of ceilings. Pure.

The rule kept here: the two ceilings that floors are made of are found by the very function that makes the
floors, so that a page can never show another number than the one that a kernel is held against.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from warplog.quantity import ceiling
from warplog.reading import Unmeasured
from warplog.record import Interval, Measurement, Record, Scalar

LAUNCHES = "kernels"
_UNITS = {"bandwidth": "B/s", "rate": "op/s"}


class Summit(Struct, frozen=True):
    """The best of a kind: the `value` in `unit`, the interval of the runs of the subject that reached
    it, and what was measured. `kind` is the words of the workload: ``operation=gather order=random``.
    """

    kind: tuple[tuple[str, Scalar], ...]
    metric: str
    value: float
    unit: str
    interval: Interval
    measurement: Measurement


def ceiling_of(record: Record, metric: str) -> Summit | None:
    """Return the ceiling that floors use, ``bandwidth`` or ``rate``, with the subject that reached it;
    None where the record of ceilings has none.
    """
    best = None
    for each in record.measurements:
        alone = msgspec.structs.replace(record, measurements=[each])
        try:
            value = ceiling(alone, metric)
        except Unmeasured:
            continue
        if best is None or value > best.value:
            best = _summit(each, metric, value)
    return best


def operations(record: Record) -> list[Summit]:
    """Return the best bandwidth or rate of each kind of operation, in the order of the record."""
    best: dict[tuple[object, ...], Summit] = {}
    for each in record.measurements:
        for metric, amount in (("bandwidth", each.traffic), ("rate", each.work)):
            if each.metric != "latency" or not each.runs or not amount:
                continue
            found = _summit(each, metric, amount / min(each.medians))
            key = (metric, each.cache, found.kind)
            if key not in best or found.value > best[key].value:
                best[key] = found
    return list(best.values())


def launches(record: Record) -> list[Summit]:
    """Return the least time of each way to launch kernels: what is timed by their number."""
    best: dict[tuple[str, str], Summit] = {}
    for each in record.measurements:
        if each.unit != "s" or not each.runs or set(each.workload) != {LAUNCHES}:
            continue
        found = _summit(each, each.metric, min(each.medians))
        key = (each.metric, each.subject)
        if key not in best or found.value < best[key].value:
            best[key] = found
    return list(best.values())


def _summit(measurement: Measurement, metric: str, value: float) -> Summit:
    """Return `value` with the interval of all runs, in the unit of `metric`."""
    return Summit(
        kind=_words(measurement),
        metric=metric,
        value=value,
        unit=_UNITS.get(metric, measurement.unit),
        interval=Interval.of(list(_values(measurement, metric))),
        measurement=measurement,
    )


def _values(measurement: Measurement, metric: str) -> Iterator[float]:
    amount = {"bandwidth": measurement.traffic, "rate": measurement.work}.get(metric)
    for taken in measurement.medians:
        yield taken if amount is None else amount / taken


def _words(measurement: Measurement) -> tuple[tuple[str, Scalar], ...]:
    """Return the sizes of a workload that are words: they say what was done, the numbers how much."""
    words = {name: size for name, size in measurement.workload.items() if isinstance(size, str)}
    return tuple(sorted(words.items(), key=lambda pair: (pair[0] != "operation", pair[0])))
