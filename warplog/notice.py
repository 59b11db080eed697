"""Says in words what a reader must know before the numbers: nothing measured, stale, disturbed, disputed.

The rule kept here: each notice names the device, the record and what to make of it; what is wrong with
one device's record is said of that device alone, by the same words wherever its numbers stand. Pure.
"""

from collections.abc import Iterator, Sequence
from html import escape

from warplog.address import FROM_ENTRY
from warplog.claim import Verdict
from warplog.evidence import Evidence
from warplog.history import Past
from warplog.journal import Column, Outcome
from warplog.menu import documented
from warplog.origin import day_and_time, record_link
from warplog.output import LINE_AT_MOST, plain_words
from warplog.record import PROTOCOL
from warplog.source import told
from warplog.tally import short_name

STALE, DISTURBED, OLDER, DISPUTED = "stale", "disturbed", "older protocol", "disputed"
DISPUTED_CLAIM = f"{DISPUTED} between records"
_DRAFT = (
    "<strong>Draft.</strong> Only whoever serves the site sees this page: the published site leaves it "
    f"out. <code>{documented('check')}</code> says what it still lacks."
)
_NAMED_AT_MOST = 6
_CLAIMS_AT_MOST = 3
_FILES_AT_MOST = 3


def notices(outcome: Outcome, disputed: dict[str, list[Past]]) -> str:
    """Return all notices of an entry as HTML; empty where there is nothing to say.

    `disputed` holds, by claim, the records that support it and those that refute it.
    """
    found = [_DRAFT] if outcome.entry.draft else []
    found += [words for column in outcome.columns for words in _of_column(column, outcome)]
    if disputed:
        found.append(_dispute(disputed))
    return "".join(f'<div class="wl-notice" role="note">{words}</div>' for words in found)


def marks(evidence: Evidence) -> list[str]:
    """Return the words that stand wherever a device's numbers do: stale, disturbed, older protocol."""
    found = [] if evidence.fresh else [STALE]
    found += [DISTURBED] if evidence.record.disturbed else []
    return found + ([OLDER] if evidence.older_protocol else [])


def caveats(column: Column) -> list[str]:
    """Return the marks of a device's record, with what made it stale; empty where it is sound."""
    if column.evidence is None:
        return ["no record yet"]
    stale = f"{STALE}: {told(column.evidence.changed, _FILES_AT_MOST)}"
    return [stale if mark == STALE else mark for mark in marks(column.evidence)]


def _of_column(column: Column, outcome: Outcome) -> Iterator[str]:
    evidence = column.evidence
    device = plain_words(column.name)
    if evidence is None:
        only = "" if outcome.evidence else ", nor on any other GPU"
        yield (
            f"<strong>Not measured.</strong> Nothing was measured on {device} yet{only}, "
            "so every claim is untested there."
        )
        return
    was = f"{device} was measured ({day_and_time(evidence.record.recorded)} UTC)"
    if not evidence.fresh:
        files = plain_words(told(evidence.changed), LINE_AT_MOST)
        yield (
            f"<strong>Stale.</strong> {files} since {was}, so none of its numbers is shown "
            "as current."
        )
    if evidence.record.disturbed:
        what = _listed([plain_words(each) for each in evidence.record.disturbed])
        yield (
            f"<strong>Disturbed.</strong> While {was}: {what}. Its numbers are shown, and may be off."
        )
    if evidence.older_protocol:
        version = evidence.record.protocol.version
        yield (
            f"<strong>Older protocol.</strong> {was} by version {version} of the protocol; version "
            f"{PROTOCOL} could give other numbers."
        )


def _listed(words: Sequence[str], at_most: int = _NAMED_AT_MOST) -> str:
    """Return some of `words` and how many more there are."""
    more = len(words) - at_most
    return ", ".join(words[:at_most]) + (f" and {more} more" if more > 0 else "")


def _dispute(disputed: dict[str, list[Past]]) -> str:
    """Return which claims have records that contradict each other, and which records these are."""
    items = "".join(f"<li>{_sides(name, sides)}</li>" for name, sides in disputed.items())
    number = len(disputed)
    said = "One claim has" if number == 1 else f"{number} claims have"
    head = f"<strong>Disputed.</strong> {said} records of this very source with opposite verdicts."
    if number <= _CLAIMS_AT_MOST:
        return f"{head}<ul>{items}</ul>"
    return f'{head}<details class="wl-more"><summary>Which</summary><ul>{items}</ul></details>'


def _sides(name: str, sides: list[Past]) -> str:
    """Return one claim with the records on either side of it."""
    parts = []
    for verdict in (Verdict.SUPPORTED, Verdict.REFUTED):
        records = [each.evidence for each in sides if each.judgement.verdict is verdict]
        links = _listed([_record(evidence) for evidence in records])
        parts.append(f"{verdict} by {links}")
    return f'<a href="#{escape(name)}">{escape(name)}</a>: {"; ".join(parts)}'


def _record(evidence: Evidence) -> str:
    when = day_and_time(evidence.record.recorded)
    return record_link(evidence, FROM_ENTRY, f"{plain_words(short_name(evidence.name))}, {when}")
