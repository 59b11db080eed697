"""Where values stand on an axis: its domain, its ticks, its labels. Pure numbers.

The rule kept here: every mark lies inside the domain, every tick too, and a logarithmic axis never sees
zero, nor anything below 1e-300.
"""

import math
from bisect import bisect
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct

TINIEST = 1e-300
TICKS_AT_MOST = 7
_EXPONENTS = (-307.0, 308.0)
_DOUBLE = math.log10(2)
_PAD = 0.04
_STEPS = (
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)
_FEW_DECADES = 4
_MOST = 0.5


class Domain(Struct, frozen=True):
    """The values that an axis shows, from `low` to `high`, and where its ticks stand."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool

    def placed(self, start: float, end: float) -> Callable[[float], float]:
        """Return what puts a value between `start`, where `low` is, and `end`, where `high` is."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if high <= low:
            middle = (start + end) / 2
            return lambda _: middle
        slope = (end - start) / (high - low)
        if self.log:
            log = math.log
            return lambda value: start + (log(value) - low) * slope
        return lambda value: start + (value - low) * slope


def log_domain(low: float, high: float) -> Domain:
    """Return a logarithmic domain around `low` and `high`, of a factor of two at least, so that
    noise does not fill a chart.
    """
    first, last = math.log10(low), math.log10(high)
    missing = max(_DOUBLE - (last - first), 0.0) / 2
    pad = missing + _PAD * (last - first)
    first, last = max(first - pad, _EXPONENTS[0]), min(last + pad, _EXPONENTS[1])
    bottom, top = min(10.0**first, low), max(10.0**last, high)
    return Domain(bottom, top, tuple(_log_ticks(bottom, top)), log=True)


def _log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers inside, from the finest steps of which there are not too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first, last + 1)
    if len(decades) <= _FEW_DECADES:
        for steps in _STEPS:
            every = [float(f"{step}e{decade}") for decade in decades for step in steps]
            ticks = [tick for tick in every if low <= tick <= high]
            if len(ticks) <= TICKS_AT_MOST:
                return ticks
    stride = math.ceil((last - first) / TICKS_AT_MOST)
    whole = range(math.ceil(first / stride) * stride, last + 1, stride)
    return [tick for tick in (float(f"1e{decade}") for decade in whole) if low <= tick <= high]


def linear_domain(low: float, high: float, *, zero: bool, whole: bool = False) -> Domain:
    """Return a linear domain around `low` and `high`; `zero` starts it there, and ticks are `whole`
    where it counts.

    A span so small that no decimal step divides it is drawn as none.
    """
    low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
    if high - low <= max(TINIEST, 1e-12 * max(abs(low), abs(high))):
        more = max(abs(low), abs(high)) * 0.1
        more = more if more > TINIEST else 1.0
        low, high = low if zero else low - more, high + more
    pad = _PAD * (high - low)
    low = low if zero and low == 0 else low - pad
    high = high if zero and high == 0 else high + pad
    ticks = [tick for tick in _linear_ticks(low, high) if not whole or tick.is_integer()]
    return Domain(low, high, tuple(ticks), log=False)


def exact_domain(low: float, high: float) -> Domain:
    """Return a linear domain from `low` to `high` and no further, as of the steps of a training."""
    return Domain(low, high, tuple(_linear_ticks(low, high)) if high > low else (low,), log=False)


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    power = math.floor(math.log10(rough))
    steps = (float(f"{step}e{decade}") for decade in (power, power + 1) for step in (1, 2, 5))
    step = next(each for each in steps if each >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def apart(wanted: list[float], heights: list[float], low: float, high: float) -> list[float]:
    """Return the middles of labels of these `heights`, as near to `wanted` as can be, in the same
    order, none over another, all between `low` and `high` where they fit.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    above, starts = 0.0, []
    pools: list[tuple[float, int]] = []
    for index in order:
        pools.append((wanted[index] - heights[index] / 2 - above, 1))
        starts.append(above)
        above += heights[index]
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, few), (two, more) = pools[-2:]
            pools[-2:] = [((one * few + two * more) / (few + more), few + more)]
    shifts = [place for place, count in pools for _ in range(count)]
    placed = list(wanted)
    for index, start, shift in zip(order, starts, shifts, strict=True):
        placed[index] = max(low, min(shift, high - above)) + start + heights[index] / 2
    return placed


def thinned(positions: list[float], widths: list[float], gap: float = 7.0) -> list[int]:
    """Return the indices of the labels that fit side by side: the last, the first, then as many of
    the rest as there is room for, evenly where the positions are even.
    """
    many = len(positions)
    for stride in range(1, many):
        kept = [*range(many - 1, -1, -stride)][::-1]
        if _clear(positions, widths, kept, gap):
            begun = [0, *kept]
            return begun if kept[0] and _clear(positions, widths, begun[:2], gap) else kept
    return [many - 1] if many else []


def roundest(
    positions: list[float], widths: list[float], values: list[float], gap: float = 7.0
) -> list[int]:
    """Return the indices of the labels that fit side by side: the last, the first, and then the
    roundest of `values`.
    """
    ranks = [roundness(value) for value in values]
    last = len(values) - 1
    kept: list[int] = []
    for index in sorted(range(len(values)), key=lambda at: (at != last, at != 0, -ranks[at], at)):
        place = bisect(kept, index)
        if _clear(
            positions, widths, [*kept[max(place - 1, 0) : place], index, *kept[place:][:1]], gap
        ):
            kept.insert(place, index)
    return kept if len(kept) > _MOST * len(values) else thinned(positions, widths, gap)


def roundness(value: float) -> int:
    """Return how round a size is: 2 for a power of two or one digit and zeros, 1 for a multiple."""
    if value <= 0 or not float(value).is_integer():
        return int(value == 0)
    whole = int(value)
    if whole & (whole - 1) == 0 or len(str(whole).rstrip("0")) == 1:
        return 2
    return int(whole % 16 == 0)


def _clear(positions: list[float], widths: list[float], kept: list[int], gap: float) -> bool:
    """Return whether the labels `kept` stand clear of each other."""
    return all(
        positions[one] + widths[one] / 2 + gap <= positions[two] - widths[two] / 2
        for one, two in pairwise(kept)
    )
