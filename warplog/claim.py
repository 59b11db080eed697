"""Claims and verdicts. Pure: records in, verdicts out.

The rule kept here: a claim is judged by the spread of its runs, not by their middle, and a claim about
several workloads is refuted by any one of them; one about their mean is judged by the spread of the mean.
"""

import math
from enum import StrEnum

from msgspec import Struct

from warplog.quantity import Quantity, readings
from warplog.reading import Mean, Reading, Unmeasured
from warplog.record import Interval, Number, Record, compact
from warplog.sound import usable


class Verdict(StrEnum):
    """What the evidence says of a claim."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    UNTESTED = "untested"


class Reported(Struct, frozen=True, forbid_unknown_fields=True):
    """What the original author reported: `value` in SI units, or words where it is a range."""

    value: Number | str
    device: str
    by: str
    url: str | None = None


class Claim(Quantity, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One falsifiable sentence with a quantity and bounds.

    `cause` says in a line why it did not hold, for a claim that is refuted.
    """

    says: str
    at_least: Number | None = None
    at_most: Number | None = None
    equals: Number | None = None
    between: tuple[Number, Number] | None = None
    reported: Reported | None = None
    cause: str | None = None

    @property
    def bounds(self) -> Interval:
        """The values under which the claim holds; open ends are infinite.

        A bound that is not whole is rounded to six significant digits, as the numbers of a record are:
        ``equals: 0.1234567`` holds where 0.123457 was measured. A bound too large for arithmetic is
        infinite.
        """
        if self.equals is not None:
            return Interval(_bound(self.equals), _bound(self.equals))
        if self.between is not None:
            return Interval(_bound(self.between[0]), _bound(self.between[1]))
        low = -math.inf if self.at_least is None else _bound(self.at_least)
        high = math.inf if self.at_most is None else _bound(self.at_most)
        return Interval(low, high)


def _bound(value: Number) -> float:
    if not usable(value):
        return math.inf if value > 0 else -math.inf if value < 0 else math.nan
    return float(compact(value))


class Judgement(Struct, frozen=True):
    """The verdict on one claim on one device, with what it rests on or why it rests on nothing."""

    verdict: Verdict
    readings: tuple[Reading, ...] = ()
    reason: str = ""

    @property
    def interval(self) -> Interval | None:
        """The hull of all workloads, or None where nothing was measured."""
        if not self.readings:
            return None
        return Interval.of([value for reading in self.readings for value in reading.runs])

    @property
    def workloads(self) -> int:
        """The number of workloads behind the readings."""
        return sum(reading.workloads for reading in self.readings)

    @property
    def mean(self) -> Mean | None:
        """The mean that the reading is of its workloads, None where each stands for itself."""
        return self.readings[0].mean if self.readings else None

    @property
    def span(self) -> str:
        """How the readings span workloads: ``over 3 workloads``, ``geometric mean of 23 workloads``;
        empty for a single one that is no mean.
        """
        count = "one workload" if self.workloads == 1 else f"{self.workloads} workloads"
        if self.mean is not None:
            return f"{self.mean} mean of {count}"
        return f"over {count}" if self.workloads > 1 else ""

    @property
    def runs(self) -> int:
        """The number of runs behind the reading that has the fewest; 0 where there are none."""
        return min((len(reading.runs) for reading in self.readings), default=0)

    @property
    def unit(self) -> str:
        """The unit of the readings; empty where there are none."""
        return self.readings[0].unit if self.readings else ""

    @property
    def within_noise(self) -> bool:
        """True where every reading lies inside the spread of the baseline against itself."""
        return bool(self.readings) and all(_is_noise(reading) for reading in self.readings)


def judge(claim: Claim, record: Record | None, ceilings: Record | None) -> Judgement:
    """Return the verdict on `claim` from `record`: fresh, or None where there is none."""
    if record is None:
        return Judgement(Verdict.UNTESTED, reason="no record from this very source")
    try:
        found = readings(claim, record, ceilings)
    except Unmeasured as reason:
        return Judgement(Verdict.UNTESTED, reason=str(reason))
    return weigh(claim, found)


def weigh(claim: Claim, found: tuple[Reading, ...]) -> Judgement:
    """Return the verdict on `claim` from its readings, of which there is at least one."""
    verdicts = {compare(reading.interval, claim.bounds) for reading in found}
    if Verdict.REFUTED in verdicts:
        return Judgement(Verdict.REFUTED, found)
    if verdicts == {Verdict.SUPPORTED}:
        return Judgement(Verdict.SUPPORTED, found)
    return Judgement(Verdict.INCONCLUSIVE, found)


def compare(measured: Interval, bounds: Interval) -> Verdict:
    """Return how two intervals lie: inside is supported, apart is refuted, astride inconclusive."""
    if bounds.low <= measured.low and measured.high <= bounds.high:
        return Verdict.SUPPORTED
    if measured.high < bounds.low or measured.low > bounds.high:
        return Verdict.REFUTED
    return Verdict.INCONCLUSIVE


def _is_noise(reading: Reading) -> bool:
    noise = reading.noise
    return noise is not None and compare(reading.interval, noise) is Verdict.SUPPORTED
