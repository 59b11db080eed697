"""Writes the journal as data: one JSON object whose entries stand one a line. Pure.

The rule kept here: a number stands as it was measured, in SI units and unrounded, so that who reads it
finds the verdict that the page shows; an open end is null and never infinite; no time of building is in
it, so that the same journal gives the same bytes; one entry is one line, so that a reader can stream it.
"""

import math
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from warplog.address import device_address, entry_address, record_address
from warplog.claim import Claim, Judgement, Verdict
from warplog.dataset import Bounds, Counts, Gpu, Head, Item, Judged, Proof, Report, Stated
from warplog.history import disputes, pasts
from warplog.journal import Column, Journal, Outcome
from warplog.reception import reception
from warplog.site import Site

_REASON_AT_MOST = 500


def write(journal: Journal, site: Site) -> str:
    """Return the journal as JSON, one entry a line."""
    head = _encoded(_head(journal, site))
    rows = ",\n".join(_encoded(_item(outcome, site)) for outcome in journal.outcomes)
    return f'{head[:-1]},"entries":[\n{rows}\n]}}\n'


def _whole(address: str, site: Site) -> str | None:
    """Return the address from anywhere of what is at `address`; None where the site has no address."""
    return site.absolute(address) if site.url else None


def _encoded(struct: Struct) -> str:
    return msgspec.json.encode(struct).decode()


def _head(journal: Journal, site: Site) -> Head:
    devices = [
        Gpu(device, _text(name), device_address(device), _whole(device_address(device), site))
        for device, name in journal.devices.items()
    ]
    return Head(1, site.name, site.description, site.url or None, _counts(journal), devices)


def _counts(journal: Journal) -> Counts:
    found = journal.counts
    return Counts(
        entries=len(journal.outcomes),
        claims=found.total(),
        supported=found[Verdict.SUPPORTED],
        refuted=found[Verdict.REFUTED],
        inconclusive=found[Verdict.INCONCLUSIVE],
        untested=found[Verdict.UNTESTED],
        devices=len(journal.devices),
    )


def _item(outcome: Outcome, site: Site) -> Item:
    entry = outcome.entry
    address = entry_address(entry.slug)
    return Item(
        slug=entry.slug,
        address=address,
        url=_whole(address, site),
        title=entry.title,
        date=entry.date.isoformat(),
        tags=list(entry.tags),
        summary=entry.summary,
        artifact=entry.artifact,
        device=entry.device,
        headline=entry.headline,
        devices=[_proof(column, site) for column in outcome.columns],
        claims=list(_claims(outcome, site)),
    )


def _proof(column: Column, site: Site) -> Proof:
    evidence = column.evidence
    record = evidence.record if evidence else None
    address = record_address(record, evidence.path.name) if record and evidence else None
    return Proof(
        device=column.device,
        name=_text(column.name),
        record=address,
        record_url=_whole(address, site) if address else None,
        recorded=record.recorded if record else None,
        commit=record.source.commit if record else None,
        protocol=record.protocol.version if record else None,
        older_protocol=evidence is not None and evidence.older_protocol,
        stale=evidence is not None and not evidence.fresh,
        changed=[_text(name) for name in evidence.changed] if evidence else [],
        disturbed=[_text(words) for words in record.disturbed] if record else [],
    )


def _claims(outcome: Outcome, site: Site) -> Iterator[Stated]:
    address = entry_address(outcome.entry.slug)
    found = pasts(outcome)
    disputed = disputes(found)
    for name, claim in outcome.entry.claims.items():
        yield Stated(
            id=name,
            url=_whole(f"{address}#{name}", site),
            says=_text(claim.says),
            metric=claim.metric,
            subject=claim.subject,
            over=claim.over,
            workload=claim.workload,
            mean=claim.mean,
            bounds=_bounds(claim),
            reported=_report(claim),
            cause=None if claim.cause is None else _text(claim.cause),
            disputed=name in disputed,
            confirmations=reception(name, outcome, found[name]).confirmations,
            judged=[_judged(each.device, each.judgements[name]) for each in outcome.columns],
        )


def _bounds(claim: Claim) -> Bounds:
    bounds = claim.bounds
    low, high = (end if math.isfinite(end) else None for end in (bounds.low, bounds.high))
    return Bounds(low, high)


def _report(claim: Claim) -> Report | None:
    said = claim.reported
    if said is None:
        return None
    value = _text(said.value) if isinstance(said.value, str) else said.value
    url = None if said.url is None else _text(said.url)
    return Report(value, _text(said.device), _text(said.by), url)


def _judged(device: str, judgement: Judgement) -> Judged:
    found = judgement.interval
    return Judged(
        device=device,
        verdict=judgement.verdict,
        interval=None if found is None else (found.low, found.high),
        unit=judgement.unit or None,
        runs=judgement.runs,
        workloads=judgement.workloads,
        within_noise=judgement.within_noise,
        reason=_text(judgement.reason)[:_REASON_AT_MOST] or None,
    )


def _text(words: str) -> str:
    """Return a text without halves of characters, which no UTF-8 can hold."""
    return words.encode("utf-8", "replace").decode("utf-8")
