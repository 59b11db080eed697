"""What a record says of a named quantity: as it was measured, or derived from what was.

The rule kept here: a ratio is taken within a run, where both subjects saw the same clocks, and so is a mean
of workloads; a rate and a floor come from amounts that the script states; what is missing is said, never
stood in for.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from warplog.reading import Mean, Reading, Unmeasured, mean_of
from warplog.record import Interval, Measurement, Number, Record, Scalar, Workload
from warplog.sound import usable
from warplog.workload import plain, spell

AA_METRIC = "latency_again"
WORK_CEILING = "bf16"
_RECORDS_KEPT = 16
_ANSWERS_KEPT = 512
DERIVED = {
    "speedup": "ratio",
    "bandwidth": "B/s",
    "rate": "op/s",
    "roofline_fraction": "fraction",
}
UNITS = {**DERIVED, "latency": "s", "host_time": "s", "error": "fraction"}


class Quantity(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A measured number, named: a metric of a subject, `over` a baseline for a speedup.

    `workload` may name only some of the sizes: then the quantity spans all the workloads that match, or
    with `mean` is their mean, taken within each run.
    """

    metric: str
    subject: str
    over: str | None = None
    workload: Workload = {}
    mean: Mean | None = None


class _Same:
    """A record as a key: itself, not one that is like it."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.record is other.record

    def __hash__(self) -> int:
        return id(self.record)


def filed(record: Record) -> dict[tuple[str, str], list[Measurement]]:
    """Return the measurements of a record by metric and subject, in their order."""
    return _filed(_Same(record))


@lru_cache(maxsize=_RECORDS_KEPT)
def _filed(same: _Same) -> dict[tuple[str, str], list[Measurement]]:
    found: dict[tuple[str, str], list[Measurement]] = {}
    for each in same.record.measurements:
        found.setdefault((each.metric, each.subject), []).append(each)
    return found


def matches(measurement: Measurement, quantity: Quantity) -> bool:
    """Return whether `measurement` is of a workload that `quantity` speaks of.

    A text that spells a number is that number, since an entry cannot tell them apart.
    """
    sizes = measurement.workload
    wanted = quantity.workload.items()
    return all(key in sizes and plain(sizes[key]) == plain(value) for key, value in wanted)


def readings(quantity: Quantity, record: Record, ceilings: Record | None) -> tuple[Reading, ...]:
    """Return `quantity` as `record` has it, one reading a workload or one of their mean, or raise
    Unmeasured: also where it failed on any of them, so that no claim rests on what is left.

    `ceilings` is the record that floors come from: this very device's.
    """
    found, failed = partly(quantity, record, ceilings)
    if failed:
        message = f"{quantity.subject!r} failed: {failed[0].failed}"
        raise Unmeasured(message)
    return found if quantity.mean is None else (mean_of(found, quantity.mean, quantity.workload),)


def partly(
    quantity: Quantity, record: Record, ceilings: Record | None
) -> tuple[tuple[Reading, ...], tuple[Measurement, ...]]:
    """Return the readings of `quantity` and the measurements of it that failed, or raise Unmeasured
    where there is neither. A page asks the same several times, so the answers are kept.
    """
    floors = None if ceilings is None else _Same(ceilings)
    sizes = tuple(quantity.workload.items())
    return _partly(_Same(record), floors, quantity.metric, quantity.subject, quantity.over, sizes)


@lru_cache(maxsize=_ANSWERS_KEPT)
def _partly(
    same: _Same,
    floors: _Same | None,
    metric: str,
    subject: str,
    over: str | None,
    sizes: tuple[tuple[str, Scalar], ...],
) -> tuple[tuple[Reading, ...], tuple[Measurement, ...]]:
    quantity = Quantity(metric=metric, subject=subject, over=over, workload=dict(sizes))
    record, ceilings = same.record, None if floors is None else floors.record
    metric = "latency" if quantity.metric in DERIVED else quantity.metric
    found = [
        each for each in _filed(same).get((metric, quantity.subject), ()) if matches(each, quantity)
    ]
    if not found:
        message = f"the record has no {metric} of {quantity.subject!r} on that workload"
        raise Unmeasured(message)
    right = (each for each in found if each.runs is not None)
    failed = tuple(each for each in found if each.runs is None)
    return tuple(_derive(quantity, each, record, ceilings) for each in right), failed


def _derive(
    quantity: Quantity, found: Measurement, record: Record, ceilings: Record | None
) -> Reading:
    """Turn one measurement into the reading that `quantity` asks for."""
    taken = found.medians
    unit = DERIVED.get(quantity.metric, found.unit)
    noise = None
    if quantity.metric == "speedup":
        over = _same_workload(record, "latency", quantity.over or "", found.workload)
        values = _ratios(over.medians, taken)
        noise = aa_floor(record, over.subject, found.workload)
    elif quantity.metric in ("bandwidth", "rate"):
        amount = found.traffic if quantity.metric == "bandwidth" else found.work
        if amount is None:
            message = f"the script states no traffic= or work= for {quantity.subject!r}"
            raise Unmeasured(message)
        values = _ratios([amount] * len(taken), taken)
    elif quantity.metric == "roofline_fraction":
        values = _ratios([floor(found, ceilings)] * len(taken), taken)
    else:
        values = tuple(taken)
    return Reading(found.workload, unit, values, noise)


def _ratios(above: Sequence[Number], below: Sequence[Number]) -> tuple[float, ...]:
    """Return `above` over `below`, run by run, or raise Unmeasured where that is no number."""
    if len(above) != len(below):
        message = f"measured in {len(above)} and in {len(below)} runs, which do not pair"
        raise Unmeasured(message)
    try:
        found = tuple(one / two for one, two in zip(above, below, strict=True))
    except (ZeroDivisionError, OverflowError):
        found = (math.inf,)
    if not all(map(usable, found)):
        message = "a time is too short to divide by"
        raise Unmeasured(message)
    return found


def _same_workload(record: Record, metric: str, subject: str, workload: Workload) -> Measurement:
    for each in _filed(_Same(record)).get((metric, subject), ()):
        if each.workload == workload and each.runs:
            return each
    message = f"the record has no {metric} of {subject!r} on {spell(workload)}"
    raise Unmeasured(message)


def aa_floor(record: Record, subject: str, workload: Workload) -> Interval | None:
    """Return the spread of `subject` against itself on `workload`, as ratios; None where it was not
    the baseline there, and so was timed only once a round.
    """
    try:
        again = _same_workload(record, AA_METRIC, subject, workload)
        first = _same_workload(record, "latency", subject, workload)
    except Unmeasured:
        return None
    widest = max(abs(ratio - 1) for ratio in _ratios(first.medians, again.medians))
    return Interval(1 - widest, 1 + widest)


def floor(measurement: Measurement, ceilings: Record | None) -> float:
    """Return the least time in seconds that this device allows one call: bytes over the measured
    read ceiling, or operations over the measured bf16 matmul ceiling, whichever is longer.
    """
    if ceilings is None:
        message = "no record of the artifact ceilings for this device"
        raise Unmeasured(message)
    times: list[float] = []
    if measurement.traffic is not None:
        times += _ratios([measurement.traffic], [ceiling(ceilings, "bandwidth")])
    if measurement.work is not None:
        times += _ratios([measurement.work], [ceiling(ceilings, "rate")])
    if not times:
        message = "the script states no traffic= or work= for it"
        raise Unmeasured(message)
    return max(times)


def ceiling(ceilings: Record, metric: str) -> float:
    """Return the best that this device did: the highest bandwidth (bytes per second, cold L2) of any
    subject in the record `ceilings`, or the highest rate (operations per second) of its bf16 matmuls.
    """
    return _best(_Same(ceilings), metric)


@lru_cache(maxsize=_RECORDS_KEPT)
def _best(same: _Same, metric: str) -> float:
    rates: list[float] = []
    for each in same.record.measurements:
        amount = each.traffic if metric == "bandwidth" else each.work
        cold, bf16 = each.cache != "warm", each.workload.get("dtype") == WORK_CEILING
        counts = cold if metric == "bandwidth" else bf16
        if each.metric == "latency" and each.runs and amount and counts:
            rates += _ratios([amount], [min(each.medians)])
    if not rates:
        message = f"the record of ceilings measured no {metric}"
        raise Unmeasured(message)
    return max(rates)
