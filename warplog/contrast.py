"""What tells two records of one artifact apart, and whether their numbers lie apart at all. Pure.

The rule kept here: two numbers are the same where the intervals of their runs overlap, or where they are no
further apart than the baseline is from itself in the first record: what is offered second cannot widen its
own noise. A reason is only what the records say.
"""

import math
import statistics
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from warplog.output import plain_text
from warplog.quantity import AA_METRIC, aa_floor
from warplog.reading import Unmeasured
from warplog.record import Interval, Measurement, Record
from warplog.workload import spell

_UNDECIDED = {"error", "host_time", AA_METRIC}  # of the seeds, of the host, and the noise itself
_NAMED = 4
_ONE_RATIO = 0.001
LATENCY = "latency"


class Kind(StrEnum):
    """What two records are to each other."""

    WRONG = "wrong output in the second"
    SOURCE = "other source"
    DEVICE = "other device or driver"
    PROTOCOL = "other protocol"
    DISTURBED = "disturbed run"
    SPARED = "right where the first is wrong"
    SAME = "same within noise"
    APART = "apart, and no record says why"


class Difference(Struct, frozen=True):
    """One number as both records have it: the intervals of its runs, their medians, and whether they lie
    further apart than the noise.
    """

    metric: str
    subject: str
    workload: str
    unit: str
    one: Interval
    other: Interval
    medians: tuple[float, float]
    apart: bool

    @property
    def size(self) -> float:
        """How far the medians are apart: the logarithm of their ratio, infinite where there is none."""
        low, high = sorted(self.medians)
        if low == high:
            return 0.0
        return math.log(high / low) if low > 0 else math.inf


class Contrast(Struct, frozen=True):
    """What two records are to each other, with the words for each reason; all numbers that both have, those
    furthest apart first; and how many measurements only one of them has.
    """

    reasons: tuple[tuple[Kind, str], ...]
    differences: tuple[Difference, ...]
    alone: tuple[int, int]

    @property
    def apart(self) -> int:
        """How many numbers lie further apart than the noise."""
        return sum(each.apart for each in self.differences)

    @property
    def one_ratio(self) -> float | None:
        """What every latency of the second is times that of the first, where it is one number."""
        latencies = [each for each in self.differences if each.metric == LATENCY]
        ratios = [second / first for first, second in (each.medians for each in latencies)]
        if len(ratios) <= 1 or max(ratios) / min(ratios) - 1 > _ONE_RATIO:
            return None
        return statistics.median(ratios)

    @property
    def kind(self) -> Kind:
        """The one word for it: the first reason, and without any whether the numbers are the same."""
        if self.reasons:
            return self.reasons[0][0]
        return Kind.APART if self.apart or any(self.alone) else Kind.SAME


def contrast(one: Record, other: Record) -> Contrast:
    """Return what tells `other` from `one`, two records of the same artifact."""
    first, second = _keyed(one), _keyed(other)
    both = [key for key in first if key in second]
    found = [_difference(first[key], second[key], one) for key in both]
    differences = [each for each in found if each is not None]
    differences.sort(key=lambda each: (not each.apart, -each.size))
    alone = (len(first) - len(both), len(second) - len(both))
    return Contrast(tuple(_reasons(one, other)), tuple(differences), alone)


def _keyed(record: Record) -> dict[tuple[str, str, str], Measurement]:
    return {
        (each.metric, each.subject, spell(dict(sorted(each.workload.items())))): each
        for each in record.measurements
        if each.metric not in _UNDECIDED and each.runs is not None
    }


def _difference(a: Measurement, b: Measurement, one: Record) -> Difference | None:
    if a.unit != b.unit:
        return None
    noise = _noise(a, one) if a.metric == LATENCY else 0.0
    first, second = Interval.of(a.medians), Interval.of(b.medians)
    middles = (statistics.median(a.medians), statistics.median(b.medians))
    gap = max(second.low - first.high, first.low - second.high)
    apart = gap > noise * min(map(abs, middles))
    return Difference(a.metric, a.subject, spell(a.workload), a.unit, first, second, middles, apart)


def _noise(measurement: Measurement, record: Record) -> float:
    """Return how far a baseline was from itself on this workload, as a fraction; 0 where none is known."""
    for each in record.measurements:
        if each.metric == AA_METRIC and each.workload == measurement.workload:
            try:
                found = aa_floor(record, each.subject, each.workload)
            except Unmeasured:
                return 0.0
            return 0.0 if found is None else found.high - 1
    return 0.0


def _reasons(one: Record, other: Record) -> Iterator[tuple[Kind, str]]:
    """Yield each reason that the records give for a difference, the gravest first."""
    for kind, words in (
        (Kind.WRONG, _wrong(other, one)),
        (Kind.SOURCE, _source(one, other)),
        (Kind.DEVICE, _device(one, other)),
        (Kind.PROTOCOL, _protocol(one, other)),
        (Kind.DISTURBED, _disturbed(one, other)),
        (Kind.SPARED, _wrong(one, other)),
    ):
        if words:
            yield kind, words


def _wrong(one: Record, other: Record) -> str:
    """Say which subjects failed in `one` and were right in `other`, and why."""
    right = {_where(each) for each in other.measurements} - _failed(other).keys()
    failed = _failed(one).items()
    return _listed([f"{each}: {plain_text(why)}" for each, why in failed if each in right])


def _failed(record: Record) -> dict[str, str]:
    return {_where(each): each.failed for each in record.measurements if each.failed is not None}


def _where(measurement: Measurement) -> str:
    return f"{measurement.subject!r} on {spell(measurement.workload)}"


def _source(one: Record, other: Record) -> str:
    a, b = one.source.files, other.source.files
    if one.source.digest == other.source.digest:
        return ""
    return _listed([name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)])


def _device(one: Record, other: Record) -> str:
    """Say how the machines differ: what only one of the records states is no difference, but for variables,
    which are not set where they are not stated.
    """
    if one.device != other.device:
        return f"{one.device}, {other.device}"
    here, there = one.environment, other.environment
    stated: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
        (here.gpu or {}, there.gpu or {}),
        ({"driver": here.driver or ""}, {"driver": there.driver or ""}),
        (here.packages, there.packages),
        ({"python": here.python}, {"python": there.python}),
    ]
    facts = [words for first, second in stated for words in _changes(first, second, both=True)]
    return _listed([*facts, *_changes(here.variables, there.variables)])


def _protocol(one: Record, other: Record) -> str:
    names = ("version", "runs", "timer", "flush_bytes")
    first = {name: getattr(one.protocol, name) for name in names}
    second = {name: getattr(other.protocol, name) for name in names}
    found = list(_changes(first, second))
    if one.protocol.harness != other.protocol.harness:
        found.append("other modules of the harness")
    return _listed(found)


def _disturbed(one: Record, other: Record) -> str:
    said = [
        f"the {which}: {_listed(record.disturbed)}"
        for which, record in (("first", one), ("second", other))
        if record.disturbed
    ]
    return "; ".join(said)


def _changes(
    one: Mapping[str, Any], other: Mapping[str, Any], *, both: bool = False
) -> Iterator[str]:
    """Yield each name with its two values where they differ; with `both` only where there are two."""
    for name in sorted(one.keys() & other.keys() if both else one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield f"{name} {one.get(name, 'not set')}, {other.get(name, 'not set')}"


def _listed(words: list[str]) -> str:
    more = len(words) - _NAMED
    return "; ".join(words[:_NAMED]) + (f"; {more} more" if more > 0 else "")
