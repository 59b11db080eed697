"""What the panels of a figure share: the axes, the subjects, and the rows.

The rule kept here: a value stands at the same place in every panel of a figure, and so does a row. Pure.
"""

from collections.abc import Sequence

from msgspec import Struct

from warplog.axis import Axis, amount, number, size_words, value_axis, words_of
from warplog.block import FigureBlock
from warplog.lettering import width_of
from warplog.mark import Panel, Point, Series
from warplog.scale import Domain, exact_domain, linear_domain, log_domain
from warplog.workload import plain

FAILED, ABSENT = "failed", "–"


class Row(Struct, frozen=True):
    """A row of a chart of ratios or bars: of one subject at one size."""

    subject: int
    label: str


class Frame(Struct, frozen=True):
    """What the panels of a figure share.

    `size` is the horizontal axis of lines and curves; `rows` are those of ratios and bars, and
    `size_name` says in words what their labels are sizes of; `number_room` is what their numbers take.
    `bound` names the bound, if one is drawn.
    """

    kind: str
    unit: str
    value: Axis
    subjects: tuple[str, ...]
    size_name: str
    size: Axis | None = None
    rows: tuple[Row, ...] = ()
    number_room: float = 0.0
    bound: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The sizes that have rows, in their order."""
        return tuple(dict.fromkeys(row.label for row in self.rows))


def frame_of(block: FigureBlock, panels: Sequence[Panel]) -> Frame:
    """Return the frame that holds every mark of `panels`, of which there is at least one."""
    points = [point for panel in panels for each in panel.series for point in each.points]
    limits = [point for panel in panels if panel.bound for point in panel.bound.points]
    lined = block.kind in ("lines", "curve")
    unit = panels[0].unit
    rows = () if lined else _rows(panels)
    alone = {row.label for row in rows}
    title = metric_words(block)
    if len(alone) == 1 and len(block.subjects) > 1 and block.size:
        title += f" at {words_of(block.size)} {alone.pop()}"
    value = value_axis(_values(block, [*points, *limits]), unit, title)
    return Frame(
        kind=block.kind,
        unit=unit,
        value=value,
        subjects=tuple(block.subjects),
        size_name=words_of(block.size or ""),
        size=_sizes(block, points) if lined else None,
        rows=rows,
        number_room=0.0 if lined else _number_room(panels, points, value),
        bound=str(block.bound) if limits else "",
    )


def metric_words(block: FigureBlock) -> str:
    """Return the metric in words: ``speedup over per item``."""
    over = f" over {block.over}" if block.over else ""
    return words_of(block.metric) + over


def _values(block: FigureBlock, points: Sequence[Point]) -> Domain:
    """Return the domain of the metric: of ratios with parity in it, of bars from zero."""
    low = min(point.interval.low for point in points)
    high = max(point.interval.high for point in points)
    if block.kind == "ratios":
        return log_domain(min(low, 1.0), max(high, 1.0))
    if block.log:
        return log_domain(low, high)
    whole = block.kind == "bars" and all(point.middle.is_integer() for point in points)
    return linear_domain(low, high, zero=block.kind != "curve", whole=whole)


def _sizes(block: FigureBlock, points: Sequence[Point]) -> Axis:
    """Return the horizontal axis: of lines the sizes that were measured, of a curve round steps."""
    name = words_of(str(block.size))
    sizes = sorted({point.x for point in points})
    if block.kind == "curve":
        domain = exact_domain(sizes[0], sizes[-1])
        return Axis(domain, tuple(map(number, domain.ticks)), name)
    domain = Domain(sizes[0], sizes[-1], tuple(sizes), log=True)
    return Axis(domain, tuple(size_words(sizes)), name)


def _rows(panels: Sequence[Panel]) -> tuple[Row, ...]:
    """Return a row for each size and subject that any panel has, failed or not, by size."""
    found = {
        (label, index)
        for panel in panels
        for index, each in enumerate(panel.series)
        for label in _labels(panel, each)
    }
    labels = list(
        dict.fromkeys(
            label for panel in panels for each in panel.series for label in _labels(panel, each)
        )
    )
    numbers = [plain(label) for label in labels]
    if not any(isinstance(each, str) for each in numbers):
        labels.sort(key=lambda label: float(plain(label)))
    subjects = range(len(panels[0].series))
    return tuple(
        Row(index, label) for label in labels for index in subjects if (label, index) in found
    )


def _number_room(panels: Sequence[Panel], points: Sequence[Point], axis: Axis) -> float:
    """Return the room that the numbers of the rows take, with what is said where there is none."""
    words = {amount(point.middle, panels[0].unit, axis) for point in points}
    words |= {FAILED} if any(panel.failed for panel in panels) else {ABSENT}
    return max(map(width_of, words)) * 1.05


def _labels(panel: Panel, series: Series) -> list[str]:
    """Return the sizes at which a subject was measured, or failed."""
    wrong = [each.label for each in panel.failed if each.subject == series.subject]
    return [point.label for point in series.points] + wrong
