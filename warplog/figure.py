"""A chart and its table from measurements. Pure: a block and its readings in, HTML out.

The rule kept here: what is drawn is also written as a table, each mark is the spread of its runs and not
their middle alone, and what cannot be drawn is a fault at the block's line. One panel a device.
"""

import statistics
from collections.abc import Iterable
from html import escape

from msgspec import Struct

from warplog import chart
from warplog.block import FigureBlock
from warplog.evidence import Evidence
from warplog.fault import Fault
from warplog.names import nearest
from warplog.quantity import Reading, Unmeasured, partly
from warplog.record import Interval
from warplog.scale import TINIEST, Point, Series, frame_of
from warplog.unit import pretty, pretty_interval
from warplog.workload import plain, spell


class Panel(Struct, frozen=True):
    """What one device measured of a figure: its series, in the order in which they were asked, and
    where a subject failed, which is said because it is not drawn.
    """

    device: str
    unit: str
    series: tuple[Series, ...]
    failed: tuple[str, ...] = ()


def panels(block: FigureBlock, devices: Iterable[Evidence]) -> list[Panel]:
    """Return a panel for each device with fresh numbers, or raise Fault where there is none."""
    found, reasons = [], []
    for evidence in devices:
        if not evidence.fresh:
            reasons.append(evidence.stale_reason)
            continue
        try:
            found.append(_panel(block, evidence))
        except Unmeasured as reason:
            reasons.append(str(reason))
    if not found:
        why = reasons[0] if reasons else "there is no record"
        remedy = "change the block, or reproduce again with --publish"
        raise Fault(block.place, f"figure: cannot be drawn: {why}", remedy)
    return found


def _panel(block: FigureBlock, evidence: Evidence) -> Panel:
    series, failed = [], []
    unit = ""
    for subject in block.subjects:
        found, wrong = partly(block.quantity(subject), evidence.record, evidence.ceilings)
        failed += [f"{subject} at {spell(each.workload)}" for each in wrong]
        if not found:
            message = f"{subject!r} failed: {wrong[0].failed}"
            raise Unmeasured(message)
        unit = found[0].unit
        points = [_point(reading, block) for reading in found]
        points.sort(key=lambda point: point.x)
        _refuse_undrawable(points, subject, block)
        series.append(Series(subject, tuple(points), muted=subject == block.over))
    return Panel(evidence.name, unit, tuple(series), tuple(failed))


def _point(reading: Reading, block: FigureBlock) -> Point:
    if block.axis not in reading.workload:
        remedy = nearest(block.axis, reading.workload)
        raise Fault(block.place, f"figure: no size {block.axis!r} to be the axis", remedy)
    x = plain(reading.workload[block.axis])
    if isinstance(x, str) and block.kind == "lines":
        problem = f"figure: {block.axis}={x} is no number"
        raise Fault(block.place, problem, "use the kind ratios, or a size that is a number")
    middle = float(statistics.median(reading.runs))
    label = spell({block.axis: x})
    position = 0.0 if isinstance(x, str) else float(x)
    return Point(position, label, middle, reading.interval, len(reading.runs), reading.workload)


def _refuse_undrawable(points: list[Point], subject: str, block: FigureBlock) -> None:
    """Raise Fault for what a chart would show wrong or not at all."""
    if block.kind == "lines" and len(points) <= 1:
        problem = f"figure: {subject!r} has one point, which is no line"
        raise Fault(block.place, problem, f"measure more of {block.axis}, or use the kind ratios")
    labels = [point.label for point in points]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        problem = f"figure: several workloads of {subject!r} have {twice}"
        raise Fault(block.place, problem, "name the other sizes in `workload:`")
    lowest = min(point.interval.low for point in points)
    if lowest < TINIEST and (block.kind == "ratios" or block.scale == "log"):
        problem = f"figure: {lowest:g} of {subject!r} has no place on a logarithmic axis"
        raise Fault(block.place, problem, "add `scale: linear`, or leave it out")
    if block.kind == "lines" and points[0].x < TINIEST:
        problem = f"figure: {points[0].label} has no place on a logarithmic axis"
        raise Fault(block.place, problem, "leave that size out with `workload:`")


def draw(block: FigureBlock, found: list[Panel], number: int, source: str) -> str:
    """Return the figure as HTML: a chart a panel, the caption, the table of its data.

    `number` counts the figures of a page; `source` is HTML that links the records.
    """
    frame = frame_of([each.series for each in found], block.kind, block.scale)
    width = 640 if len(found) == 1 else 300
    drawings = []
    for panel in found:
        head = f'<div class="wl-panel-name">{escape(panel.device)}</div>' if len(found) > 1 else ""
        picture = chart.draw(panel.series, frame, panel.unit, width, _says(block, panel))
        drawings.append(f'<div class="wl-panel">{head}{picture}</div>')
    caption = f" {escape(block.caption)}" if block.caption else ""
    failed = [f"{each} ({panel.device})" for panel in found for each in panel.failed]
    caption += f" Not drawn, because it failed: {escape('; '.join(failed))}." if failed else ""
    title = block.title.rstrip(".")
    return (
        f'<figure class="wl-figure" id="figure-{number}" data-search-exclude>'
        f'<div class="wl-axis-name">{escape(_measure(block))}</div>'
        f'<div class="wl-panels wl-panels-{min(len(found), 3)}" tabindex="0">'
        f"{''.join(drawings)}</div>"
        f"<figcaption><p><strong>Figure {number}.</strong> {escape(title)}.{caption} {source}</p>"
        f'<details class="wl-more"><summary>The data of figure {number}</summary>{table(found)}</details>'
        "</figcaption></figure>"
    )


def _measure(block: FigureBlock) -> str:
    over = f" over {block.over}" if block.over else ""
    along = f" by {block.axis}" if block.kind == "lines" else ""
    scale = "linear" if block.kind == "lines" and block.scale == "linear" else "logarithmic"
    return f"{block.metric.replace('_', ' ')}{over}{along} ({scale} scale)"


def _says(block: FigureBlock, panel: Panel) -> tuple[str, str]:
    """Return the title and the description of a chart, for those who do not see it."""
    values = [point.interval for series in panel.series for point in series.points]
    hull = Interval(min(each.low for each in values), max(each.high for each in values))
    subjects = ", ".join(series.subject for series in panel.series)
    description = (
        f"{_measure(block)} of {subjects} on {panel.device}: "
        f"{pretty_interval(hull, panel.unit)}. The table below holds the data."
    )
    return f"{block.title} ({panel.device})", description


def table(found: list[Panel]) -> str:
    """Return the data of a figure as an HTML table, one row a mark."""
    rows = [
        f"<tr><td>{escape(panel.device)}</td><td>{escape(series.subject)}</td>"
        f"<td>{escape(spell(point.workload))}</td><td>{escape(pretty(point.middle, panel.unit))}</td>"
        f"<td>{escape(pretty_interval(point.interval, panel.unit))}</td><td>{point.runs}</td></tr>"
        for panel in found
        for series in panel.series
        for point in series.points
    ]
    heads = "".join(
        f'<th scope="col">{head}</th>'
        for head in ("Device", "Subject", "Workload", "Median run", "All runs", "Runs")
    )
    return (
        f'<div class="wl-scroll" tabindex="0"><table class="wl-table"><thead><tr>{heads}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
