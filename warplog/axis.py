"""What is written along the axes of a chart: short numbers with one unit, and the axis in words.

The rule kept here: the unit is said once, in the axis title, where one prefix suits every tick; a number
on a tick is as short as it can be without being another one; fractions are percents unless a tick would
be below 0.01 %: then all are plain numbers, as beside the axis. Pure.
"""

import re

from msgspec import Struct

from warplog.scale import Domain
from warplog.unit import prefixed, pretty

_PLAIN = re.compile(r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*\Z")
_PADDING = re.compile(r"e(?:\+|(-))0*")
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
_SHORT_FROM, _SHORT_TO, _SMALL = 1e4, 1e15, 1e-4
_FAR_APART = 1e5
_LEADING_ZEROS = 3


class Axis(Struct, frozen=True):
    """A domain, the words of its ticks, and the title that stands along it; `by` is what the unit
    in the title is, in SI units.
    """

    domain: Domain
    words: tuple[str, ...]
    title: str
    by: float = 1.0


def words_of(name: str) -> str:
    """Return the name of a metric or a size in words: ``row_bytes`` is ``row bytes``."""
    return name.replace("_", " ") if _PLAIN.match(name) else name


def value_axis(domain: Domain, unit: str, name: str) -> Axis:
    """Return the axis of a metric in `unit`; `name` says in words what it is."""
    ticks = domain.ticks
    if unit == "ratio":
        return Axis(domain, tuple(f"{number(tick)}×" for tick in ticks), name)
    sizes = [abs(tick) for tick in ticks if tick] or [0.0]
    decisive = (min(sizes),) if unit == "fraction" else (max(sizes), min(sizes))
    ends = dict.fromkeys(prefixed(unit, size) for size in decisive)
    if len(ends) > 1 and max(sizes) >= _FAR_APART * min(sizes):
        return Axis(domain, tuple(pretty(tick, unit) for tick in ticks), name)
    tried = [
        Axis(
            domain,
            tuple(number(tick / by) for tick in ticks),
            f"{name}, {said}" if said else name,
            by,
        )
        for by, said in ends
    ]
    return min(tried, key=lambda each: sum(map(_length, each.words)))


def _length(words: str) -> int:
    """Return how long a number is to read: one that begins with 0.0 is worse than its length."""
    return len(words) + (_LEADING_ZEROS if words.startswith("0.0") else 0)


def number(value: float) -> str:
    """Write a round number as short as it can be: ``0.5``, ``2000``, ``20k``, ``1e-5``."""
    size = abs(value)
    if size and not _SMALL <= size < _SHORT_TO:
        return _PADDING.sub(r"e\1", f"{value:.4g}")
    if size >= _SHORT_FROM:
        by, suffix = next(each for each in _SUFFIXES if size >= each[0])
        return f"{value / by:.6g}{suffix}"
    return f"{value:.6g}"


def amount(value: float, unit: str, axis: Axis) -> str:
    """Write a value beside its mark; a unit that the axis says is left out."""
    return pretty(value, unit) if unit in ("ratio", "fraction") else pretty(value / axis.by, "")


def size_words(sizes: list[float]) -> list[str]:
    """Write the sizes that were measured: in Ki or in k where all large ones are whole multiples."""
    large = [size for size in sizes if abs(size) >= _SHORT_FROM]
    if large and all(size % 1024 == 0 for size in sizes if abs(size) >= 1024):  # noqa: PLR2004
        return [_binary(size) for size in sizes]
    if large and all(size % 1000 == 0 for size in large):
        return [number(size) for size in sizes]
    return [pretty(size, "") if size.is_integer() else f"{size:.4g}" for size in sizes]


def _binary(size: float) -> str:
    for by, suffix in _BINARY:
        if size and size % by == 0:
            return f"{number(size / by)}{suffix}"
    return number(size)
