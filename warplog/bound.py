"""The line that no measurement can cross: the floor of a latency, the ceiling of a bandwidth or a rate.

The rule kept here: a bound comes from the rates that this very device was measured to reach, or it is not
drawn and the page says why; what the script did not state is a fault. Pure.
"""

from collections.abc import Iterable

from warplog.block import FigureBlock
from warplog.evidence import Evidence
from warplog.fault import Fault
from warplog.mark import Bound, Point, Series
from warplog.quantity import ceiling, floor, matches
from warplog.reading import Unmeasured
from warplog.record import Interval, Measurement, Number, Record, Workload
from warplog.workload import spell

_NO_CEILINGS = "no fresh record of the artifact ceilings for this device"


def bound_of(block: FigureBlock, evidence: Evidence, series: Iterable[Series]) -> Bound | None:
    """Return the bound that `block` asks for, without a point where this device's ceilings are not
    known; None where it asks for none. Raise Fault where the script states no traffic and no work.
    """
    if block.bound is None:
        return None
    if evidence.ceilings is None:
        return Bound(block.bound, (), _NO_CEILINGS)
    try:
        if block.bound == "ceiling":
            best = ceiling(evidence.ceilings, block.metric)
            return Bound("ceiling", (_point(0.0, "", best, {}),))
        return Bound("floor", tuple(_floors(block, evidence.record, evidence.ceilings, series)))
    except Unmeasured as reason:
        return Bound(block.bound, (), str(reason))


def _point(x: float, label: str, value: float, workload: Workload) -> Point:
    return Point(x, label, value, Interval(value, value), 0, workload)


def _floors(
    block: FigureBlock, record: Record, ceilings: Record, series: Iterable[Series]
) -> list[Point]:
    """Return the floor at each size: where subjects state different amounts, the lowest, which none
    of them can cross.
    """
    known: dict[tuple[Number | None, Number | None], float] = {}
    found: dict[float, Point] = {}
    for each in series:
        stated = {spell(one.workload): one for one in _timed(block, record, each.subject)}
        for mark in each.points:
            measurement = stated[spell(mark.workload)]
            amounts = measurement.traffic, measurement.work
            if amounts == (None, None):
                problem = f"figure: no floor of {each.subject!r} at {spell(mark.workload)}"
                remedy = "state traffic= or work= in reproduce.py, or remove `bound:`"
                raise Fault(block.place, problem, remedy)
            if amounts not in known:
                known[amounts] = floor(measurement, ceilings)
            if mark.x not in found or known[amounts] < found[mark.x].middle:
                found[mark.x] = _point(mark.x, mark.label, known[amounts], mark.workload)
    return [found[x] for x in sorted(found)]


def _timed(block: FigureBlock, record: Record, subject: str) -> list[Measurement]:
    quantity = block.quantity(subject)
    return [
        each
        for each in record.measurements
        if (each.metric, each.subject) == (block.metric, subject) and matches(each, quantity)
    ]
