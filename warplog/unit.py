"""Writes a measured number for people: SI inside, the nearest prefix outside, three digits.

The rule kept here: the digits shown never claim more than three significant ones, except that whole
counts stay whole and that a fraction close to 1 has the digits that tell it from 100 %: 99.999 %.
A fraction below 0.01 % is a plain number: 1e-6.
From 10 000 on, thousands stand apart.
What is counted is singular for exactly 1 and plural otherwise, also where Nsight Compute names it in the
singular (``sector``); in ``lists a row`` and ``register/thread`` it is what stands first.
Where Nsight Compute names no unit a record has ``count``, and the number stands alone.
"""

import math
import re
from collections.abc import Callable

from warplog.record import Interval

_PREFIXED = {"s", "B", "B/s", "op/s", "1/s", "W", "Hz"}
_PREFIXES = dict(
    zip(range(-18, 31, 3), ["a", "f", "p", "n", "µ", "m", "", *"kMGTPEZYRQ"], strict=True)
)
_SMALLEST, _LARGEST = min(_PREFIXES), max(_PREFIXES)
_NAMES = {"op/s": "OP/s", "1/s": "/s", "ratio": "×", "fraction": "%", "count": ""}
_NO_COUNTS = {*_PREFIXED, "ratio", "fraction"}
_TIGHT = {"×"}
_GROUPED_FROM, _WRITTEN_OUT_TO = 10_000, 1e15
_ROUNDS_TO_THOUSAND, _SMALLEST_PLAIN = 999.5, 1e-3
_SMALLEST_PERCENT = 1e-4
_PLURAL = re.compile(r"(?:[a-z][\w-]* )*(?:[A-Z]{2,}|[a-z][\w-]+[^\Wsui])s\Z")
_IRREGULAR = {
    "caches": "cache",
    "indices": "index",
    "matrices": "matrix",
    "series": "series",
    "vertices": "vertex",
}
_NSIGHT = {
    *("block", "byte", "cycle", "instruction", "register"),
    *("request", "sector", "thread", "warp", "wavefront"),
}
_EACH = re.compile(r"(.+?)( (?:a|an|per|of|in) .+|/.+)?\Z")
_LONGER = re.compile(r"(?:ch|sh|ss|x)es\Z")


def pretty(value: float, unit: str) -> str:
    """Write `value` in `unit`: ``3.31e-05, "s"`` is ``33.1 µs``; ``12.4, "ratio"`` is ``12.4×``."""
    digits, suffix = _scaled(value, unit, value)
    return _join(digits, suffix, unit)


def pretty_interval(interval: Interval, unit: str) -> str:
    """Write an interval with one unit: ``33.1–33.9 µs``; both ends share the prefix of the larger.

    From below zero it is ``-5 to -3 degrees``, as a dash would be a second minus.
    """
    largest = max(abs(interval.low), abs(interval.high))
    low, suffix = _scaled(interval.low, unit, largest)
    high, _ = _scaled(interval.high, unit, largest)
    if _whole(low) == _whole(high):  # 15 and 15.04 are both 15.0
        return _join(max(low, high, key=len), suffix, unit)
    between = " to " if low.startswith("-") else "\u2013"
    return _join(f"{low}{between}{high}", suffix, unit)


def _whole(digits: str) -> str:
    """Return the digits of a whole number without the zeros that follow its point."""
    whole, _, rest = digits.partition(".")
    return digits if rest.strip("0") else whole


def prefixed(unit: str, size: float) -> tuple[float, str]:
    """Return what divides a value in `unit`, and the unit's name with the prefix, that suit `size`:
    ``"s", 3.3e-05`` is ``1e-06, "µs"``; a fraction is in percent, or below 0.01 % a plain number.
    """
    if unit == "fraction":
        return (1.0, "") if 0 < abs(size) < _SMALLEST_PERCENT else (0.01, "%")
    name = _NAMES.get(unit, unit)
    if unit not in _PREFIXED or size == 0:
        return 1.0, name if unit in _NO_COUNTS else _counted(name, _plural)
    power = _power(unit, size)
    return 10.0**power, _PREFIXES[power] + name


def _scaled(value: float, unit: str, largest: float) -> tuple[str, str]:
    """Return the digits of `value` and its unit, with the prefix that suits `largest`."""
    if unit == "fraction":
        small = 0 < abs(largest) < _SMALLEST_PERCENT
        return (_power_of_ten(value), "") if small else (_percent(value), "%")
    name = _NAMES.get(unit, unit)
    if unit not in _PREFIXED or largest == 0:
        return _digits(value, count=unit not in _NO_COUNTS), name
    power = _power(unit, largest)
    return _digits(value / 10.0**power), _PREFIXES[power] + name


def _power(unit: str, largest: float) -> int:
    """Return the power of ten of the prefix that suits `largest`, 0 where none reaches it."""
    power = 3 * math.floor(math.log10(abs(largest)) / 3)
    if not _SMALLEST - 3 <= power <= _LARGEST:
        return 0
    if abs(largest) / 10.0**power >= _ROUNDS_TO_THOUSAND:
        power += 3
    if unit == "s":
        power = min(power, 0)
    return power if power in _PREFIXES else 0


def _percent(value: float) -> str:
    """Write a fraction in percent. Only 1 is 100 and only 0 is 0: what is close to 1 gets more digits."""
    digits = _digits(value * 100)
    if value == 1 or digits != "100":
        return digits
    tries = (f"{value * 100:.{places}f}" for places in range(1, 16))
    return next((words for words in tries if float(words) != 100), digits)


def _power_of_ten(value: float) -> str:
    """Write a number far below one: ``1e-6``, ``1.23e-7``; zero as 0."""
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{_whole(digits)}e{int(power)}" if value else "0"


def _digits(value: float, *, count: bool = False) -> str:
    """Write three significant digits; a whole number below a thousand, or a whole `count`, whole."""
    size = abs(value)
    if float(value).is_integer() and size < (_WRITTEN_OUT_TO if count else 1000):
        return _grouped(int(value))
    if _SMALLEST_PLAIN <= size < _ROUNDS_TO_THOUSAND:
        return f"{value:#.3g}".rstrip(".")
    rounded = _three(size)
    if not _SMALLEST_PLAIN <= rounded < _WRITTEN_OUT_TO:
        return f"{value:.2e}"
    if rounded >= 1000:
        return _grouped(int(_three(value)))
    return f"{value:.{max(0, 2 - math.floor(math.log10(rounded)))}f}"


def _grouped(value: int) -> str:
    """Write a whole number; from 10 000 on with a narrow space between thousands."""
    return f"{value:,}".replace(",", "\u202f") if abs(value) >= _GROUPED_FROM else str(value)


def _three(value: float) -> float:
    """Round to three significant digits, so that 9.999 counts as 10.0."""
    return float(f"{value:.3g}")


def _join(digits: str, suffix: str, unit: str) -> str:
    if unit not in _NO_COUNTS:
        suffix = _counted(suffix, _singular if digits == "1" else _plural)
    return f"{digits}{suffix}" if suffix in _TIGHT or not suffix else f"{digits} {suffix}"


def _counted(unit: str, number: Callable[[str], str]) -> str:
    """Return `unit` with what is counted in the given number: in ``lists a row`` the lists."""
    found = _EACH.match(unit)
    return number(found[1]) + (found[2] or "") if found else unit


def _plural(unit: str) -> str:
    """Return the name of several of `unit`, where it is a singular noun of Nsight Compute's."""
    return f"{unit}s" if unit in _NSIGHT else unit


def _singular(unit: str) -> str:
    """Return the name of one of `unit`, where it is a plural noun: ``kernels``, ``mismatches``."""
    if unit in _IRREGULAR:
        return _IRREGULAR[unit]
    if not _PLURAL.match(unit):
        return unit
    if unit.endswith("ies"):
        return unit[:-3] + "y"
    return unit[:-2] if _LONGER.search(unit) else unit[:-1]
