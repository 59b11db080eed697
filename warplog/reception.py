"""How a claim has fared elsewhere: on how many GPUs it holds, fails or was never tried; which records agree.

The rule kept here: only records of this very source count; a record counts as another machine's where what it
says of its device or its machine differs from the published record and from every other that is counted; two
machines that are alike in all that a record says of them count as one. Whose a record is nobody can know: a
seal is no signature. Pure.
"""

from collections.abc import Collection

from msgspec import Struct

from warplog.claim import Verdict
from warplog.history import Past
from warplog.journal import Outcome
from warplog.record import Record

_SETTLED = (Verdict.SUPPORTED, Verdict.REFUTED)
_CARD = ("name", "memory_bytes", "multiprocessors", "watts_limit", "ecc")


class Reception(Struct, frozen=True):
    """How many GPUs a claim holds on, fails on, is undecided on and was never tried on; and how many other
    machines' records share the published verdict, or contradict it.
    """

    holds: int
    fails: int
    undecided: int
    never: int
    confirmations: int
    contradictions: int

    @property
    def words(self) -> str:
        """The counts in words; empty where nobody but the author has tried."""
        places = self.holds + self.fails + self.undecided
        if places < 2 and not self.confirmations + self.contradictions:  # noqa: PLR2004 - one alone
            return ""
        counts = {
            "holds on": self.holds,
            "fails on": self.fails,
            "undecided on": self.undecided,
            "never tried on": self.never,
        }
        where = [f"{verb} {count}" for verb, count in counts.items() if count]
        where[0] += " GPU" if where[0].endswith(" 1") else " GPUs"
        return f"{', '.join(where)}; {_agreement(self.confirmations, self.contradictions)}"


def _agreement(same: int, other: int) -> str:
    """Say no more than is known: of how many other machines there are records that agree or do not."""
    said = f"{same or 'no'} other machine's record agrees"
    if same > 1:
        said = f"records of {same} other machines agree"
    return f"{said}, {other} disagree{'s' if other == 1 else ''}" if other else said


def reception(
    name: str, outcome: Outcome, past: dict[str, tuple[Past, ...]], devices: Collection[str] = ()
) -> Reception:
    """Return how the claim `name` of an entry has fared. `past` is what each record of each device said of
    it; `devices` are all that the journal knows, where its whole is at hand.
    """
    verdicts = [column.judgements[name].verdict for column in outcome.columns]
    unseen = set(devices) - {column.device for column in outcome.columns}
    same, other = _elsewhere(outcome.own.judgements[name].verdict, outcome, past)
    return Reception(
        holds=verdicts.count(Verdict.SUPPORTED),
        fails=verdicts.count(Verdict.REFUTED),
        undecided=verdicts.count(Verdict.INCONCLUSIVE),
        never=verdicts.count(Verdict.UNTESTED) + len(unseen),
        confirmations=same,
        contradictions=other,
    )


def _elsewhere(
    published: Verdict, outcome: Outcome, past: dict[str, tuple[Past, ...]]
) -> tuple[int, int]:
    """Return how many machines but the published record's agree with its verdict, and how many do not; a
    machine that did both counts on both sides.
    """
    own = outcome.own.evidence
    if own is None or published not in _SETTLED:
        return 0, 0
    found: dict[Verdict, set[tuple[object, ...]]] = {verdict: set() for verdict in _SETTLED}
    for records in past.values():
        for each in records:
            if each.evidence.fresh and each.judgement.verdict in _SETTLED:
                found[each.judgement.verdict].add(machine(each.evidence.record))
    here = machine(own.record)
    against = found[Verdict.REFUTED if published is Verdict.SUPPORTED else Verdict.SUPPORTED]
    return len(found[published] - {here}), len(against - {here})


def machine(record: Record) -> tuple[object, ...]:
    """Return what a record says of its machine that another machine may not share. No record names one."""
    gpu = record.environment.gpu or {}
    about = (record.environment.driver, record.environment.system)
    return (record.device, *about, *(gpu.get(key) for key in _CARD))
