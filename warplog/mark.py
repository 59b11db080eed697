"""The marks of a figure: a point a workload, a series a subject, a panel a device.

The rule kept here: a mark is the median of its runs with their spread. Nothing but types.
"""

from msgspec import Struct

from warplog.record import Interval, Workload


class Point(Struct, frozen=True):
    """One mark: the median run, the interval of all `runs`, and the workload that it is of.

    `label` is its size on the axis as it is spelled, `x` the same as a number (0 where it is none);
    `noise` is the baseline against itself there.
    """

    x: float
    label: str
    middle: float
    interval: Interval
    runs: int
    workload: Workload
    noise: Interval | None = None


class Series(Struct, frozen=True):
    """The marks of one subject; a muted one is a baseline, and a line breaks at its `gaps`.

    Where there are no marks, `missing` says why it was not measured, or it is empty: then it failed.
    """

    subject: str
    points: tuple[Point, ...]
    gaps: tuple[float, ...] = ()
    muted: bool = False
    missing: str = ""


class Failure(Struct, frozen=True):
    """A subject that has no mark at a workload because it failed there."""

    subject: str
    label: str
    workload: Workload


class Bound(Struct, frozen=True):
    """What a device allows: the floor of each workload, or one ceiling, a single point.

    Where there is none, `missing` says why.
    """

    name: str
    points: tuple[Point, ...]
    missing: str = ""


class Panel(Struct, frozen=True):
    """What one device measured of a figure: its series, in the order in which they were asked, where
    a subject failed, which is said because it is not drawn, and the bound, if one was asked for.

    Of a device that is not drawn, `missing` says why, and there is nothing else.
    """

    device: str
    unit: str = ""
    series: tuple[Series, ...] = ()
    failed: tuple[Failure, ...] = ()
    bound: Bound | None = None
    missing: str = ""
