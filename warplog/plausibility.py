"""What a machine may have measured but does not: samples without spread, copied runs, a date to come. Pure.

The rule kept here: a coarse clock gives equal samples of short calls, so these alone are no finding; equal
samples of long calls are, and so are equal samples nearly everywhere.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from warplog.physics import AGAIN, Found, named
from warplog.record import Measurement, Record
from warplog.sound import TIMES
from warplog.unit import pretty

RUNS = 6
_COARSE = 1e-4
_MANY = 0.5
_SAMPLES = 5
_AHEAD = timedelta(minutes=5)
_SHOWN = 3


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


def _date(record: Record, now: datetime) -> Found:
    remedy = "set the clock of the host, then measure again"
    try:
        then = datetime.fromisoformat(record.recorded)
    except ValueError:
        yield ["recorded"], f"recorded: {record.recorded} is no time of any day", remedy
        return
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
