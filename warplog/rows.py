"""Draws ratios as dots with whiskers beside parity, counts and shares as bars from zero: a row a measurement.

The rule kept here: each row has its name at the left and its number at the right, and stands at the same
height on every device; a row that a device did not measure says so. Pure.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from warplog import ink
from warplog.axis import amount
from warplog.description import even, hover
from warplog.frame import ABSENT, FAILED, Frame, Row
from warplog.ink import Box, Style
from warplog.lettering import LINE, shortened, width_of, wrapped
from warplog.mark import Panel, Point
from warplog.scale import thinned

_NARROW = 400
_HEADED, _BARE = 20.0, 6.0
_ROW, _GROUP, _BELOW = 20.0, 23.0, 34.0
_GAP, _BAR, _SEEN = 10.0, 11.0, 0.5


class Line(Struct, frozen=True):
    """A row as it is drawn: its name, how tall it is, and what it shows; a heading shows nothing."""

    words: tuple[str, ...]
    full: str
    height: float
    row: Row | None


class Subject(Struct, frozen=True):
    """What the rows of one subject show: its marks by size, and the sizes at which it failed."""

    style: Style
    says: Callable[[Point], str]
    points: dict[str, Point]
    failed: frozenset[str]


class Sheet(Struct, frozen=True):
    """Where values stand in one panel: `x` places a value of the metric."""

    frame: Frame
    box: Box
    x: Callable[[float], float]


def draw(panel: Panel, frame: Frame, width: int) -> tuple[str, float]:
    """Return the marks of one panel `width` wide, and its height."""
    room = (0.4 if width <= _NARROW else 0.32) * width
    lines = list(_lines(frame, room))
    head = shortened(frame.size_name, room) if _of_sizes(frame) else ""
    top = _HEADED if frame.kind == "ratios" or head else _BARE
    left = max(width_of(words) for line in lines for words in (*line.words, head)) + _GAP
    right = width - frame.number_room - _GAP
    box = Box(left, top, right, top + sum(line.height for line in lines))
    sheet = Sheet(frame, box, frame.value.domain.placed(left, right))
    parts = [_scale(sheet)]
    if head:
        parts.append(ink.text(left - _GAP, 11, head, "end", full=frame.size_name))
    subjects = [_subject(index, panel, frame) for index in range(len(panel.series))]
    y = top
    for line in lines:
        middle = y + line.height / 2
        parts += _words(line, box, middle)
        if line.row is not None:
            parts.append(_row(line.row.label, subjects[line.row.subject], sheet, middle))
        y += line.height
    return "".join(parts), box.bottom + _BELOW


def _subject(index: int, panel: Panel, frame: Frame) -> Subject:
    """Return how a subject looks. Where each has one row, which names it, a colour would say nothing."""
    series = panel.series[index]
    return Subject(
        ink.style_of(index, muted=series.muted or len(frame.labels) == 1),
        hover(series.subject, frame.size_name, frame.unit),
        {point.label: point for point in series.points},
        frozenset(each.label for each in panel.failed if each.subject == series.subject),
    )


def _of_sizes(frame: Frame) -> bool:
    """Return whether the rows are named by sizes, not by subjects."""
    return len(frame.subjects) == 1 and bool(frame.size_name)


def _lines(frame: Frame, room: float) -> Iterator[Line]:
    """Yield the rows under a heading for each size, or without one where a row's name says it all."""
    grouped = len(frame.subjects) > 1 and len(frame.labels) > 1
    last = None
    for row in frame.rows:
        if grouped and row.label != last:
            name = f"{frame.size_name} {row.label}"
            yield Line((shortened(name, room),), name, _GROUP, None)
            last = row.label
        name = row.label if _of_sizes(frame) else frame.subjects[row.subject]
        words = wrapped(name, room)
        yield Line(words, name, _ROW + LINE * (len(words) - 1), row)


def _words(line: Line, box: Box, middle: float) -> Iterator[str]:
    """Yield the name of a row at its left, on one line or two."""
    heading = line.row is None
    first = middle - LINE * (len(line.words) - 1) / 2 + (6.5 if heading else 3.8)
    for at, words in enumerate(line.words):
        more = ' class="wl-strong" font-weight="600"' if heading else ""
        full = line.full if at == 0 else ""
        yield ink.text(box.left - _GAP, first + LINE * at, words, "end", more=more, full=full)


def _scale(sheet: Sheet) -> str:
    """Return the ticks below with their title, and the line of its own: of parity, or of zero."""
    frame, box, axis = sheet.frame, sheet.box, sheet.frame.value
    own = 1.0 if frame.kind == "ratios" else 0.0
    places = [sheet.x(tick) for tick in axis.domain.ticks]
    shown = [x for x, tick in zip(places, axis.domain.ticks, strict=True) if tick != own]
    parts = [ink.rules((x, box.top, x, box.bottom) for x in shown)]
    kept = thinned(places, [width_of(words) for words in axis.words])
    parts += [ink.text(places[at], box.bottom + 15, axis.words[at], "middle") for at in kept]
    x = sheet.x(own)
    if frame.kind == "ratios":
        word = "parity" if frame.unit == "ratio" else "all of it"
        parts.append(ink.rules([(x, box.top - 3, x, box.bottom)], "wl-parity"))
        parts.append(ink.text(max(x, box.left + 14), 11, word, "middle"))
    else:
        parts.append(ink.rules([(x, box.top, x, box.bottom)], "wl-ink-rule"))
    most = box.right + frame.number_room
    title = shortened(axis.title, most)
    half = width_of(title) / 2
    middle = min(max((box.left + box.right) / 2, half), most - half)
    return "".join([*parts, ink.text(middle, box.bottom + 30, title, "middle", full=axis.title)])


def _row(label: str, subject: Subject, sheet: Sheet, middle: float) -> str:
    """Return what one row shows: its mark and its number, or that there is none."""
    frame, box = sheet.frame, sheet.box
    point = subject.points.get(label)
    if point is None:
        words = FAILED if label in subject.failed else ABSENT
        return ink.text(box.right + _GAP, middle + 3.8, words)
    words = subject.says(point)
    place, high = sheet.x(point.middle), sheet.x(point.interval.high)
    whisker = _whisker(sheet.x(point.interval.low), high, middle, over=frame.kind == "bars")
    if frame.kind == "bars":
        mark = _bar(box.left, place, middle, words) + whisker
        at = max(place, high) + 6
    else:
        mark = _noise(point, sheet, middle) + whisker
        mark += _ratio_dot(point, place, middle, subject.style, words)
        at = box.right + _GAP
    more = ' class="wl-number" font-weight="600"'
    number = ink.text(at, middle + 3.8, amount(point.middle, frame.unit, frame.value), more=more)
    return f"<g {subject.style.paint}>{mark}</g>{number}"


def _bar(left: float, place: float, middle: float, words: str) -> str:
    return (
        f'<rect x="{left:.1f}" y="{middle - _BAR / 2:.1f}" width="{max(place - left, 0):.1f}" '
        f'height="{_BAR:g}" stroke="none"><title>{words}</title></rect>'
    )


def _whisker(low: float, high: float, middle: float, *, over: bool) -> str:
    """Return the spread of the runs; `over` a bar it has ends, and the colour of the text."""
    if high - low < _SEEN:
        return ""
    if not over:
        return f'<path stroke-width="2" d="M{low:.1f} {middle:.1f}H{high:.1f}"/>'
    path = f"M{low:.1f} {middle - 3:.1f}v6m0 -3H{high:.1f}m0 -3v6"
    return f'<path class="wl-over" stroke="{ink.INK}" stroke-width="1.2" fill="none" d="{path}"/>'


def _ratio_dot(point: Point, place: float, middle: float, style: Style, words: str) -> str:
    """Return the median run as a dot, hollow where the runs lie on both sides of parity."""
    if even(point):
        return ink.hollow(place, middle, words)
    return ink.dot(style.shape, place, middle, words, 3.6)


def _noise(point: Point, sheet: Sheet, middle: float) -> str:
    """Return how far from parity the baseline came against itself, as far as the chart shows it."""
    if point.noise is None:
        return ""
    domain = sheet.frame.value.domain
    first = sheet.x(max(point.noise.low, domain.low))
    last = sheet.x(min(point.noise.high, domain.high))
    return (
        f'<rect class="wl-noise" stroke="none" fill="{ink.RULE}" x="{first:.1f}" '
        f'y="{middle - 6:.1f}" width="{max(last - first, 1):.1f}" height="12"/>'
    )
