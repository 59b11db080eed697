"""Writes the head of an entry's page: what it is, and its outcome on each GPU at one glance. Pure.

The rule kept here: every GPU shows the same headline quantity, its verdict and a sign a claim; a GPU
without a number that counts says so instead of showing one.
"""

from datetime import date
from html import escape

from warplog.address import FROM_ENTRY, tag_address
from warplog.claim import Judgement, Verdict
from warplog.entry import Entry, measured
from warplog.evidence import Evidence
from warplog.journal import Column, Outcome
from warplog.notice import marks
from warplog.origin import record_link
from warplog.output import SENTENCE_AT_MOST, plain_words
from warplog.quantity import Quantity
from warplog.tally import in_words, sum_badge
from warplog.verdicts import about, alike, interval, runs, same, sign, taken

_BESIDE_AT_MOST = 4
_LONG_FROM = 10
_SKIP_FROM = 12
_PAST_SIGNS = "Story"  # no claim has this anchor: theirs have no capital


def head(outcome: Outcome) -> str:
    """Return the head of a page: date, tags, title, summary, headline and a column a GPU."""
    entry = outcome.entry
    tags = "".join(
        f'<a href="{escape(FROM_ENTRY + tag_address(tag))}">{plain_words(tag)}</a>'
        for tag in entry.tags
    )
    columns = "".join(_column(each, entry) for each in outcome.columns)
    many = len(outcome.columns) * len(entry.claims) >= _SKIP_FROM
    skip = f'<a class="wl-skip" href="#{_PAST_SIGNS}">Skip the signs</a>' if many else ""
    beside = min(len(outcome.columns), _BESIDE_AT_MOST)
    return (
        f'<header class="wl-head"><div class="wl-tags">{written_date(entry.date)}{tags}</div>'
        f"<h1>{plain_words(entry.title, SENTENCE_AT_MOST)}</h1>"
        f'<p class="wl-summary">{plain_words(entry.summary, SENTENCE_AT_MOST)}</p>{_headline(entry)}'
        f'{skip}<div class="wl-results wl-results-{beside}">{columns}</div></header>'
        f'<span id="{_PAST_SIGNS}"></span>'
    )


def written_date(day: date) -> str:
    """Return a date as a person writes it: ``30 November 2026``."""
    return f'<time datetime="{day}">{day.day} {day:%B %Y}</time>'


def _quantity(entry: Entry) -> Quantity | None:
    return entry.quantities.get(entry.headline or "")


def _headline(entry: Entry) -> str:
    """Return the line that says which quantity all GPUs show, and leads to its row."""
    quantity = _quantity(entry)
    if quantity is None:
        return ""
    words = about(quantity)
    link = f'<a href="#{escape(entry.headline or "")}">{words[:1].upper()}{words[1:]}</a>'
    return f'<p class="wl-headline">{link}</p>'


def _column(column: Column, entry: Entry) -> str:
    """Return one GPU: its name and architecture, the headline, and what came of the claims."""
    evidence = column.evidence
    notes = (
        "".join(f'<span class="wl-mark">{mark}</span>' for mark in marks(evidence))
        if evidence
        else ""
    )
    signs = "".join(
        sign(name, claim.says, column.judgements[name].verdict)
        for name, claim in entry.claims.items()
    )
    return (
        f'<div class="wl-result"><p class="wl-result-name"><strong>{plain_words(column.name)}</strong>'
        f"<span>{architecture(evidence)}</span></p>{_reading(evidence, _quantity(entry))}"
        f'<p class="wl-result-verdict">{_outcome(entry, column)}{notes}</p>'
        f'<p class="wl-signs">{signs}</p></div>'
    )


def _outcome(entry: Entry, column: Column) -> str:
    """Return the verdict on all claims, and how many have which."""
    number = len(column.judgements)
    words = in_words(column.counts) + _of_others(entry, column)
    if len(column.counts) == 1:
        words = "its one claim" if number == 1 else f"all {number} claims"
    return f'{sum_badge(column)} <span class="wl-about">{words}</span>'


def _of_others(entry: Entry, column: Column) -> str:
    """Return how many of the refuted claims are what somebody else reported; empty where none is."""
    found = [
        entry.claims[name].reported is not None
        for name, each in column.judgements.items()
        if each.verdict is Verdict.REFUTED
    ]
    return f"; {sum(found)} of the refuted reported elsewhere" if any(found) else ""


def architecture(evidence: Evidence | None) -> str:
    """Return the architecture as compilers name it: ``sm_90``; empty where the record has none."""
    gpu = (evidence.record.environment.gpu if evidence else None) or {}
    capability = str(gpu.get("compute_capability", ""))
    digits = capability.replace(".", "")
    return f"sm_{digits}" if digits.isascii() and digits.isdigit() else ""


def _reading(evidence: Evidence | None, quantity: Quantity | None) -> str:
    """Return the headline of one GPU with its spread, or that it has none."""
    if quantity is None:
        return ""
    if evidence is None:
        return '<p class="wl-result-number wl-unmeasured">not measured here</p>'
    words = measured(quantity, evidence)
    found = taken(quantity, evidence)
    if words is None:
        said = "not measured here" if evidence.fresh else "measured from other source"
        return f'<p class="wl-result-number wl-unmeasured">{record_link(evidence, FROM_ENTRY, said)}</p>'
    long = " wl-long" if len(words) >= _LONG_FROM else ""
    return (
        f'<p class="wl-result-number{long}">{record_link(evidence, FROM_ENTRY, plain_words(words))}</p>'
        f'<p class="wl-result-spread">{_spread(found)}</p>'
    )


def _spread(found: Judgement) -> str:
    """Return the interval of a headline in words: ``1.80× to 1.86× over 6 runs``."""
    span = interval(found).replace("\u2013", " to ", 1)
    one = found.interval is not None and alike(found.interval.low, found.interval.high, found.unit)
    if one:
        span = "the same" if same(found) else "alike to three digits"
    where = f" on {found.workloads} workloads" if found.workloads > 1 else ""
    where = f", {found.span}" if found.mean is not None else where
    return plain_words(f"{span} {'in' if one else 'over'} {runs(found)}{where}")
