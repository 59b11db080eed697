"""What a reproduction says at its end: claim by claim, reported, published, here, verdict. Pure.

The rule kept here: a claim that could not be measured here is said to be so, and never counts as a
difference; a subject that was right in the published record and is wrong here always does.
"""

from dataclasses import dataclass

from warplog.claim import UNITS, Claim, Judgement, Verdict, judge
from warplog.entry import Entry
from warplog.evidence import CEILINGS, Evidence, Known
from warplog.record import Measurement, Record
from warplog.unit import pretty, pretty_interval

NOT_HERE = "not measured here"


@dataclass(frozen=True)
class Row:
    """One claim: what was reported, what is published and on which device, what was measured here."""

    claim: str
    reported: str
    published: Judgement | None
    device: str
    here: Judgement

    @property
    def differs(self) -> bool:
        """True where both sides have a verdict, and not the same one."""
        if self.published is None:
            return False
        verdicts = {self.published.verdict, self.here.verdict}
        return Verdict.UNTESTED not in verdicts and len(verdicts) > 1


def rows(entries: list[Entry], known: Known, here: Record | None) -> list[Row]:
    """Return a row a claim of the `entries` about one artifact; `here` is what was just measured."""
    found = []
    for entry in entries:
        evidence = _beside(entry, known, here)
        for name, claim in entry.claims.items():
            published = evidence.judge(claim) if evidence else None
            device = evidence.record.device if evidence else ""
            here_judged = _judge_here(claim, here, evidence)
            unit = here_judged.unit or (published.unit if published else "")
            found.append(Row(name, _reported(claim, unit), published, device, here_judged))
    return found


def wrong_here(known: Known, here: Record) -> list[Measurement]:
    """Return the subjects that failed here and are not published as failing on that workload."""
    published = {
        (each.subject, str(each.workload))
        for evidence in known.devices.values()
        for each in evidence.record.measurements
        if each.failed is not None
    }
    failed = [each for each in here.measurements if each.failed is not None]
    return [each for each in failed if (each.subject, str(each.workload)) not in published]


def measured(judgement: Judgement) -> str:
    """Write what a judgement rests on: its interval, or why there is none."""
    if judgement.interval is None:
        return judgement.reason
    return pretty_interval(judgement.interval, judgement.unit)


def _beside(entry: Entry, known: Known, here: Record | None) -> Evidence | None:
    """Return the published evidence to compare with: this device's own, else the entry's."""
    if here is not None and here.device in known.devices:
        return known.devices[here.device]
    return known.devices.get(entry.device)


def _judge_here(claim: Claim, here: Record | None, evidence: Evidence | None) -> Judgement:
    ceilings = None
    if here is not None and here.artifact == CEILINGS:
        ceilings = here
    elif here is not None and evidence is not None and evidence.record.device == here.device:
        ceilings = evidence.ceilings
    judged = judge(claim, here, ceilings)
    if judged.verdict is Verdict.UNTESTED:
        return Judgement(Verdict.UNTESTED, reason=NOT_HERE)
    return judged


def _reported(claim: Claim, unit: str) -> str:
    if claim.reported is None:
        return ""
    value = claim.reported.value
    known = unit or UNITS.get(claim.metric, "")
    shown = value if isinstance(value, str) else pretty(value, known)
    return f"{shown} on {claim.reported.device}"
