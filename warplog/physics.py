"""What no machine can have measured: times below the floor, impossible clocks, more time than passed. Pure.

The rule kept here: a time is held against what the record says of its device and against what that device is
known to do from records that are published already, never against a datasheet; only a name is held to one.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from warplog.quantity import ceiling, filed
from warplog.reading import Unmeasured
from warplog.record import Measurement, Record
from warplog.sound import TIMES
from warplog.unit import pretty
from warplog.workload import spell

Steps = list[str]
Found = Iterator[tuple[Steps, str, str]]

CPU = "cpu"
_MARGIN = 1.03  # one day's ceilings lie within a hundredth of another's
_SAME = 0.01
_LIMITS = {"sm_mhz": (1, 5_000), "memory_mhz": (1, 25_000), "celsius": (-20, 125)}
_WATTS_AT_MOST = 2.0  # of the limit: a peak may pass it for a moment
_MADE = {  # name: least and most bytes of memory and bytes a second of its pins, by its maker's pages
    # nvidia.com/en-us/data-center/h100: 80 GB at 3.35 TB/s as SXM, at 2 TB/s as PCIe
    re.compile(r"\bH100\b.*\b80GB\b"): ((78e9, 87e9), (1.9e12, 3.4e12)),
    # nvidia.com/en-us/data-center/h200: 141 GB at 4.8 TB/s, as SXM and as NVL; torch sees 150e9 bytes
    re.compile(r"\bH200\b"): ((139e9, 152e9), (4.7e12, 4.9e12)),
}
_MADE_KEYS = ("memory_bytes", "pin_bandwidth")
_PART = "MIG"
_EVENTS = "two events"
_OWN_DOING = "power cap"  # which a kernel brings about by itself
AGAIN = "measure again, with --publish"


def impossible(record: Record, ceilings: Record | None, peers: Sequence[Record]) -> Found:
    """Yield the steps to each value that cannot have been measured, what is wrong, and what to do.

    `ceilings` is the record that this device's floors come from, `peers` are published records of the same
    device; both only where there are any.
    """
    yield from _device(record, peers)
    yield from _clocks(record)
    yield from _undisturbed(record)
    yield from _duration(record)
    rates = _rates(record, ceilings)
    empty = _between_events(ceilings)
    for index, each in enumerate(record.measurements):
        if each.metric in TIMES and each.runs:
            steps = ["measurements", str(index), "runs"]
            for problem in _too_fast(each, record, rates):
                yield steps, f"{named(each)}: {problem}", AGAIN
            if min(each.medians) < empty:
                took, least = pretty(min(each.medians), "s"), pretty(empty, "s")
                problem = f"{took}, and two events with nothing between them are {least} apart"
                yield steps, f"{named(each)}: {problem}", AGAIN


def named(measurement: Measurement) -> str:
    """Return a measurement as a finding calls it: metric, subject and workload."""
    where = spell(measurement.workload)
    return f"{measurement.metric} of {measurement.subject!r}{' on ' + where if where else ''}"


def _device(record: Record, peers: Sequence[Record]) -> Found:
    gpu = record.environment.gpu
    if (gpu is None) != (record.device == CPU):
        yield ["device"], f"device: {record.device!r}, but gpu says otherwise", AGAIN
        return
    if gpu is None:
        return
    slug = re.sub(r"[^a-z0-9]+", "-", str(gpu.get("name", "")).lower()).strip("-")
    if slug != record.device:
        problem = f"device: {record.device!r} is not the gpu's {gpu.get('name')!r}"
        yield ["device"], problem, f"a record of this gpu is one of {slug!r}"
    unlike = list(_unlike_its_name(gpu))
    yield from unlike
    pins, known = gpu.get("pin_bandwidth"), None if unlike else _pins(peers)
    if isinstance(pins, int | float) and known and abs(pins / known - 1) > _SAME:
        problem = (
            f"pin_bandwidth: {pretty(pins, 'B/s')}, but {pretty(known, 'B/s')} in other records"
        )
        yield ["environment", "gpu", "pin_bandwidth"], problem, AGAIN


def _unlike_its_name(gpu: dict[str, Any]) -> Found:
    """Yield the memory and the pins that no whole card of that name has, where the name is known."""
    name = str(gpu.get("name", ""))
    for pattern, bounds in _MADE.items():
        if not pattern.search(name) or _PART in name:
            continue
        for key, unit, (low, high) in zip(_MADE_KEYS, ("B", "B/s"), bounds, strict=True):
            value = gpu.get(key)
            if isinstance(value, int | float) and not low <= value <= high:
                problem = f"{key}: {pretty(value, unit)}, which no {name[:80]} has"
                yield ["environment", "gpu", key], problem, AGAIN


def _pins(records: Sequence[Record]) -> float | None:
    """Return the bandwidth of this device's pins as published records have it, the newest first."""
    for each in sorted(records, key=lambda one: one.recorded, reverse=True):
        found = (each.environment.gpu or {}).get("pin_bandwidth")
        if isinstance(found, int | float) and found > 0:
            return float(found)
    return None


def _clocks(record: Record) -> Found:
    """Yield each reading of clock, temperature or power that no such card gives."""
    watts = (record.environment.gpu or {}).get("watts_limit")
    limits = dict(_LIMITS)
    if isinstance(watts, int | float):
        limits["watts"] = (0, int(_WATTS_AT_MOST * watts))
    for index, reading in enumerate(record.environment.clocks):
        for key, value in reading.items():
            low, high = limits.get(re.sub("_(least|most)$", "", key), (value, value))
            if not isinstance(value, int | float):
                continue
            if not low <= value <= high or _upside_down(reading, key):
                problem = f"{key}: {value} is impossible"
                yield ["environment", "clocks", str(index), key], problem, AGAIN


def _upside_down(reading: dict[str, Any], key: str) -> bool:
    """Return whether `key` is the least of something whose most is less."""
    most = reading.get(key.replace("_least", "_most"))
    return key.endswith("_least") and isinstance(most, int | float) and most < reading[key]


def _undisturbed(record: Record) -> Found:
    """Yield a finding where the clocks tell of a disturbance that the record leaves unsaid."""
    seen: set[str] = set()
    for reading in record.environment.clocks:
        slowed, others = reading.get("slowed"), reading.get("others")
        seen |= {str(each) for each in slowed} if isinstance(slowed, list) else set()
        seen |= {"other processes on the GPU"} if isinstance(others, int) and others > 0 else set()
    unsaid = sorted(seen - {_OWN_DOING})
    if unsaid and not record.disturbed:
        problem = f"disturbed: says nothing, but the clocks saw {', '.join(unsaid)}"
        yield ["disturbed"], problem, AGAIN


def _duration(record: Record) -> Found:
    """Yield a finding where the times together are longer than the whole reproduction."""
    timed = sum(
        sum(run) for each in record.measurements if each.metric in TIMES for run in each.runs or []
    )
    if timed > record.seconds:
        problem = f"seconds: {record.seconds}, but its samples last {pretty(timed, 's')}"
        yield ["seconds"], problem, AGAIN


def _rates(record: Record, ceilings: Record | None) -> dict[str, tuple[float, str]]:
    """Return what bounds the device by what it bounds, with the words for it: pins, measured ceilings."""
    pins = (record.environment.gpu or {}).get("pin_bandwidth")
    found: dict[str, tuple[float, str]] = {}
    if isinstance(pins, int | float) and pins > 0:
        found["pins"] = (float(pins), "its pins")
    if ceilings is not None:
        try:
            best = ceiling(ceilings, "bandwidth") * _MARGIN
            found["traffic"] = (best, "the measured ceiling")
        except Unmeasured:
            pass
        works = [
            each.work / min(each.medians)
            for each in ceilings.measurements
            if each.metric == "latency" and each.runs and each.work
        ]
        if works:
            found["work"] = (max(works) * _MARGIN, "the measured ceiling")
    return found


def _between_events(ceilings: Record | None) -> float:
    """Return the least seconds that two events were measured apart on this device, 0 where none were."""
    found = [] if ceilings is None else filed(ceilings).get(("device_time", _EVENTS), [])
    samples = [sample for each in found for run in each.runs or [] for sample in run]
    return min(samples, default=0.0) / _MARGIN


def _too_fast(
    each: Measurement, record: Record, rates: dict[str, tuple[float, str]]
) -> Iterator[str]:
    """Yield why a time is below the floor: its fastest sample by the pins, its median by a ceiling."""
    samples = [sample for run in each.runs or [] for sample in run]
    for kind, (rate, whose) in rates.items():
        fastest = min(samples) if kind == "pins" else min(each.medians)
        amount = each.work if kind == "work" else _crossing(each, record)
        if amount and fastest < amount / rate:
            least, unit = amount / rate, "op/s" if kind == "work" else "B/s"
            yield (
                f"{pretty(fastest, 's')} is below the {pretty(least, 's')} that {whose} of "
                f"{pretty(rate, unit)} allow{'' if kind == 'pins' else 's'}"
            )
            return


def _crossing(each: Measurement, record: Record) -> float:
    """Return the bytes of one call that must cross the memory's pins: a cold call can leave at most an L2
    full of writes behind; a warm one may find all of them there.
    """
    if not each.traffic or each.cache == "warm":
        return 0.0
    spared = record.protocol.flush_bytes / 2
    size = (record.environment.gpu or {}).get("l2_bytes")
    return max(0.0, each.traffic - min(spared, size if isinstance(size, int | float) else spared))
