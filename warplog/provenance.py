"""Writes where and how the numbers of a page were measured, a column a device. Pure.

The rule kept here: nothing is left to be guessed; what a record does not say is said to be missing, and
everything that comes from a record is escaped.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from warplog.address import record_address
from warplog.evidence import Evidence
from warplog.record import Record

MISSING = "not stated"
_SHORT_HASH = 12
_MINUTE = 60
_KIBIBYTE = 1024


def duration(seconds: float) -> str:
    """Write how long a reproduction takes, as a person would say it."""
    if round(seconds) <= 1:
        return "a second"
    if seconds < 2 * _MINUTE:
        return f"{round(seconds)} seconds"
    return f"{round(seconds / _MINUTE)} minutes"


def record_link(evidence: Evidence, root: str) -> str:
    """Return a link to the raw record as HTML; `root` leads from the page to the site's top."""
    record, file = evidence.record, evidence.path.name
    address = escape(root + record_address(record, file))
    return f'<a href="{address}">{escape(f"{record.device}/{file}")}</a>'


def provenance_table(devices: Sequence[Evidence], root: str) -> str:
    """Return all that the records say of where and how they were measured, as an HTML table."""
    rows = []
    for label, cell in _ROWS:
        cells = "".join(f"<td>{escape(cell(each.record))}</td>" for each in devices)
        rows.append(f'<tr><th scope="row">{label}</th>{cells}</tr>')
    links = "".join(f"<td>{_raw(each, root)}</td>" for each in devices)
    rows.append(f'<tr><th scope="row">Raw record</th>{links}</tr>')
    heads = "".join(f'<th scope="col">{escape(each.name)}</th>' for each in devices)
    return (
        '<div class="wl-scroll" tabindex="0" data-search-exclude><table class="wl-table wl-facts">'
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _raw(evidence: Evidence, root: str) -> str:
    size = evidence.path.stat().st_size
    shown = f"{size / _KIBIBYTE:.0f} KiB" if size >= _KIBIBYTE else f"{size} bytes"
    return f"{record_link(evidence, root)} ({shown})"


def _gpu(record: Record) -> str:
    gpu = record.environment.gpu
    if gpu is None:
        return "none: correctness only"
    facts = [str(gpu.get("name", record.device))]
    if "compute_capability" in gpu:
        facts.append(f"compute capability {gpu['compute_capability']}")
    if "multiprocessors" in gpu:
        facts.append(f"{gpu['multiprocessors']} multiprocessors")
    return ", ".join(facts)


def _commit(record: Record) -> str:
    source = record.source
    if source.commit is None:
        return MISSING
    state = {True: " (the artifact was modified)", False: "", None: " (as stated)"}
    return source.commit[:_SHORT_HASH] + state[source.modified]


def _clocks(record: Record) -> str:
    """Return the spread of the clocks, the temperature and the power, and what slowed them."""
    readings = record.environment.clocks
    parts = []
    for key, name, unit in (
        ("sm_mhz", "SM", "MHz"),
        ("memory_mhz", "memory", "MHz"),
        ("celsius", "temperature", "°C"),
        ("watts", "power", "W"),
    ):
        busy = _numbers(readings, f"{key}_least", f"{key}_most")
        found = busy or _numbers(readings, key)
        if found:
            low, high = f"{min(found):.0f}", f"{max(found):.0f}"
            when = "" if busy else " (before and after)"
            parts.append(f"{name} {low if low == high else f'{low}–{high}'} {unit}{when}")
    slowed = sorted({str(one) for each in readings for one in _list(each.get("slowed"))})
    if slowed:
        parts.append("slowed by: " + ", ".join(slowed))
    return ", ".join(parts) or MISSING


def _numbers(readings: list[dict[str, Any]], *keys: str) -> list[float]:
    found = (each.get(key) for each in readings for key in keys)
    return [value for value in found if isinstance(value, int | float)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(values.items()))


def _timer(record: Record) -> str:
    others = {each.timer for each in record.measurements if each.timer}
    return ", ".join([record.protocol.timer, *sorted(others - {record.protocol.timer})])


def _cache(record: Record) -> str:
    found = sorted({each.cache for each in record.measurements if each.cache})
    flushed = record.protocol.flush_bytes / _KIBIBYTE**2
    said = f" ({flushed:.0f} MiB read before each cold call)" if "cold" in found else ""
    return ", ".join(found) + said if found else "nothing was timed"


_ROWS: tuple[tuple[str, Callable[[Record], str]], ...] = (
    ("Measured", lambda record: record.recorded),
    ("GPU", _gpu),
    ("Driver", lambda record: record.environment.driver or MISSING),
    ("Python", lambda record: record.environment.python),
    ("System", lambda record: record.environment.system),
    ("Packages", lambda record: _pairs(record.environment.packages)),
    ("Variables", lambda record: _pairs(record.environment.variables) or "none set"),
    ("Commit", _commit),
    ("Source digest", lambda record: record.source.digest.removeprefix("sha256:")[:_SHORT_HASH]),
    ("Runs", lambda record: f"{record.protocol.runs} fresh processes"),
    ("Took", lambda record: duration(record.seconds)),
    ("Timer", _timer),
    ("Cache", _cache),
    ("Clocks", _clocks),
    ("Disturbed by", lambda record: "; ".join(record.disturbed) or "nothing seen"),
)
