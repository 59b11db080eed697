"""The journal as a whole: every entry with its evidence and its verdicts, judged once.

The rule kept here: pages, lists and files for machines all say the same, because they read it here. An
entry's own device always has a column, also where nothing was measured on it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from warplog.claim import Claim, Judgement, Verdict
from warplog.entry import Entry, load, same_slug
from warplog.evidence import Archive, Evidence, Known
from warplog.fault import Fault, Faults

NO_RECORD = "no record from this device"


@dataclass(frozen=True)
class Column:
    """One device beside an entry: its evidence, or None, and the verdict on each claim by its id."""

    device: str
    evidence: Evidence | None
    judgements: dict[str, Judgement]

    @property
    def name(self) -> str:
        """The GPU's name."""
        return self.evidence.name if self.evidence else self.device

    @property
    def counts(self) -> Counter[Verdict]:
        """How many claims have each verdict here."""
        return Counter(each.verdict for each in self.judgements.values())


@dataclass(frozen=True)
class Outcome:
    """An entry with what came of it: a column a device, its own first."""

    entry: Entry
    known: Known
    columns: tuple[Column, ...]

    @property
    def own(self) -> Column:
        """The column of the device whose numbers the prose shows."""
        return self.columns[0]

    @property
    def evidence(self) -> list[Evidence]:
        """The evidence of each device that has any, in the order of the columns."""
        return [each.evidence for each in self.columns if each.evidence is not None]


@dataclass(frozen=True)
class Journal:
    """Every published entry, newest first."""

    outcomes: tuple[Outcome, ...]

    @cached_property
    def by_place(self) -> dict[str, Outcome]:
        """The outcomes by the path of their entry: ``entries/2026-12-02-topk.md``."""
        return {each.entry.place: each for each in self.outcomes}

    @cached_property
    def tags(self) -> dict[str, list[Outcome]]:
        """The outcomes by tag, tags in alphabetical order."""
        tags = sorted({tag for each in self.outcomes for tag in each.entry.tags}, key=str.casefold)
        return {tag: [each for each in self.outcomes if tag in each.entry.tags] for tag in tags}

    @cached_property
    def devices(self) -> dict[str, str]:
        """The name of each device that any entry was measured on, by device, in order of the device."""
        found = {
            column.device: column.name
            for each in self.outcomes
            for column in each.columns
            if column.evidence is not None
        }
        return dict(sorted(found.items()))

    @cached_property
    def counts(self) -> Counter[Verdict]:
        """How many claims have each verdict on the device of their entry."""
        return sum((each.own.counts for each in self.outcomes), Counter())

    def neighbours(self, outcome: Outcome) -> tuple[Outcome | None, Outcome | None]:
        """Return the entry before and the one after, by date."""
        place = self._places[outcome.entry.place]
        newer = self.outcomes[place - 1] if place else None
        older = self.outcomes[place + 1] if place + 1 < len(self.outcomes) else None
        return older, newer

    @cached_property
    def _places(self) -> dict[str, int]:
        return {each.entry.place: number for number, each in enumerate(self.outcomes)}


def read_journal(
    archive: Archive, make: Callable[[Path], Outcome] | None = None, *, drafts: bool = False
) -> tuple[Journal, list[Fault]]:
    """Return the journal of a repository, and the faults of the entries that are not right.

    `make` reads and judges one entry; without it, each is read from its file. `drafts` are in it only
    where that is asked for: for their author.
    """
    make = make or partial(_outcome_at, archive=archive)
    found: dict[str, Outcome] = {}
    faults: list[Fault] = []
    for path in sorted((archive.repository.root / "entries").glob("*.md")):
        try:
            outcome = make(path)
        except Faults as wrong:
            faults += wrong.faults
            continue
        first = found.setdefault(outcome.entry.slug, outcome)
        if first is not outcome:
            faults.append(same_slug(outcome.entry, first.entry))
    shown = (each for each in found.values() if drafts or not each.entry.draft)
    return journal_of(shown), faults


def journal_of(outcomes: Iterable[Outcome]) -> Journal:
    """Return the journal of some entries, the newest first."""
    dated = sorted(outcomes, key=lambda each: (each.entry.date, each.entry.slug), reverse=True)
    return Journal(tuple(dated))


def _outcome_at(path: Path, archive: Archive) -> Outcome:
    entry = load(path, archive.repository, archive)
    return outcome_of(entry, archive.of(entry.artifact))


def outcome_of(entry: Entry, known: Known) -> Outcome:
    """Return `entry` judged on every device that its artifact has a record of."""
    others = [device for device in known.devices if device != entry.device]
    columns = [_column(entry, device, known) for device in [entry.device, *others]]
    return Outcome(entry, known, tuple(columns))


def _column(entry: Entry, device: str, known: Known) -> Column:
    evidence = known.devices.get(device)
    judgements = {name: _judge(claim, evidence) for name, claim in entry.claims.items()}
    return Column(device, evidence, judgements)


def _judge(claim: Claim, evidence: Evidence | None) -> Judgement:
    if evidence is None:
        return Judgement(Verdict.UNTESTED, reason=NO_RECORD)
    return evidence.judge(claim)


def overall(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the verdict that all of them share, or None where they are mixed or there are none."""
    return verdicts[0] if len(set(verdicts)) == 1 else None
