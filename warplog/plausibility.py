"""What a machine may have measured but does not: samples without spread, copied runs, a date to come, what
another record has already. Pure.

The rule kept here: a coarse clock gives equal samples of short calls, so these alone are no finding; equal
samples of long calls are, and so are equal samples nearly everywhere.
"""

import statistics
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from warplog.physics import AGAIN, Found, named
from warplog.quantity import AA_METRIC, filed
from warplog.record import Measurement, Record
from warplog.sound import TIMES
from warplog.unit import pretty

RUNS = 6
_COARSE = 1e-4
_MANY = 0.5
_SAMPLES = 5
_AHEAD = timedelta(minutes=5)
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_SHOWN = 3
_APART_FROM_ITSELF = 0.1
_ONE_RATIO, _VARIES = 0.001, 0.005
_READINGS = ("sm_mhz", "memory_mhz", "celsius", "watts")
_READINGS_AT_LEAST = 4


def unlikely(record: Record, now: datetime) -> Found:
    """Yield the steps to each value that nobody measures, what is wrong, and what to do about it."""
    yield from _date(record, now)
    if record.protocol.runs < RUNS:
        problem = f"protocol: {record.protocol.runs} runs are too few to publish"
        yield ["protocol", "runs"], problem, f"measure again with {RUNS} or more"
    timed = [
        (index, each)
        for index, each in enumerate(record.measurements)
        if each.metric in TIMES and each.runs
    ]
    yield from _flat(timed)
    yield from _copied(timed)
    yield from _unlike_itself(record)


def repeated(record: Record, known: Iterable[tuple[str, Record]]) -> Found:
    """Yield what a record shares with one of the `known`, by place, that no two measurements share."""
    own = _clock_readings(record)
    for place, other in known:
        if record.recorded == other.recorded:
            yield ["recorded"], f"recorded: the very second of {place}", AGAIN
        if len(own) >= _READINGS_AT_LEAST and own == _clock_readings(other):
            problem = f"clocks: every clock, temperature and power is that of {place}"
            yield ["environment", "clocks"], problem, AGAIN
        if record.artifact == other.artifact and (ratio := _one_ratio(record, other)):
            problem = f"the latencies, run by run, are {ratio:.4g} times those of {place}"
            yield ["measurements"], problem, AGAIN


def _clock_readings(record: Record) -> list[tuple[str, object]]:
    """Return all that the card said of its clocks, temperature and power, in order."""
    return [
        (key, value)
        for reading in record.environment.clocks
        for key, value in reading.items()
        if key.startswith(_READINGS) and isinstance(value, int | float)
    ]


def _one_ratio(record: Record, other: Record) -> float | None:
    """Return what most latencies that vary between runs are a constant multiple by, run by run: as two
    measurements never are.
    """
    theirs = {
        (each.metric, each.subject, *sorted(map(str, each.workload.items()))): each.medians
        for each in other.measurements
        if each.metric in TIMES and each.runs
    }
    ratios: list[float | None] = []
    for each in record.measurements:
        key = (each.metric, each.subject, *sorted(map(str, each.workload.items())))
        medians = each.medians if each.metric in TIMES and each.runs and key in theirs else []
        if len(medians) < RUNS or max(medians) / min(medians) - 1 < _VARIES:
            continue
        found = [mine / his for mine, his in zip(medians, theirs[key], strict=False)]
        same = len(theirs[key]) == len(medians) and max(found) / min(found) - 1 <= _ONE_RATIO
        ratios.append(statistics.median(found) if same else None)
    constant = [each for each in ratios if each is not None]
    return statistics.median(constant) if len(constant) > len(ratios) / 2 else None


def _unlike_itself(record: Record) -> Found:
    """Yield each baseline that took another time than itself, timed in turns with itself."""
    for index, again in enumerate(record.measurements):
        if again.metric != AA_METRIC or not again.runs:
            continue
        for first in filed(record).get(("latency", again.subject), ()):
            if first.workload != again.workload or not first.runs:
                continue
            ratio = statistics.median(again.medians) / statistics.median(first.medians)
            if abs(ratio - 1) > _APART_FROM_ITSELF:
                problem = f"{named(again)}: {ratio:.3g} times its latency, timed in turns with it"
                yield ["measurements", str(index), "runs"], problem, AGAIN


def _date(record: Record, now: datetime) -> Found:
    remedy = "set the clock of the host, then measure again"
    try:
        then = datetime.fromisoformat(record.recorded)
    except ValueError:
        yield ["recorded"], f"recorded: {record.recorded} is no time of any day", remedy
        return
    if then < _FIRST:
        yield ["recorded"], f"recorded: {record.recorded} is before the first harness", remedy
    if then > now.astimezone(UTC) + _AHEAD:
        yield ["recorded"], f"recorded: {record.recorded} is still to come", remedy


def _flat(timed: list[tuple[int, Measurement]]) -> Found:
    """Yield the times without any spread: those of long calls, or all where half of the record is so."""
    flat = [(index, each, why) for index, each in timed if (why := _spreadless(each))]
    many = len(flat) > _MANY * len(timed)
    shown = [one for one in flat if many or min(one[1].medians) > _COARSE]
    for index, each, why in shown[:_SHOWN]:
        yield ["measurements", str(index), "runs"], f"{named(each)}: {why}", AGAIN
    if len(shown) > _SHOWN:
        problem = f"{len(shown) - _SHOWN} more times of {len(timed)} have no spread either"
        yield ["measurements"], problem, AGAIN


def _spreadless(each: Measurement) -> str:
    """Return how the samples of a time lack all spread; empty where they have some."""
    runs = each.runs or []
    values = {sample for run in runs for sample in run}
    if len(values) == 1 and sum(map(len, runs)) >= RUNS:
        return f"every sample is {pretty(values.pop(), 's')}"
    if len(runs) >= RUNS and len(set(each.medians)) == 1:
        return f"no run of {len(runs)} differs from {pretty(each.medians[0], 's')}"
    return ""


def _copied(timed: list[tuple[int, Measurement]]) -> Iterator[tuple[list[str], str, str]]:
    """Yield each run whose samples another run has too, in the same order."""
    first: dict[tuple[float, ...], str] = {}
    for index, each in timed:
        for number, run in enumerate(each.runs or []):
            if len(set(run)) < _SAMPLES:
                continue
            who = f"run {number + 1} of {named(each)}"
            known = first.setdefault(tuple(run), who)
            if known != who:
                steps = ["measurements", str(index), "runs", str(number)]
                yield steps, f"{who} has the samples of {known}", AGAIN
