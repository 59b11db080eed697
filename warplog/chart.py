"""Writes a chart as static SVG: lines with their spread, or dots with whiskers and a parity line.

The rule kept here: every text is escaped, every colour is a class and a presentation attribute (so that a
feed reader and a saved file have it too), and labels stand at their marks. Pure.
"""

from collections.abc import Callable
from html import escape

from msgspec import Struct

from warplog.scale import LABEL_GAP, Frame, Point, Series, apart, share, thinned
from warplog.unit import pretty

COLOURS = ("#0b4f8a", "#b04f14", "#6f695e", "#8d877b")
INK, RULE = "#55524b", "#dcd8ce"
_ROW, _TALL, _NARROW = 22.0, 300.0, 400
_CHARACTER = 6.9


class Box(Struct, frozen=True):
    """The inner rectangle of a chart, in user units."""

    left: float
    top: float
    right: float
    bottom: float


def draw(
    series: tuple[Series, ...], frame: Frame, unit: str, width: int, says: tuple[str, str]
) -> str:
    """Return one panel as an `svg` element `width` wide; `says` is its title and description."""
    if frame.kind == "lines":
        body, height = _lines(series, frame, unit, width)
    else:
        body, height = _ratios(series, frame, unit, width)
    title, description = (escape(text) for text in says)
    return (
        f'<svg class="wl-chart" viewBox="0 0 {width} {height:g}" role="img" aria-label="{title}" '
        'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11">'
        f"<title>{title}</title><desc>{description}</desc>{body}</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    fill = "" if "fill=" in style else f' fill="{INK}"'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill} class="wl-ink" {style}>'
        f"{escape(words)}</text>"
    ).replace(" >", ">")


def _rule(x1: float, y1: float, x2: float, y2: float, name: str = "wl-rule") -> str:
    colour = RULE if name == "wl-rule" else INK
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{name}" '
        f'stroke="{colour}"/>'
    )


def _colour(series: tuple[Series, ...], index: int) -> int:
    return len(COLOURS) - 1 if series[index].muted else index % (len(COLOURS) - 1)


def _lines(series: tuple[Series, ...], frame: Frame, unit: str, width: int) -> tuple[str, float]:
    """Return the marks of a line chart, and its height."""
    longest = max(len(each.subject) for each in series)
    right = width - min(longest * _CHARACTER + 12, width * 0.4)
    tick_words = [pretty(tick, unit) for tick in frame.ticks]
    left = max(len(words) for words in tick_words) * _CHARACTER + 8
    tall = _TALL if width > _NARROW else 0.6 * width
    box = Box(left, 10, right, max(tall, 10 + LABEL_GAP * len(series)))

    def x_of(value: float) -> float:
        return box.left + (box.right - box.left) * share(value, frame.first, frame.last, log=True)

    def y_of(value: float) -> float:
        up = share(value, frame.low, frame.high, log=frame.log)
        return box.bottom - (box.bottom - box.top) * up

    parts = []
    for tick, words in zip(frame.ticks, tick_words, strict=True):
        parts.append(_rule(box.left, y_of(tick), box.right, y_of(tick)))
        parts.append(_text(box.left - 6, y_of(tick) + 4, words, "end"))
    parts += _sizes(series, box, x_of)
    ends = apart([y_of(each.points[-1].middle) for each in series], box.top, box.bottom)
    for index in reversed(range(len(series))):
        parts.append(_curve(series, index, x_of, y_of))
        style = _style(_colour(series, index), "fill", bold=index == 0)
        parts.append(_text(box.right + 8, ends[index] + 4, series[index].subject, "start", style))
    return "".join(parts), box.bottom + 26


def _style(colour: int, attribute: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'{attribute}="{COLOURS[colour]}" data-series="{colour}"{weight}'


def _sizes(series: tuple[Series, ...], box: Box, x_of: Callable[[float], float]) -> list[str]:
    """Return the horizontal axis: the sizes that were measured, as many as fit."""
    xs = sorted({point.x for each in series for point in each.points})
    words = [f"{x:.0f}" if x.is_integer() else f"{x:.3g}" for x in xs]
    kept = thinned([x_of(x) for x in xs], [len(word) * _CHARACTER for word in words])
    parts = [_rule(box.left, box.bottom, box.right, box.bottom, "wl-ink-rule")]
    for index in kept:
        x = x_of(xs[index])
        parts.append(_rule(x, box.bottom, x, box.bottom + 4, "wl-ink-rule"))
        parts.append(_text(x, box.bottom + 17, words[index], "middle"))
    return parts


def _curve(
    series: tuple[Series, ...],
    index: int,
    x_of: Callable[[float], float],
    y_of: Callable[[float], float],
) -> str:
    """Return the spread of one series as a band and its medians as a line with dots."""
    points = series[index].points
    colour = _colour(series, index)
    upper = [f"{x_of(p.x):.1f},{y_of(p.interval.high):.1f}" for p in points]
    lower = [f"{x_of(p.x):.1f},{y_of(p.interval.low):.1f}" for p in reversed(points)]
    middle = [(x_of(p.x), y_of(p.middle)) for p in points]
    thick = 2.4 if index == 0 else 1.4
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{thick + 0.4:.1f}"/>' for x, y in middle)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in middle)
    dash = ' stroke-dasharray="5 3"' if index >= len(COLOURS) - 1 else ""
    return (
        f'<polygon points="{" ".join(upper + lower)}" opacity="0.18" {_style(colour, "fill")}/>'
        f'<polyline points="{line}" fill="none" stroke-width="{thick}"{dash} '
        f"{_style(colour, 'stroke')}/><g {_style(colour, 'fill')}>{dots}</g>"
    )


def _ratios(series: tuple[Series, ...], frame: Frame, unit: str, width: int) -> tuple[str, float]:
    """Return the marks of a dot-and-whisker chart, and its height: one row a workload and subject."""
    many = len(series) > 1
    rows = [
        (f"{each.subject}, {point.label}" if many else point.label, index, point)
        for index, each in enumerate(series)
        for point in each.points
    ]
    longest = max(len(label) for label, _, _ in rows)
    left = min(longest * _CHARACTER + 12, width * 0.55)
    box = Box(left, 8, width - 62, 8 + _ROW * len(rows) + 6)

    def x_of(value: float) -> float:
        return box.left + (box.right - box.left) * share(value, frame.low, frame.high, log=True)

    parts = _scale_below(frame, unit, box, x_of)
    for number, (label, index, point) in enumerate(rows):
        y = box.top + _ROW * (number + 0.5)
        parts.append(_text(box.left - 10, y + 4, label, "end"))
        parts.append(_whisker(_colour(series, index), point, x_of, y))
        words = pretty(point.middle, unit)
        parts.append(_text(box.right + 8, y + 4, words, "start", 'font-weight="600"'))
    return "".join(parts), box.bottom + 26


def _scale_below(frame: Frame, unit: str, box: Box, x_of: Callable[[float], float]) -> list[str]:
    """Return the ticks of a ratio chart and the line where both are equal."""
    words = [pretty(tick, unit) for tick in frame.ticks]
    places = [x_of(tick) for tick in frame.ticks]
    kept = thinned(places, [len(word) * _CHARACTER for word in words])
    parts = [_rule(x, box.top, x, box.bottom) for x in places]
    parts += [_text(places[index], box.bottom + 17, words[index], "middle") for index in kept]
    parity = x_of(1.0)
    parts.append(_rule(parity, box.top, parity, box.bottom, "wl-parity"))
    return parts


def _whisker(colour: int, point: Point, x_of: Callable[[float], float], y: float) -> str:
    """Return the interval of one row as a whisker, with the median run as a dot."""
    low, middle, high = (
        x_of(value) for value in (point.interval.low, point.middle, point.interval.high)
    )
    return (
        f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke-width="2" '
        f"{_style(colour, 'stroke')}/>"
        f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="3.5" {_style(colour, "fill")}/>'
    )
