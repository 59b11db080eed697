"""An entry in a few words: its headline number and its verdicts on each device. Pure.

The rule kept here: what leaves the site (cards, feeds, guides for machines) shows the number that the page
shows, names the device beside it, says all that must be said of it, and why where there is none.
"""

import re
from collections import Counter
from html import unescape

from msgspec import Struct

from warplog.claim import Verdict
from warplog.entry import Entry, spoken
from warplog.history import disputes, pasts
from warplog.journal import NO_RECORD, Column, Outcome
from warplog.notice import DISPUTED, marks
from warplog.output import plain_text
from warplog.verdicts import about, interval, same, taken

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
    headline = outcome.entry.headline
    disputed = headline in outcome.entry.claims and headline in disputes(pasts(outcome))
    return [_line(outcome.entry, column, disputed=disputed) for column in outcome.columns]


def headline_words(outcome: Outcome) -> str:
    """Return what the headline number measures: ``speedup of padded sort over per item, batch=31``."""
    quantity = outcome.entry.quantities.get(outcome.entry.headline or "")
    return "" if quantity is None else plain(unescape(about(quantity)))


def _line(entry: Entry, column: Column, *, disputed: bool) -> Line:
    name = entry.headline or ""
    found = column.judgements.get(name)  # a claim was judged already
    if found is None and name in entry.values:
        found = taken(entry.values[name], column.evidence)
    number = spread = ""
    if found is not None and found.readings:
        number = spoken(found.readings)
        is_interval = len(found.readings) > 1
        spread = "" if is_interval or same(found) else interval(found)
    note = _note(column, disputed=disputed and bool(number))
    return Line(plain(column.name), number, spread, note, column.counts)


def _note(column: Column, *, disputed: bool) -> str:
    if column.evidence is None:
        return NO_RECORD
    return ", ".join([*marks(column.evidence), *([DISPUTED] if disputed else [])])


def tally(counts: Counter[Verdict]) -> str:
    """Write how many claims have each verdict: ``4 supported, 1 refuted``."""
    found = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    return ", ".join(found) or "no claims"


def plain(text: str) -> str:
    """Return `text` on one line, without what no XML or UTF-8 can hold and what a terminal obeys."""
    return " ".join(_UNFIT.sub("\ufffd", plain_text(text)).split())
