"""An entry in a few words: its headline number and its verdicts on each device. Pure.

The rule kept here: what leaves the site (cards, feeds, guides for machines) shows the number that the page
shows, names the device beside it, and says why where there is none.
"""

import re
from collections import Counter
from html import unescape

from msgspec import Struct

from warplog.claim import Verdict
from warplog.entry import Entry, spoken
from warplog.evidence import Evidence
from warplog.journal import NO_RECORD, Column, Outcome
from warplog.output import plain_text
from warplog.verdicts import about, interval, taken

_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class Line(Struct, frozen=True):
    """One device: its headline number with the interval of its runs, both empty where there is none.

    `note` says what a reader must know beside the number; `counts` is how many claims have each verdict.
    """

    name: str
    number: str
    interval: str
    note: str
    counts: Counter[Verdict]


def lines(outcome: Outcome) -> list[Line]:
    """Return a line for each device, the entry's own first."""
    return [_line(outcome.entry, column) for column in outcome.columns]


def headline_words(outcome: Outcome) -> str:
    """Return what the headline number measures: ``speedup of padded sort over per item, batch=31``."""
    quantity = outcome.entry.quantities.get(outcome.entry.headline or "")
    return "" if quantity is None else plain(unescape(about(quantity)))


def _line(entry: Entry, column: Column) -> Line:
    name = entry.headline or ""
    found = column.judgements.get(name)  # a claim was judged already
    if found is None and name in entry.values:
        found = taken(entry.values[name], column.evidence)
    number = spoken(found.readings) if found and found.readings else ""
    spread = interval(found) if found and found.readings else ""
    shown = "" if spread == number else spread
    return Line(plain(column.name), number, shown, _note(column.evidence), column.counts)


def _note(evidence: Evidence | None) -> str:
    if evidence is None:
        return NO_RECORD
    if not evidence.fresh:
        return "stale record"
    return "disturbed" if evidence.record.disturbed else ""


def tally(counts: Counter[Verdict]) -> str:
    """Write how many claims have each verdict: ``4 supported, 1 refuted``."""
    found = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    return ", ".join(found) or "no claims"


def plain(text: str) -> str:
    """Return `text` on one line, without what no XML or UTF-8 can hold and what a terminal obeys."""
    return " ".join(_UNFIT.sub("\ufffd", plain_text(text)).split())
