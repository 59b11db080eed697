"""The conditions that a record was measured under, as labelled facts in plain text.

The rule kept here: what a record does not say is said to be missing, never guessed; units are written as
people write them. Pure: what shows them escapes them.
"""

from collections.abc import Callable
from typing import Any

from warplog.record import Record

MISSING = "not stated"
SHORT = 12
_MINUTE = 60
_MEBI = 1024**2
_OWN_ROWS = {"cuda", "torch", "triton"}

Fact = Callable[[Record], str]


def duration(seconds: float) -> str:
    """Write how long a reproduction takes, as a person would say it."""
    if round(seconds) <= 1:
        return "a second"
    if seconds < 2 * _MINUTE:
        return f"{round(seconds)} seconds"
    return f"{round(seconds / _MINUTE)} minutes"


def package(record: Record, name: str) -> str:
    """Return the version of a package; empty where the record has none."""
    return record.environment.packages.get(name, "")


def _version(name: str) -> Fact:
    return lambda record: package(record, name) or MISSING


def _about_gpu(key: str, unit: str = "", divide_by: float = 1) -> Fact:
    """Return a fact of the GPU: a number in `unit`, or a text as it stands."""

    def fact(record: Record) -> str:
        value = (record.environment.gpu or {}).get(key)
        if value is None:
            return ""
        shown = f"{value / divide_by:.4g}" if isinstance(value, int | float) else str(value)
        return f"{shown} {unit}".strip()

    return fact


def _name(record: Record) -> str:
    gpu = record.environment.gpu
    if gpu is None:
        return "none: correctness only"
    return str(gpu.get("name", "")).strip() or record.device


def _spread_of(key: str, unit: str) -> Fact:
    """Return the least and the most that was read of one clock, temperature or power."""

    def fact(record: Record) -> str:
        readings = record.environment.clocks
        busy = _numbers(readings, f"{key}_least", f"{key}_most")
        found = busy or _numbers(readings, key)
        if not found:
            return MISSING
        low, high = f"{min(found):.0f}", f"{max(found):.0f}"
        when = "while busy" if busy else "before and after"
        span = low if low == high else f"{low}\u2013{high}"
        return f"{span} {unit}, {when}"

    return fact


def _numbers(readings: list[dict[str, Any]], *keys: str) -> list[float]:
    found = (each.get(key) for each in readings for key in keys)
    return [value for value in found if isinstance(value, int | float)]


def _slowed(record: Record) -> str:
    lists = (each.get("slowed") for each in record.environment.clocks)
    found = sorted({str(one) for each in lists if isinstance(each, list) for one in each})
    return ", ".join(found) or "nothing seen"


def _packages(record: Record) -> str:
    return _pairs(
        {
            name: version
            for name, version in record.environment.packages.items()
            if name not in _OWN_ROWS
        }
    )


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(values.items()))


def _commit(record: Record) -> str:
    source = record.source
    if source.commit is None:
        return MISSING
    state = {True: " (the artifact was modified)", False: "", None: " (as stated)"}
    return source.commit[:SHORT] + state[source.modified]


def _source(record: Record) -> str:
    files = len(record.source.files)
    return f"{_short(record.source.digest)} over {files} file{'s' if files != 1 else ''}"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:SHORT]


def _protocol(record: Record) -> str:
    protocol = record.protocol
    harness = f", harness {_short(protocol.harness)}" if protocol.harness else ""
    return f"version {protocol.version}{harness}"


def _timer(record: Record) -> str:
    others = {each.timer for each in record.measurements if each.timer}
    return ", ".join([record.protocol.timer, *sorted(others - {record.protocol.timer})])


def _cache(record: Record) -> str:
    found = sorted({each.cache for each in record.measurements if each.cache})
    flushed = record.protocol.flush_bytes / _MEBI
    said = f" ({flushed:.0f} MiB read before each cold call)" if "cold" in found else ""
    return ", ".join(found) + said if found else "nothing was timed"


GPU: tuple[tuple[str, Fact], ...] = (
    ("GPU", _name),
    ("Compute capability", _about_gpu("compute_capability")),
    ("Multiprocessors", _about_gpu("multiprocessors")),
    ("Memory", _about_gpu("memory_bytes", "GB", 1e9)),
    ("Bandwidth of the pins", _about_gpu("pin_bandwidth", "TB/s", 1e12)),
    ("L2 cache", _about_gpu("l2_bytes", "MiB", _MEBI)),
    ("Power limit", _about_gpu("watts_limit", "W")),
    ("ECC", _about_gpu("ecc")),
)
WHILE: tuple[tuple[str, Fact], ...] = (
    ("SM clock", _spread_of("sm_mhz", "MHz")),
    ("Memory clock", _spread_of("memory_mhz", "MHz")),
    ("Temperature", _spread_of("celsius", "°C")),
    ("Power", _spread_of("watts", "W")),
    ("Slowed by", _slowed),
    ("Disturbed by", lambda record: "; ".join(record.disturbed) or "nothing seen"),
)
WITH: tuple[tuple[str, Fact], ...] = (
    ("Driver", lambda record: record.environment.driver or MISSING),
    ("CUDA", _version("cuda")),
    ("torch", _version("torch")),
    ("triton", _version("triton")),
    ("Other packages", _packages),
    ("Python", lambda record: record.environment.python),
    ("System", lambda record: record.environment.system),
    ("Variables", lambda record: _pairs(record.environment.variables) or "none set"),
)
HOW: tuple[tuple[str, Fact], ...] = (
    ("Measured", lambda record: record.recorded),
    ("Took", lambda record: duration(record.seconds)),
    ("Runs", lambda record: f"{record.protocol.runs} fresh processes"),
    ("Timer", _timer),
    ("Cache", _cache),
    ("Protocol", _protocol),
    ("Commit", _commit),
    ("Source digest", _source),
    ("Seal", lambda record: _short(record.seal)),
)
