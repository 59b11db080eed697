"""Writes where and how the numbers of a page were measured: the strip at the top, the table at the end.

The rule kept here: what is the same on every device is said once, every record is listed with its size,
and everything that comes from a record is escaped. Pure.
"""

from collections.abc import Callable, Sequence

from warplog import conditions
from warplog.address import FROM_ENTRY
from warplog.conditions import Fact, package
from warplog.evidence import Evidence
from warplog.history import OTHER_SOURCE
from warplog.journal import Outcome
from warplog.origin import commit_link, day_and_time, record_link, size
from warplog.output import plain_words
from warplog.record import Record

_DAY = len("2026-12-02")
_GROUPS = (
    ("Device", conditions.GPU),
    ("While it ran", conditions.WHILE),
    ("Software", conditions.WITH),
    ("Protocol", conditions.HOW),
)


def strip(devices: Sequence[Evidence], repository_url: str) -> str:
    """Return the provenance of the numbers in a line: when, from which commit, with what, how often.

    What differs between devices is listed in their order; without a record there is no strip.
    """
    if not devices:
        return ""
    facts = [
        ("measured", _each(devices, lambda record: day_and_time(record.recorded)[:_DAY])),
        ("commit", _distinct([commit_link(each, repository_url) for each in devices])),
        ("CUDA", _each(devices, lambda record: package(record, "cuda"))),
        ("driver", _each(devices, lambda record: record.environment.driver or "")),
        ("torch", _each(devices, lambda record: package(record, "torch"))),
        ("triton", _each(devices, lambda record: package(record, "triton"))),
        ("runs", _each(devices, lambda record: str(record.protocol.runs))),
        ("raw record", "".join(f"<span>{_raw(each)}</span>" for each in devices)),
    ]
    items = "".join(f"<div><dt>{name}</dt><dd>{said}</dd></div>" for name, said in facts if said)
    return f'<dl class="wl-strip" data-search-exclude>{items}</dl>'


def _each(devices: Sequence[Evidence], fact: Fact) -> str:
    return _distinct([plain_words(fact(each.record)) for each in devices])


def _distinct(facts: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(fact for fact in facts if fact))


def _raw(evidence: Evidence) -> str:
    words = plain_words(evidence.record.device)
    return f"{record_link(evidence, FROM_ENTRY, words)} {size(evidence)}"


def environment(outcome: Outcome) -> str:
    """Return all that the records say of where and how they were measured: a column a device, its
    earlier records too.
    """
    devices = outcome.evidence
    parts = []
    for title, facts in _GROUPS:
        rows = "".join(_row(label, fact, devices) for label, fact in facts)
        parts.append(f"<tbody>{_title(title, len(devices))}{rows}</tbody>")
    records = "".join(f"<td><ul>{_records(each, outcome)}</ul></td>" for each in devices)
    parts.append(
        f'<tbody>{_title("Raw records", len(devices))}<tr><th scope="row">Every record, newest first'
        f"</th>{records}</tr></tbody>"
    )
    heads = "".join(f'<th scope="col">{plain_words(each.name)}</th>' for each in devices)
    return (
        '<div class="wl-scroll" tabindex="0" data-search-exclude><table class="wl-table wl-facts">'
        f"<thead><tr><td></td>{heads}</tr></thead>{''.join(parts)}</table></div>"
    )


def _title(words: str, columns: int) -> str:
    return f'<tr class="wl-group"><th scope="rowgroup" colspan="{columns + 1}">{words}</th></tr>'


def _row(label: str, fact: Callable[[Record], str], devices: Sequence[Evidence]) -> str:
    """Return one fact of all devices; one cell where all agree, nothing where none has it."""
    facts = [plain_words(fact(each.record)) for each in devices]
    if not any(facts):
        return ""
    if len(set(facts)) == 1:
        span = f' colspan="{len(facts)}"' if len(facts) > 1 else ""
        cells = f"<td{span}>{facts[0]}</td>"
    else:
        cells = "".join(f"<td>{each or conditions.MISSING}</td>" for each in facts)
    return f'<tr><th scope="row">{label}</th>{cells}</tr>'


def _records(shown: Evidence, outcome: Outcome) -> str:
    """Return every record of one device as list items, the one that this page shows marked."""
    items = []
    for each in reversed(outcome.known.history[shown.record.device]):
        notes = [size(each)]
        notes += ["shown here"] if each is shown else []
        notes += [] if each.fresh else [OTHER_SOURCE]
        link = record_link(each, FROM_ENTRY, day_and_time(each.record.recorded))
        items.append(f'<li>{link} <span class="wl-about">{", ".join(notes)}</span></li>')
    return "".join(items)
