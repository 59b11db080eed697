"""Writes what a device was measured to reach, as large figures and as tables. Pure.

The rule kept here: a rate stands beside the subject and the workload that reached it and beside the
interval of its runs; what was not measured is said to be missing, and no datasheet stands in.
"""

from html import escape

from warplog.menu import documented
from warplog.output import plain_words
from warplog.quantity import WORK_CEILING
from warplog.record import Record
from warplog.sound import usable
from warplog.summit import Summit, ceiling_of, launches, operations
from warplog.unit import pretty, pretty_interval
from warplog.workload import spell

NO_CEILINGS = (
    "The ceilings of this device have not been measured, so no page can say how far from them a kernel is. "
    f"<code>{documented('reproduce', 'ceilings', '--publish')}</code> measures them in a few minutes."
)
_READINGS = {
    "bandwidth": "Memory bandwidth, cold cache",
    "rate": f"Matrix products, {WORK_CEILING}",
}


def readings(record: Record | None) -> str:
    """Return the two ceilings that floors are made of, or that there are none, as HTML."""
    if record is None:
        return f"<p>{NO_CEILINGS}</p>"
    parts = [_reading(label, metric, record) for metric, label in _READINGS.items()]
    return f'<div class="wl-ceilings">{"".join(parts)}</div>'


def _reading(label: str, metric: str, record: Record) -> str:
    best = ceiling_of(record, metric)
    said = '<span class="wl-rate">&ndash;</span><span class="wl-about">not measured</span>'
    if best is not None:
        by = f"{best.measurement.subject}, {spell(best.measurement.workload)}"
        said = (
            f'<span class="wl-rate">{escape(pretty(best.value, best.unit))}</span>'
            f'<span class="wl-about">{plain_words(by)}</span>{_share(best, record)}'
        )
    return f'<div class="wl-ceiling"><span class="wl-label">{label}</span>{said}</div>'


def _share(best: Summit, record: Record) -> str:
    """Say how much of the bandwidth of its pins the memory reached, where the record has both."""
    pins = (record.environment.gpu or {}).get("pin_bandwidth")
    if best.metric != "bandwidth" or not isinstance(pins, int | float) or not _sane(pins):
        return ""
    share, whole = pretty(best.value / pins, "fraction"), pretty(pins, "B/s")
    return f'<span class="wl-about">{escape(share)} of the {escape(whole)} of its pins</span>'


def _sane(pins: float) -> bool:
    return pins > 0 and usable(pins)


def tables(record: Record) -> str:
    """Return the best of each kind of operation, and the least time of each way to launch kernels."""
    return _operations(operations(record)) + _launches(launches(record))


def _operations(found: list[Summit]) -> str:
    rows = [
        [
            _kind(each),
            escape(pretty(each.value, each.unit)),
            escape(pretty_interval(each.interval, each.unit)),
            plain_words(each.measurement.subject),
            plain_words(_sizes(each)),
        ]
        for each in found
    ]
    note = "Bytes count as read and as written; a multiply and an add are two operations."
    heads = ["Operation, cache", "Rate", "Its runs", "Reached by", "Sizes"]
    return _table("The best of each kind of operation", note, heads, rows)


def _kind(each: Summit) -> str:
    words = [str(word) for _, word in each.kind] + [each.measurement.cache or ""]
    return plain_words(", ".join(filter(None, words)) or each.metric)


def _sizes(each: Summit) -> str:
    words = dict(each.kind)
    return spell(
        {name: size for name, size in each.measurement.workload.items() if name not in words}
    )


def _launches(found: list[Summit]) -> str:
    """Return a row a way to launch and a column a way to time it."""
    metrics = list(dict.fromkeys(each.metric for each in found))
    subjects = dict.fromkeys(each.measurement.subject for each in found)
    cells = {(each.measurement.subject, each.metric): _time(each) for each in found}
    rows = [
        [plain_words(subject), *(cells.get((subject, metric), "") for metric in metrics)]
        for subject in subjects
    ]
    note = "Nothing is subtracted: two events with nothing between them are apart already."
    heads = ["What", *(plain_words(metric.replace("_", " ").capitalize()) for metric in metrics)]
    return _table("The least times of launches", note, heads, rows)


def _time(each: Summit) -> str:
    time, runs = pretty(each.value, each.unit), pretty_interval(each.interval, each.unit)
    about = plain_words(f"{runs}, {spell(each.measurement.workload)}")
    return f'{escape(time)}<div class="wl-about">{about}</div>'


def _table(title: str, note: str, heads: list[str], rows: list[list[str]]) -> str:
    """Return a table of escaped cells, the first of each row its head; empty without rows."""
    if not rows:
        return ""
    top = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{each}</td>" for each in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<h3>{title}</h3><p class="wl-about">{note}</p>'
        f'<div class="wl-reach-box" tabindex="0" role="region" data-search-exclude aria-label="{title}">'
        f'<table class="wl-table wl-reach"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )
