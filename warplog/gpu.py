"""Writes the list of devices and a page for each: its ceilings, its facts, its entries. Pure.

The rule kept here: a device has a page once anything was measured on it, and the page says what its
records say and no more: from which record, what must be said of it, and what is missing.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from warplog.address import (
    DEVICES,
    FROM_DEVICE,
    device_address,
    entry_address,
    matrix_address,
    record_address,
)
from warplog.catalogue import lines
from warplog.chronicle import legend
from warplog.evidence import CEILINGS, Evidence
from warplog.journal import Journal, Outcome
from warplog.notice import marks
from warplog.origin import day_and_time
from warplog.output import plain_words
from warplog.placeholder import Page
from warplog.reach import readings, tables
from warplog.record import Record, Scalar
from warplog.sheet import section, sheet
from warplog.store import file_name
from warplog.tally import in_words, plural, short_name
from warplog.unit import pretty

_MEBIBYTE, _GIBIBYTE = 1024**2, 1024**3


@dataclass(frozen=True)
class Device:
    """A GPU with every entry measured on it, newest first, its newest record, and its ceilings."""

    slug: str
    name: str
    outcomes: list[Outcome]
    newest: Evidence
    ceilings: Record | None

    @property
    def said(self) -> str:
        """How many entries were measured here, and their verdicts: ``2 entries: 18 supported``."""
        columns = (column for each in self.outcomes for column in each.columns)
        own = (column.counts for column in columns if column.device == self.slug)
        verdicts = in_words(sum(own, Counter()))
        return plural(len(self.outcomes), "entry", "entries") + (
            f": {verdicts}" if verdicts else ""
        )


def devices(journal: Journal) -> list[Device]:
    """Return every device that anything was measured on, the most measured first."""
    outcomes: dict[str, list[Outcome]] = {device: [] for device in journal.devices}
    evidence: dict[str, list[Evidence]] = {device: [] for device in journal.devices}
    for outcome in journal.outcomes:
        for column in outcome.columns:
            if column.evidence is not None:
                outcomes[column.device].append(outcome)
                evidence[column.device].append(column.evidence)
    found = []
    for device, name in journal.devices.items():
        newest = max(evidence[device], key=lambda each: each.record.recorded)
        ceilings = next((each.ceilings for each in evidence[device] if each.ceilings), None)
        found.append(Device(device, name, outcomes[device], newest, ceilings))
    return sorted(found, key=lambda each: -len(each.outcomes))


def pages(journal: Journal) -> dict[str, Page]:
    """Return the list of devices and the page of each, by the name of its Markdown file."""
    found = devices(journal)
    told = next((each for each in journal.outcomes if each.entry.artifact == CEILINGS), None)
    written = {"gpus.md": _overview(found)}
    for device in found:
        uri = device_address(device.slug).removesuffix(".html") + ".md"
        written[uri] = _page(device, told)
    return written


def _overview(found: list[Device]) -> Page:
    items = "".join(
        f'<li><h2 class="wl-heading"><a class="wl-title" href="{device_address(each.slug)}">'
        f'{plain_words(each.name)}</a></h2><p class="wl-about">{each.said}</p>{_readings(each.ceilings)}</li>'
        for each in found
    )
    html = (
        '<h1>GPUs</h1><p class="wl-lede">What each device was measured to reach, and what was measured on '
        "it. A floor is made of these two figures and never of a datasheet.</p>"
        + (f'<ul class="wl-devices">{items}</ul>' if items else "<p>Nothing was measured yet.</p>")
    )
    return sheet("GPUs", "Every GPU that an entry was measured on, with its ceilings.", html)


def _page(device: Device, told: Outcome | None) -> Page:
    """Return the page of one device; `told` is the entry on ceilings, if the journal has it."""
    matrix = FROM_DEVICE + matrix_address(gpu=device.slug)
    head = f'<p>{device.said}. Claim by claim: <a href="{escape(matrix)}">matrix</a>.</p>{legend()}'
    html = (
        f'<p class="wl-tags"><a href="{FROM_DEVICE}{DEVICES}">GPUs</a></p>'
        f"<h1>{plain_words(device.name)}</h1>"
        + section("ceilings", "Measured ceilings", _ceilings(device, told))
        + section("facts", "The device", _facts(device.newest))
        + section(
            "entries",
            "Measured here",
            head + lines(device.outcomes, FROM_DEVICE, only=device.slug),
        )
    )
    about = f"What {short_name(device.name)} was measured to reach, and what was measured on it."
    return sheet(device.name, about, html, searched=True, tab="gpus.md")


def _ceilings(device: Device, told: Outcome | None) -> str:
    record = device.ceilings
    if record is None:
        return _readings(None) + _stale(device, told)
    address = FROM_DEVICE + record_address(record, file_name(record.recorded))
    story = ""
    if told is not None:
        title = plain_words(told.entry.title)
        story = f', told in <a href="{FROM_DEVICE}{entry_address(told.entry.slug)}">{title}</a>'
    return (
        f"{_readings(record)}<p>The floor of a kernel is made of these two: its bytes over the first or its "
        f'operations over the second, whichever takes longer. Both are from <a href="{address}">one record'
        f"</a>{story}.</p>{tables(record)}"
    )


def _readings(record: Record | None) -> str:
    """Return the two ceilings with the marks of their record, which is always fresh."""
    html = readings(record)
    if record is None:
        return html
    said = marks(Evidence(record, Path(file_name(record.recorded)), {}, None))
    return html + (f'<p class="wl-about">Of these ceilings: {", ".join(said)}.</p>' if said else "")


def _stale(device: Device, told: Outcome | None) -> str:
    """Say that there is a record of ceilings whose source has changed since, where there is one."""
    found = told.known.devices.get(device.slug) if told is not None else None
    if found is None or found.fresh:
        return ""
    return f'<p class="wl-notice" role="note">There is a record, but {plain_words(found.stale_reason)}.</p>'


def _facts(newest: Evidence) -> str:
    """Return what the newest record says of the device, as a table, and which record that is."""
    record = newest.record
    gpu = record.environment.gpu or {}
    facts = [(label, write(gpu[key])) for key, label, write in _FACTS if key in gpu]
    facts += [
        ("Driver", record.environment.driver or "not stated"),
        ("System", record.environment.system),
    ]
    rows = "".join(
        f'<tr><th scope="row">{label}</th><td>{plain_words(said)}</td></tr>'
        for label, said in facts
    )
    address = FROM_DEVICE + record_address(record, newest.path.name)
    return (
        f'<table class="wl-table wl-reach wl-fitted"><tbody>{rows}</tbody></table>'
        f'<p class="wl-about">As it was when the <a href="{address}">newest record</a> was measured, '
        f"{day_and_time(record.recorded)} UTC.</p>"
    )


def _amount(unit: str) -> Callable[[Scalar], str]:
    """Return what writes a fact that is a number in `unit`; words stay as they are."""
    return lambda said: said if isinstance(said, str) else pretty(said, unit)


def _binary(size: int, name: str) -> Callable[[Scalar], str]:
    return lambda said: said if isinstance(said, str) else f"{said / size:.0f} {name}"


_FACTS: tuple[tuple[str, str, Callable[[Scalar], str]], ...] = (
    ("compute_capability", "Compute capability", str),
    ("multiprocessors", "Multiprocessors", str),
    ("memory_bytes", "Memory", _binary(_GIBIBYTE, "GiB")),
    ("pin_bandwidth", "Bandwidth of the memory's pins", _amount("B/s")),
    ("l2_bytes", "L2 cache", _binary(_MEBIBYTE, "MiB")),
    ("watts_limit", "Power limit", _amount("W")),
    ("ecc", "Error correction", str),
)
