"""The history of a number: what each record of a device said of a claim, and where records disagree.

The rule kept here: every record stands in the history, only those that measured a number agree on it,
one of other source is marked as such, and only records of this very source can dispute a verdict. Pure.
"""

from msgspec import Struct

from warplog.claim import Claim, Judgement, Verdict
from warplog.evidence import Evidence
from warplog.journal import Column, Outcome
from warplog.origin import day_and_time
from warplog.output import plain_words
from warplog.verdicts import badge, interval

OTHER_SOURCE = "other source"


class Past(Struct, frozen=True):
    """What one record said of one claim."""

    evidence: Evidence
    judgement: Judgement


Pasts = dict[str, dict[str, tuple[Past, ...]]]


def pasts(outcome: Outcome) -> Pasts:
    """Return what each record of each device said of each claim: by claim, then by device, oldest
    first.
    """
    return {
        name: {
            column.device: _past(name, claim, column, outcome.known.history.get(column.device, ()))
            for column in outcome.columns
        }
        for name, claim in outcome.entry.claims.items()
    }


def _past(
    name: str, claim: Claim, column: Column, records: tuple[Evidence, ...]
) -> tuple[Past, ...]:
    found = []
    for evidence in records:
        judged = column.judgements[name]
        if evidence is not column.evidence or not evidence.fresh:
            judged = evidence.judge_as_was(claim)
        found.append(Past(evidence, judged))
    return tuple(found)


def disputes(found: Pasts) -> dict[str, list[Past]]:
    """Return, by claim, the fresh records that support it and those that refute it, where there are
    both.
    """
    disputed = {}
    for name, devices in found.items():
        sides = [
            past
            for records in devices.values()
            for past in records
            if past.evidence.fresh
            and past.judgement.verdict in (Verdict.SUPPORTED, Verdict.REFUTED)
        ]
        if len({past.judgement.verdict for past in sides}) > 1:
            disputed[name] = sides
    return disputed


def history(records: tuple[Past, ...]) -> str:
    """Return the history of one number on one device, newest first; empty for a single record."""
    if len(records) <= 1:
        return ""
    said = {(interval(each.judgement), each.judgement.verdict) for each in records}
    others = sum(not each.evidence.fresh for each in records)
    if not any(each.judgement.readings for each in records):
        return f'<div class="wl-about">not measured in {len(records)} records</div>'
    if len(said) == 1:
        note = f' title="{others} of {OTHER_SOURCE}"' if others else ""
        return f'<div class="wl-about"{note}>{len(records)} records agree</div>'
    items = "".join(f"<li>{_item(each)}</li>" for each in reversed(records))
    return f'<details class="wl-past"><summary>{len(records)} records</summary><ol>{items}</ol></details>'


def _item(past: Past) -> str:
    """Return one record's word on a claim: date, interval, verdict."""
    other = "" if past.evidence.fresh else f' <span class="wl-about">{OTHER_SOURCE}</span>'
    measured = plain_words(interval(past.judgement)) or "not measured"
    measured += f", {past.judgement.span}" if past.judgement.mean else ""
    when = day_and_time(past.evidence.record.recorded)
    return f"<time>{when}</time> {measured} {badge(past.judgement.verdict)}{other}"
