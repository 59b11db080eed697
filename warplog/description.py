"""What a figure says in words: the values of a mark, the finding of each subject, how to read the marks.

The rule kept here: who does not see the chart is told the same numbers as who does; a number is written
as everywhere else on the page. Pure.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape

from warplog.block import FigureBlock
from warplog.frame import Frame, metric_words
from warplog.lettering import clean, isolated, shortened
from warplog.mark import Panel, Point, Series
from warplog.record import Interval
from warplog.unit import pretty, pretty_interval
from warplog.workload import spell

_ONE_BY_ONE = 6
_SHORT, _BRIEF, _SENTENCE = 40, 500.0, 1000.0


@lru_cache(maxsize=4096)
def _written(middle: float, low: float, high: float, unit: str) -> tuple[str, str]:
    return pretty(middle, unit), pretty_interval(Interval(low, high), unit)


def written(point: Point, unit: str) -> tuple[str, str]:
    """Return the median run and the interval of all runs, for people."""
    return _written(point.middle, point.interval.low, point.interval.high, unit)


def written_html(point: Point, unit: str) -> tuple[str, str]:
    """Return the same as HTML; only a unit can hold what needs escaping."""
    middle, spread = written(point, unit)
    return (middle, spread) if unit.isalnum() else (escape(middle), escape(spread))


def hover(subject: str, size_name: str, unit: str) -> Callable[[Point], str]:
    """Return what writes, as HTML, the words where a pointer rests on a mark of `subject`."""
    name = escape(_brief(subject))
    at = f" at {escape(isolated(size_name))} " if size_name else ""

    def words(point: Point) -> str:
        middle, spread = written_html(point, unit)
        size = escape(_brief(point.label)) if at else ""
        return f"{name}{at}{size}: {middle} ({spread})"

    return words


def _at(point: Point, size_name: str) -> str:
    return f" at {isolated(size_name)} {isolated(point.label)}" if point.label else ""


def _brief(text: str) -> str:
    """Return a name for a sentence: one of any length would drown it, and the table has it whole."""
    return isolated(text if len(text) <= _SHORT else shortened(text, _BRIEF))


def title_of(block: FigureBlock, panel: Panel) -> str:
    """Return the title of one panel's chart."""
    return f"{isolated(block.title)} ({isolated(panel.device)})"


def description_of(block: FigureBlock, panel: Panel, frame: Frame) -> str:
    """Return the finding of one panel: each subject from where to where, and the bound."""
    along = f" by {isolated(frame.size_name)}" if frame.size_name else ""
    parts = [f"{isolated(metric_words(block))}{along}, {_scale(block)}."]
    parts += [f"{isolated(each.subject)}: {_course(each, frame)}." for each in panel.series]
    if panel.bound is not None and panel.bound.points:
        course = _course(Series(panel.bound.name, panel.bound.points), frame)
        parts.append(f"The {panel.bound.name}: {course}.")
    return " ".join([*parts, "Every number is in the table below the figure."])


def _scale(block: FigureBlock) -> str:
    if block.kind == "lines" and block.log:
        return "both axes logarithmic"
    if block.kind == "lines":
        return "sizes on a logarithmic axis, values on a linear one from zero"
    if block.kind == "bars":
        return "bars from zero"
    return "on a logarithmic axis" if block.log else "on a linear axis"


def _course(series: Series, frame: Frame) -> str:
    """Return the numbers of one subject: all of a few, else the ends and the extremes."""
    points, unit = series.points, frame.unit

    def told(point: Point) -> str:
        return f"{written(point, unit)[0]}{_at(point, frame.size_name)}"

    if not points:
        return "not measured" if series.missing else "failed"
    if len(points) == 1:
        return told(points[0])
    if frame.size is None and len(points) <= _ONE_BY_ONE:
        return ", ".join(map(told, points))
    low = min(points, key=lambda each: each.middle)
    high = max(points, key=lambda each: each.middle)
    if frame.size is None:
        return f"from {told(low)} to {told(high)}, {len(points)} sizes"
    ends = (points[0].middle, points[-1].middle)
    said = f"from {told(points[0])} to {told(points[-1])}"
    said += f", lowest {told(low)}" if low.middle not in ends else ""
    return said + (f", highest {told(high)}" if high.middle not in ends else "")


def key_of(block: FigureBlock, panels: Sequence[Panel]) -> str:
    """Return how to read the marks, in a line."""
    counts = {point.runs for panel in panels for each in panel.series for point in each.points}
    runs = f"{min(counts)} to {max(counts)} runs" if len(counts) > 1 else f"{min(counts)} runs"
    mark = {"ratios": "Dot", "bars": "Bar"}.get(block.kind, "Line")
    if counts == {1}:
        return f"{mark}: the one run."
    spread = {"ratios": "whisker", "bars": "whisker"}.get(block.kind, "band")
    said = f"{mark}: median of {runs}; {spread}: from the lowest to the highest"
    points = [point for panel in panels for each in panel.series for point in each.points]
    if block.kind == "ratios":
        said += "; hollow: parity lies within" if any(map(even, points)) else ""
        said += "; grey: the baseline against itself" if any(each.noise for each in points) else ""
    if block.kind == "lines" and block.log:
        said += "; both axes logarithmic"
    return said + "."


def even(point: Point) -> bool:
    """Return whether the runs of a ratio lie on both sides of parity."""
    return point.interval.low <= 1 <= point.interval.high


def failures_of(panels: Sequence[Panel]) -> list[str]:
    """Return what is not drawn because it failed, in words."""
    return [
        f"{_brief(each.subject)} at {_brief(spell(each.workload))} ({_brief(panel.device)})"
        for panel in panels
        for each in panel.failed
    ]


def missing_of(panels: Sequence[Panel]) -> list[str]:
    """Return which devices are not drawn, which subjects were not measured on the others, and why."""
    return [
        f"Not drawn on {_brief(panel.device)}: {_reason(panel.missing)}"
        for panel in panels
        if panel.missing
    ] + [
        f"Not measured: {_brief(each.subject)} ({_brief(panel.device)}), {_reason(each.missing)}"
        for panel in panels
        for each in panel.series
        if each.missing
    ]


def _reason(text: str) -> str:
    return isolated(shortened(text, _SENTENCE).rstrip("."))


def unbounded_of(panels: Sequence[Panel]) -> list[str]:
    """Return on which devices there is no bound, and why, in words."""
    return [
        f"No {panel.bound.name} on {_brief(panel.device)}: {clean(panel.bound.missing)}"
        for panel in panels
        if panel.bound is not None and not panel.bound.points
    ]
