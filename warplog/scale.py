"""The axes of a chart: ticks, domains, and where a value lies between them. Pure numbers.

The rule kept here: every mark lies inside the domain, and a logarithmic axis never sees zero, nor
anything below 1e-300.
"""

import math
from typing import Literal

from msgspec import Struct

from warplog.record import Interval, Workload

SMALLEST_SPAN = 1e-300
TICKS_AT_MOST = 7
LABEL_GAP = 14.0
TINIEST = 1e-300


class Point(Struct, frozen=True):
    """One mark: the median run, the interval of all runs, and the workload that it is of."""

    x: float
    label: str
    middle: float
    interval: Interval
    runs: int
    workload: Workload


class Series(Struct, frozen=True):
    """The marks of one subject; a muted one is the baseline."""

    subject: str
    points: tuple[Point, ...]
    muted: bool = False


class Frame(Struct, frozen=True):
    """What the panels of a figure share: the kind, and the domains of both axes."""

    kind: Literal["lines", "ratios"]
    log: bool
    ticks: tuple[float, ...]
    low: float
    high: float
    first: float
    last: float


def frame_of(
    groups: list[tuple[Series, ...]], kind: Literal["lines", "ratios"], scale: str
) -> Frame:
    """Return the frame that holds every mark of `groups`, one group of series a panel."""
    points = [point for group in groups for series in group for point in series.points]
    low = min(point.interval.low for point in points)
    high = max(point.interval.high for point in points)
    log = kind == "ratios" or scale == "log"
    if kind == "ratios":
        low, high = min(low, 1.0), max(high, 1.0)
    ticks = log_ticks(low, high) if log else linear_ticks(low, high)
    xs = [point.x for point in points]
    return Frame(kind, log, tuple(ticks), ticks[0], ticks[-1], min(xs), max(xs))


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2, 5, 10, ... from at most `low` to at least `high`; at most seven of them."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    fine = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    slack = 1e-9
    start = max(index for index, tick in enumerate(fine) if tick <= low * (1 + slack))
    stop = min(index for index, tick in enumerate(fine) if tick >= high * (1 - slack))
    stop = max(stop, start + 1)
    ticks = fine[start : stop + 1]
    if len(ticks) <= TICKS_AT_MOST:
        return ticks
    first, last = math.floor(math.log10(ticks[0])), math.ceil(math.log10(ticks[-1]))
    every = math.ceil((last - first) / 6)
    return [10.0**decade for decade in range(first, last + every, every)]


def linear_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from at most `low` (and 0) to at least `high`.

    A span so small that no decimal step divides it is drawn as none.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    span = high - low if high - low > SMALLEST_SPAN else 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))
    first = math.floor(low / step)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [index * step for index in range(first, last + 1)]


def share(value: float, low: float, high: float, *, log: bool) -> float:
    """Return where `value` lies between `low` (0) and `high` (1)."""
    if high <= low:
        return 0.5
    if log:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return (value - low) / (high - low)


def apart(wanted: list[float], low: float, high: float, gap: float = LABEL_GAP) -> list[float]:
    """Return positions near `wanted`, in the same order, at least `gap` from each other.

    They start at `low` or later, and end at `high` or earlier where they fit.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = list(wanted)
    floor = low
    for index in order:
        placed[index] = floor = max(wanted[index], floor)
        floor += gap
    ceiling = max(high, low + gap * (len(wanted) - 1))
    for index in reversed(order):
        placed[index] = ceiling = min(placed[index], ceiling)
        ceiling -= gap
    return placed


def thinned(positions: list[float], widths: list[float], gap: float = 6.0) -> list[int]:
    """Return the indices of the labels that fit side by side; the last one always does."""
    kept: list[int] = []
    limit = math.inf
    for index in reversed(range(len(positions))):
        if positions[index] + widths[index] / 2 + gap <= limit:
            kept.append(index)
            limit = positions[index] - widths[index] / 2
    return kept[::-1]
