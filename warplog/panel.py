"""What one device measured of a figure, gathered from its record.

The rule kept here: what failed is named and never drawn, and what no chart can show is a fault at the
block's line with its remedy. Pure.
"""

import statistics
from collections.abc import Sequence

from msgspec.structs import replace

from warplog.block import FigureBlock
from warplog.bound import bound_of
from warplog.evidence import Evidence
from warplog.fault import Fault
from warplog.lettering import clean
from warplog.mark import Failure, Panel, Point, Series
from warplog.names import nearest
from warplog.quantity import AA_METRIC, partly
from warplog.reading import Reading, Unmeasured
from warplog.record import Measurement, Record, Scalar, Workload
from warplog.scale import TINIEST
from warplog.workload import plain, spell

_ON_LINES = ("lines", "curve")
_RATIOS = ("ratio", "fraction")


def panel_of(block: FigureBlock, evidence: Evidence) -> Panel:
    """Return what `evidence` shows of `block`; raise Unmeasured where no subject has a number, and
    Fault where the block asks for what cannot be drawn.
    """
    series: list[Series] = []
    failed: list[Failure] = []
    reasons: list[str] = []
    units: dict[str, str] = {}
    for subject in block.subjects:
        one, failures, said = _subject(block, subject, evidence)
        series.append(one)
        failed += failures
        if one.points:
            units.setdefault(said, subject)
        else:
            reasons.append(said)
    if not units:
        raise Unmeasured(reasons[0])
    _refuse_together(series, units, block)
    bound = bound_of(block, evidence, series)
    series = _with_baseline(series, evidence.record)
    return Panel(evidence.name, next(iter(units)), tuple(series), tuple(failed), bound)


def _subject(
    block: FigureBlock, subject: str, evidence: Evidence
) -> tuple[Series, list[Failure], str]:
    """Return the marks of a subject, its failures, and its unit, or why it has no marks."""
    try:
        asked = partly(block.quantity(subject), evidence.record, evidence.ceilings)
    except Unmeasured as reason:
        return Series(subject, (), missing=str(reason)), [], str(reason)
    found, wrong = _along(block, *asked)
    points = _points(found, block)
    gaps, failures = _failures(wrong, subject, block)
    series = Series(subject, points, gaps, muted=subject == block.over)
    if not points:
        return series, failures, f"{subject!r} failed: {wrong[0].failed}"
    _refuse(points, subject, block)
    return series, failures, clean(found[0].unit)


def _with_baseline(series: list[Series], record: Record) -> list[Series]:
    """Return `series` with the baseline muted: the one subject, not the first, that was timed against
    itself on what is drawn. Where several were, each was the baseline of another comparison.
    """
    again: dict[str, list[Workload]] = {}
    for each in record.measurements:
        if each.metric == AA_METRIC:
            again.setdefault(each.subject, []).append(each.workload)
    found = [
        index
        for index, each in enumerate(series)
        if any(point.workload in again.get(each.subject, ()) for point in each.points)
    ]
    if len(found) == 1 and found[0] > 0:
        series[found[0]] = replace(series[found[0]], muted=True)
    return series


def _along(
    block: FigureBlock, found: Sequence[Reading], wrong: Sequence[Measurement]
) -> tuple[list[Reading], list[Measurement]]:
    """Return the readings and the failures that have the size on the axis, or raise Fault where none
    has: a figure along `tokens` is of the measurements that name their tokens.
    """
    size = block.size
    if size is None:
        return list(found), list(wrong)
    right = [each for each in found if size in each.workload]
    failed = [each for each in wrong if size in each.workload]
    if not right and not failed:
        workloads = [each.workload for each in found] + [each.workload for each in wrong]
        names = {name for each in workloads for name in each}
        problem = f"figure: no size {size!r} to be the axis"
        raise Fault(block.place, problem, nearest(size, names))
    return right, failed


def _points(found: Sequence[Reading], block: FigureBlock) -> tuple[Point, ...]:
    """Return the marks of one subject, by size where every size is a number."""
    sizes = [_size(reading.workload, block) for reading in found]
    points = [
        Point(
            0.0 if isinstance(size, str) else float(size),
            "" if block.size is None else str(size),
            float(statistics.median(reading.runs)),
            reading.interval,
            len(reading.runs),
            reading.workload,
            reading.noise,
        )
        for size, reading in zip(sizes, found, strict=True)
    ]
    if not any(isinstance(size, str) for size in sizes):
        points.sort(key=lambda point: point.x)
    return tuple(points)


def _size(workload: Workload, block: FigureBlock) -> Scalar:
    """Return the size on the axis, 0 where a figure has none, or raise Fault where a line needs a
    number.
    """
    if block.size is None:
        return 0
    size = _spelled(workload[block.size])
    if isinstance(size, str) and block.kind in _ON_LINES:
        problem = f"figure: {spell({block.size: size})} is no number"
        remedy = "use the kind ratios or bars, or a size that is a number"
        raise Fault(block.place, problem, remedy)
    return size


def _spelled(size: Scalar) -> Scalar:
    """Return a size as every label spells it: 2, whether it was written 2, 2.0 or in quotes."""
    size = plain(size)
    return int(size) if isinstance(size, float) and size.is_integer() else size


def _failures(
    wrong: Sequence[Measurement], subject: str, block: FigureBlock
) -> tuple[tuple[float, ...], list[Failure]]:
    """Return the sizes at which a line breaks, and what is said of each failure."""
    gaps: list[float] = []
    failures = []
    for each in wrong:
        size = _spelled(each.workload.get(block.size or "", ""))
        gaps += [] if isinstance(size, str) else [float(size)]
        failures.append(Failure(subject, str(size), each.workload))
    return tuple(gaps), failures


def _refuse(points: tuple[Point, ...], subject: str, block: FigureBlock) -> None:
    """Raise Fault for marks that a chart would show wrong or not at all."""
    seen: set[str] = set()
    for point in points:
        if point.label in seen:
            at = f" have {spell({block.size: point.label})}" if block.size else ""
            problem = f"figure: several workloads of {subject!r}{at}"
            remedy = "name the other sizes in `workload:`"
            remedy += "" if block.size else ", or add `axis:` with a size"
            raise Fault(block.place, problem, remedy)
        seen.add(point.label)
    lowest = min(point.interval.low for point in points)
    if lowest < 0 and block.kind == "bars":
        problem = f"figure: {lowest:g} of {subject!r} is below zero, where no bar ends"
        raise Fault(block.place, problem, "use the kind lines with `scale: linear`")
    if lowest < TINIEST and block.log:
        problem = f"figure: {lowest:g} of {subject!r} has no place on a logarithmic axis"
        remedy = "add `scale: linear`" if block.kind in _ON_LINES else "use the kind bars"
        raise Fault(block.place, problem, f"{remedy}, or leave it out")
    if block.kind == "lines" and points[0].x < TINIEST:
        size = spell({str(block.size): points[0].label})
        problem = f"figure: {size} has no place on a logarithmic axis"
        raise Fault(block.place, problem, "leave that size out with `workload:`")


def _refuse_together(series: Sequence[Series], units: dict[str, str], block: FigureBlock) -> None:
    """Raise Fault where the subjects cannot share a chart, or make no line together."""
    if len(units) > 1:
        (one, first), (two, second) = list(units.items())[:2]
        problem = f"figure: {first!r} is in {one or 'no unit'}, {second!r} in {two or 'no unit'}"
        raise Fault(block.place, problem, "draw them in figures of their own")
    if block.kind == "ratios" and next(iter(units)) not in _RATIOS:
        problem = f"figure: {block.metric} is no ratio, so it has no parity"
        raise Fault(block.place, problem, "use the kind lines or bars")
    if block.kind in _ON_LINES and all(len(each.points) <= 1 for each in series):
        alone = next(each.subject for each in series if each.points)
        problem = f"figure: {alone!r} has one point, which is no line"
        remedy = f"measure more of {block.size}, or use the kind ratios or bars"
        raise Fault(block.place, problem, remedy)
