"""Draws lines along a size and curves along steps: bands, medians, the bound, names at the line ends.

The rule kept here: the first subject is ours and is drawn last, over the rest; a line breaks where its
subject failed; no name stands over another, nor outside the chart. Pure.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from warplog import ink
from warplog.axis import Axis
from warplog.description import hover
from warplog.frame import Frame
from warplog.ink import Box, Style
from warplog.lettering import LINE, shortened, width_of, wrapped
from warplog.mark import Bound, Panel, Point, Series
from warplog.scale import apart, roundest, thinned

_NARROW = 400
_TALL, _LOW, _TOP, _BELOW = 0.38, 0.52, 24.0, 34.0
_NAME_GAP, _BETWEEN = 13.0, 2.5
_POINTS_AT_MOST = 300
_MOVED = 3.0


class Name(Struct, frozen=True):
    """A name beside the end of its line, at `x` and `y`; the bound's has no style."""

    lines: tuple[str, ...]
    full: str
    x: float
    y: float
    style: Style | None


class Plot(Struct, frozen=True):
    """Where values stand in one panel: `x` places a size, `y` a value of the metric."""

    frame: Frame
    size: Axis
    box: Box
    narrow: bool
    x: Callable[[float], float]
    y: Callable[[float], float]


def draw(panel: Panel, frame: Frame, size: Axis, width: int) -> tuple[str, float]:
    """Return the marks of one panel `width` wide, and its height."""
    room = (0.34 if width <= _NARROW else 0.3) * width
    words = [wrapped(name, room) for name in (*frame.subjects, frame.bound)]
    plot = _plot(frame, size, words, width)
    styles = [ink.style_of(index, muted=each.muted) for index, each in enumerate(panel.series)]
    names = [
        Name(lines, each.subject, plot.x(each.points[-1].x), plot.y(each.points[-1].middle), style)
        for each, style, lines in zip(panel.series, styles, words, strict=False)
        if each.points
    ]
    parts = [_values(plot), _sizes(plot)]
    if panel.bound is not None and panel.bound.points:
        parts.append(_bound(panel.bound, plot))
        last = panel.bound.points[-1]
        names.append(Name(words[-1], "", plot.box.right, plot.y(last.middle), None))
    for series, style in reversed([*zip(panel.series, styles, strict=True)]):
        parts += [_series(series, style, plot)] if series.points else []
    return "".join([*parts, *_names(names, frame.subjects[0], plot.box)]), plot.box.bottom + _BELOW


def _plot(frame: Frame, size: Axis, words: Sequence[tuple[str, ...]], width: int) -> Plot:
    """Return where values stand: in what the numbers at the left and the names leave over."""
    narrow = width <= _NARROW
    left = max((width_of(each) for each in frame.value.words), default=0) + 8
    right = width - max(width_of(line) for lines in words for line in lines) - _NAME_GAP - 1
    names = sum(LINE * len(lines) + _BETWEEN for lines in words)
    bottom = _TOP + max((_LOW if narrow else _TALL) * width, names)
    x = size.domain.placed(left, right)
    y = frame.value.domain.placed(bottom, _TOP)
    return Plot(frame, size, Box(left, _TOP, right, bottom), narrow, x, y)


def _values(plot: Plot) -> str:
    """Return the axis of the metric: its title above, a hairline and a number at each tick."""
    box, axis = plot.box, plot.frame.value
    ticks = [
        (plot.y(tick), words) for tick, words in zip(axis.domain.ticks, axis.words, strict=True)
    ]
    parts = [ink.rules((box.left, y, box.right, y) for y, _ in ticks)]
    parts += [ink.text(box.left - 6, y + 3.8, words, "end") for y, words in ticks]
    if plot.frame.unit == "ratio" and axis.domain.low <= 1 <= axis.domain.high:
        parity = plot.y(1.0)
        parts.append(ink.rules([(box.left, parity, box.right, parity)], "wl-parity"))
    title = shortened(axis.title, box.right)
    return "".join([*parts, ink.text(0, 11, title, full=axis.title)])


def _sizes(plot: Plot) -> str:
    """Return the horizontal axis: a mark at each size, words at as many as fit, its title below."""
    box, axis, bottom = plot.box, plot.size, plot.box.bottom
    places = [plot.x(tick) for tick in axis.domain.ticks]
    widths = [width_of(words) for words in axis.words]
    if plot.frame.kind == "curve":
        kept = thinned(places, widths)
    else:
        kept = roundest(places, widths, list(axis.domain.ticks))
    marks = [(box.left, bottom, box.right, bottom), *((x, bottom, x, bottom + 4) for x in places)]
    parts = [ink.rules(marks, "wl-ink-rule")]
    parts += [ink.text(places[at], bottom + 16, axis.words[at], "middle") for at in kept]
    title = shortened(axis.title, box.right)
    middle = max((box.left + box.right) / 2, width_of(title) / 2)
    return "".join([*parts, ink.text(middle, bottom + 31, title, "middle", full=axis.title)])


def _bound(bound: Bound, plot: Plot) -> str:
    """Return the floor as a dashed line through each size, or the ceiling as one right across."""
    if len(bound.points) == 1:
        across = plot.y(bound.points[0].middle)
        points = [(plot.box.left, across), (plot.box.right, across)]
    else:
        points = [(plot.x(each.x), plot.y(each.middle)) for each in bound.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline class="wl-bound" points="{line}" fill="none" stroke="{ink.INK}" '
        'stroke-width="1.4" stroke-dasharray="7 4"/>'
    )


def _series(series: Series, style: Style, plot: Plot) -> str:
    """Return one subject: each piece of its line with its band, and a dot a mark (none on a curve)."""
    curve = plot.frame.kind == "curve"
    dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
    thick = style.thick * (0.75 if curve or plot.narrow else 1)
    size = (2.6 if plot.narrow else 3.2) + (0.4 if style.colour == 0 else 0)
    says = hover(series.subject, plot.frame.size_name, plot.frame.unit)
    parts = [f"<g {style.paint}>"]
    for piece in _pieces(series):
        drawn = _outlined(piece) if len(piece) > _POINTS_AT_MOST else piece
        places = [(plot.x(each.x), plot.y(each.middle)) for each in drawn]
        line = " ".join([f"{x:.1f},{y:.1f}" for x, y in places])
        parts.append(_band(drawn, plot))
        parts.append(f'<polyline points="{line}" fill="none" stroke-width="{thick:g}"{dash}/>')
        if not curve or len(piece) == 1:
            dots = zip(places, drawn, strict=True)
            parts += [ink.dot(style.shape, x, y, says(point), size) for (x, y), point in dots]
    return "".join([*parts, "</g>"])


def _pieces(series: Series) -> Iterator[list[Point]]:
    """Yield the runs of points between the sizes at which the subject failed."""
    piece: list[Point] = []
    for point in series.points:
        if piece and any(piece[-1].x < gap < point.x for gap in series.gaps):
            yield piece
            piece = []
        piece.append(point)
    yield piece


def _outlined(points: Sequence[Point]) -> list[Point]:
    """Return the lowest and the highest of the points that share a place, in their order."""
    every = len(points) // (_POINTS_AT_MOST // 2) + 1
    kept = [points[0]]
    for start in range(0, len(points), every):
        group = points[start : start + every]
        ends = {
            min(group, key=lambda each: each.middle).x,
            max(group, key=lambda each: each.middle).x,
        }
        kept += [each for each in group if each.x in ends and each.x > kept[-1].x]
    return kept if kept[-1].x == points[-1].x else [*kept, points[-1]]


def _band(points: Sequence[Point], plot: Plot) -> str:
    """Return the spread of the runs: a band, or a whisker at a point that stands alone."""
    ends = [
        (plot.x(each.x), plot.y(each.interval.high), plot.y(each.interval.low)) for each in points
    ]
    upper = [f"{x:.1f},{high:.1f}" for x, high, _ in ends]
    lower = [f"{x:.1f},{low:.1f}" for x, _, low in ends]
    if upper == lower:
        return ""
    if len(points) == 1:
        return f'<polyline points="{upper[0]} {lower[0]}" fill="none" stroke-width="1.5"/>'
    band = " ".join(upper + lower[::-1])
    return f'<polygon class="wl-band" points="{band}" stroke="none" opacity="0.2"/>'


def _names(names: Sequence[Name], ours: str, box: Box) -> Iterator[str]:
    """Yield the names at the line ends, pushed apart, with a thread to an end that is not beside."""
    heights = [LINE * len(each.lines) + _BETWEEN for each in names]
    placed = apart([each.y for each in names], heights, box.top - 6, box.bottom + 6)
    x = box.right + _NAME_GAP
    for name, middle in zip(names, placed, strict=True):
        paint = (
            name.style.paint
            if name.style
            else f'class="wl-limit" fill="{ink.INK}" stroke="{ink.INK}"'
        )
        weight = ' font-weight="600"' if name.full == ours else ""
        yield f'<g {paint} stroke-width="0.8">'
        if abs(middle - name.y) > _MOVED or name.x < box.right - 1:
            yield f'<path class="wl-thread" d="M{name.x + 4:.1f} {name.y:.1f}L{x - 3:.1f} {middle:.1f}"/>'
        first = middle - LINE * (len(name.lines) - 1) / 2 + 3.8
        for at, line in enumerate(name.lines):
            full = name.full if at == 0 else ""
            more = f'{weight} stroke="none"'
            yield ink.text(x, first + LINE * at, line, more=more, full=full)
        yield "</g>"
