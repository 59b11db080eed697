"""What a reproduction says at its end: claim by claim, reported, published, here, verdict. Pure.

The rule kept here: a claim that could not be measured here is said to be so, and never counts as a
difference; a subject that was right in the published record and is wrong here always does.
"""

from dataclasses import dataclass

from warplog.claim import Claim, Judgement, Verdict, judge
from warplog.entry import Entry
from warplog.evidence import CEILINGS, Evidence, Known
from warplog.fault import Fault
from warplog.menu import command
from warplog.quantity import UNITS
from warplog.record import Measurement, Record
from warplog.unit import pretty, pretty_interval

NOT_HERE = "not measured here"
CPU = "cpu"
NAMED_AT_MOST = 6


@dataclass(frozen=True)
class Row:
    """One claim: what was reported, what is published and on which device, what was measured here.

    `published` is None where nothing is.
    """

    claim: str
    reported: str
    published: Judgement | None
    device: str
    here: Judgement

    @property
    def compared(self) -> bool:
        """True where both sides have a verdict."""
        sides = (self.published, self.here)
        return all(side is not None and side.verdict is not Verdict.UNTESTED for side in sides)

    @property
    def differs(self) -> bool:
        """True where both sides have a verdict, and not the same one."""
        same = self.published is not None and self.published.verdict is self.here.verdict
        return self.compared and not same


def refuse_uncompared(here: Record) -> None:
    """Raise Fault where no subject met a reference, well or ill: nothing was checked then."""
    met = ("error", "latency")
    if not any(each.metric in met or each.failed is not None for each in here.measurements):
        place = f"artifacts/{here.artifact}/reproduce.py"
        remedy = "call run.compare in reproduce(run), also at the tiny sizes"
        raise Fault(place, "compared nothing with a reference", remedy)


def rows(entries: list[Entry], known: Known, here: Record) -> list[Row]:
    """Return a row a claim of the `entries` about one artifact; `here` is what was just measured."""
    found = []
    for entry in entries:
        evidence = _beside(entry, known, here)
        for name, claim in entry.claims.items():
            published = evidence.judge(claim) if evidence else None
            device = evidence.record.device if evidence else ""
            judged = _judge_here(claim, here, evidence)
            unit = judged.unit or (published.unit if published else "")
            found.append(Row(name, _reported(claim, unit), published, device, judged))
    return found


def conclusion(found: list[Row], here: Record, wrong: list[Measurement]) -> str:
    """Say in words what the comparison came to: nothing is called the same that was not compared."""
    if wrong:
        return "A kernel is wrong here: see above."
    if here.device == CPU:
        return _without_gpu(found, here)
    differing = [row.claim for row in found if row.differs]
    compared = sum(row.compared for row in found)
    said = [f"Different from what is published: {', '.join(differing)}."] if differing else []
    if compared:
        said.append(
            f"Same verdict as published: {compared - len(differing)} of {len(found)} claims."
        )
    elif not found:
        said.append("No claim of an entry to compare with.")
    else:
        stale = any(row.published is not None for row in found)
        why = (
            "The published record says nothing of this source" if stale else "Nothing is published"
        )
        said.append(f"{why}, so nothing was compared: {len(found)} claims.")
    missing = [row.claim for row in found if row.here.verdict is Verdict.UNTESTED]
    said += [f"Could not be tested here: {', '.join(missing)}."] if missing else []
    return " ".join(said)


def _without_gpu(found: list[Row], here: Record) -> str:
    """Say what a machine without a GPU could tell: what was right, and that nothing was timed."""
    right = [each.subject for each in here.measurements if each.metric == "error"]
    subjects = list(dict.fromkeys(right))
    more = len(subjects) - NAMED_AT_MOST
    names = "; ".join(subjects[:NAMED_AT_MOST]) + (f"; {more} more" if more > 0 else "")
    said = [
        (
            f"No GPU here, so nothing was timed and no claim was tested: {len(right)} checks of "
            f"correctness at tiny sizes passed ({names})."
        )
    ]
    if any(row.published is not None for row in found):
        said.append("The verdicts that are published stand in the column `published`.")
    said.append(f"To see the site, run `{command('serve')}`.")
    return " ".join(said)


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
    words = pretty_interval(judgement.interval, judgement.unit)
    return f"{words}, {judgement.span}" if judgement.span else words


def _beside(entry: Entry, known: Known, here: Record) -> Evidence | None:
    """Return the published evidence to compare with: this device's own, else the entry's."""
    return known.devices.get(here.device) or known.devices.get(entry.device)


def _judge_here(claim: Claim, here: Record, evidence: Evidence | None) -> Judgement:
    """Judge a claim by what was measured here; the tiny sizes of a CPU are not the claim's."""
    ceilings = here if here.artifact == CEILINGS else None
    if ceilings is None and evidence is not None and evidence.record.device == here.device:
        ceilings = evidence.ceilings
    judged = judge(claim, here, ceilings)
    if judged.verdict is Verdict.UNTESTED or here.device == CPU:
        return Judgement(Verdict.UNTESTED, reason=NOT_HERE)
    return judged


def _reported(claim: Claim, unit: str) -> str:
    if claim.reported is None:
        return ""
    value = claim.reported.value
    known = unit or UNITS.get(claim.metric, "")
    shown = value if isinstance(value, str) else pretty(value, known)
    return f"{shown} on {claim.reported.device}"
