"""A quantity as it was measured, run by run: on one workload, or as the mean of several. Pure.

The rule kept here: a mean is taken within each run, so that what a run shares cannot widen it; what has no
mean is said to have none.
"""

import math
from typing import Literal

from msgspec import Struct

from warplog.record import Interval, Workload

_DIGITS = 12
Mean = Literal["arithmetic", "geometric"]


class Reading(Struct, frozen=True):
    """A quantity on one workload, or the `mean` of several: the value of each run, in `unit`.

    The `workload` of a mean is what its workloads have in common, as the quantity names it; `workloads`
    is how many they are.
    """

    workload: Workload
    unit: str
    runs: tuple[float, ...]
    noise: Interval | None = None
    mean: Mean | None = None
    workloads: int = 1

    @property
    def interval(self) -> Interval:
        """From the lowest run to the highest."""
        return Interval.of(list(self.runs))


class Unmeasured(Exception):
    """The record holds no such quantity; the message says what is missing, for a person."""


def mean_of(found: tuple[Reading, ...], kind: Mean, workload: Workload) -> Reading:
    """Return the mean of readings, run by run, under the name `workload`, or raise Unmeasured where they
    have none. It has twelve digits, so that the mean of equal numbers is that number.
    """
    lengths = {len(each.runs) for each in found}
    if len(lengths) > 1:
        message = f"measured in {min(lengths)} and in {max(lengths)} runs, which do not pair"
        raise Unmeasured(message)
    units = list(dict.fromkeys(each.unit for each in found))
    if len(units) > 1:
        message = f"measured in {' and in '.join(units)}, of which there is no mean"
        raise Unmeasured(message)
    if kind == "geometric" and min(min(each.runs) for each in found) <= 0:
        message = "not every value is above zero, as a geometric mean needs"
        raise Unmeasured(message)
    rows = list(zip(*(each.runs for each in found), strict=True))
    if kind == "geometric":
        means = [math.exp(math.fsum(map(math.log, row)) / len(row)) for row in rows]
    else:
        means = [math.fsum(row) / len(row) for row in rows]
    runs = tuple(float(f"{value:.{_DIGITS}g}") for value in means)
    return Reading(workload, units[0], runs, _noise(found), kind, len(found))


def _noise(found: tuple[Reading, ...]) -> Interval | None:
    """Return how far the mean of the A/A ratios can lie from one: their mean distance. None where a
    reading has none.
    """
    widths = [each.noise.high - 1 for each in found if each.noise is not None]
    if len(widths) < len(found):
        return None
    width = math.fsum(widths) / len(widths)
    return Interval(1 - width, 1 + width)
