"""Writes a measured number for people: SI inside, the nearest prefix outside, three digits.

The rule kept here: the digits shown never claim more than three significant ones, and whole counts
stay whole.
"""

import math

from warplog.record import Interval

_PREFIXED = {"s", "B", "B/s", "op/s", "1/s", "W", "Hz"}
_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
_NAMES = {"op/s": "OP/s", "1/s": "/s", "ratio": "×", "fraction": "%"}
_TIGHT = {"×"}


def pretty(value: float, unit: str) -> str:
    """Write `value` in `unit`: ``3.31e-05, "s"`` is ``33.1 µs``; ``12.4, "ratio"`` is ``12.4×``."""
    digits, suffix = _scaled(value, unit, value)
    return _join(digits, suffix)


def pretty_interval(interval: Interval, unit: str) -> str:
    """Write an interval with one unit: ``33.1–33.9 µs``; both ends share the prefix of the larger."""
    largest = max(abs(interval.low), abs(interval.high))
    low, suffix = _scaled(interval.low, unit, largest)
    high, _ = _scaled(interval.high, unit, largest)
    return _join(low if low == high else f"{low}\u2013{high}", suffix)


def _scaled(value: float, unit: str, largest: float) -> tuple[str, str]:
    """Return the digits of `value` and its unit, with the prefix that suits `largest`."""
    if unit == "fraction":
        return _digits(value * 100), "%"
    name = _NAMES.get(unit, unit)
    if unit not in _PREFIXED or largest == 0:
        return _digits(value), name
    power = 3 * math.floor(math.log10(abs(largest)) / 3)
    power = min(max(power, min(_PREFIXES)), max(_PREFIXES))
    if unit == "s":
        power = min(power, 0)
    rounded = _three(abs(largest) / 10.0**power)
    if rounded >= 1000 and power + 3 in _PREFIXES and not (unit == "s" and power == 0):
        power += 3
    return _digits(value / 10.0**power), _PREFIXES[power] + name


def _digits(value: float) -> str:
    """Write three significant digits; whole numbers below a million stay whole."""
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{int(value):,}".replace(",", "\u202f") if abs(value) >= 10_000 else str(int(value))
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        places = max(0, 2 - math.floor(math.log10(_three(abs(value))))) if value else 0
        return f"{value:.{places}f}"
    return f"{value:.2e}"


def _three(value: float) -> float:
    """Round to three significant digits, so that 9.999 counts as 10.0."""
    return float(f"{value:.3g}")


def _join(digits: str, suffix: str) -> str:
    return f"{digits}{suffix}" if suffix in _TIGHT or not suffix else f"{digits} {suffix}"
