"""Writes the page of what did not hold: reported figures first, then predictions of our own. Pure.

The rule kept here: a refutation says who reported what on which device, what was measured and on which,
with what must be said of its record, and why in a line, or that nobody knows yet; nothing that did not
hold is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from warplog.address import MATRIX, entry_address
from warplog.catalogue import claim_address, day, entry_link
from warplog.claim import Claim, Reported, Verdict
from warplog.history import disputes, pasts
from warplog.journal import Column, Journal, Outcome
from warplog.notice import DISPUTED_CLAIM, marks
from warplog.output import SENTENCE_AT_MOST, plain_words
from warplog.placeholder import Page
from warplog.quantity import UNITS
from warplog.sheet import section, sheet
from warplog.tally import gpu_words, plural
from warplog.unit import pretty, pretty_interval
from warplog.verdicts import about, badge, reporter

IN_FULL = 150
_NO_CAUSE = '<span class="wl-missing">not explained yet</span>'


@dataclass(frozen=True)
class Refutation:
    """A claim that at least one device refuted."""

    outcome: Outcome
    name: str
    claim: Claim

    @property
    def columns(self) -> list[Column]:
        """Each GPU that has a verdict on the claim."""
        return [
            each
            for each in self.outcome.columns
            if each.judgements[self.name].verdict is not Verdict.UNTESTED
        ]

    @property
    def unit(self) -> str:
        """The unit of what was measured."""
        judgements = (each.judgements[self.name] for each in self.columns)
        return next(
            (each.unit for each in judgements if each.unit), UNITS.get(self.claim.metric, "")
        )


def refutations(journal: Journal) -> Iterator[Refutation]:
    """Yield each claim that any device refuted, those of the newest entry first."""
    for outcome in journal.outcomes:
        for name, claim in outcome.entry.claims.items():
            verdicts = (each.judgements[name].verdict for each in outcome.columns)
            if Verdict.REFUTED in verdicts:
                yield Refutation(outcome, name, claim)


def page(journal: Journal) -> Page:
    """Return the page ``did-not-hold``."""
    found = list(refutations(journal))
    theirs = [each for each in found if each.claim.reported is not None]
    ours = [each for each in found if each.claim.reported is None]
    asked = sum(
        claim.reported is not None
        for outcome in journal.outcomes
        for claim in outcome.entry.claims.values()
    )
    html = (
        f"<h1>What did not hold</h1>{_introduction(len(theirs), asked)}"
        + section("reported", "Reported elsewhere", _list(theirs, _NONE_REPORTED))
        + section("predicted", "Predicted by us", _list(ours, _NONE_OF_OURS))
    )
    return sheet("What did not hold", "Every refuted claim, with its cause in a line.", html)


_NONE_REPORTED = "<p>Nothing that somebody else reported was refuted here so far.</p>"
_NONE_OF_OURS = "<p>None of our own predictions was refuted so far.</p>"


def _introduction(refuted: int, asked: int) -> str:
    said = "No claim of this journal tests a report of somebody else yet."
    if asked:
        came = (
            f"{refuted} of them did not hold on at least one GPU here"
            if refuted
            else "none was refuted"
        )
        verb = "tests" if asked == 1 else "test"
        said = (
            f"{plural(asked, 'claim')} of this journal {verb} what somebody else reported; {came}."
        )
    return (
        f'<p class="wl-lede">{said} A refutation speaks of the device, the versions and the bounds that '
        "stand beside it, and not of the machine of its author, where the report may well be right."
        f'</p><p>How a verdict is made: <a href="method.html#verdicts">method</a>. '
        f'All verdicts side by side: <a href="{MATRIX}">matrix</a>.</p>'
    )


def _list(found: list[Refutation], none: str) -> str:
    """Return the newest refutations in full, and where older ones are."""
    if not found:
        return none
    full = "".join(_item(each) for each in found[:IN_FULL])
    html = f'<ol class="wl-items wl-refutations">{full}</ol>'
    return html + _older(found[IN_FULL:])


def _older(found: list[Refutation]) -> str:
    """Return how many claims of each older entry were refuted, a line an entry that leads to them."""
    if not found:
        return ""
    items = []
    for outcome, group in groupby(found, key=lambda each: each.outcome):
        count = plural(len(list(group)), "claim")
        address = f"{entry_address(outcome.entry.slug)}#claims"
        items.append(
            f'<li>{day(outcome)}{entry_link(outcome)}<span class="wl-chip">'
            f'<a href="{address}">{count}</a></span></li>'
        )
    return f'<p>In older entries:</p><ol class="wl-lines">{"".join(items)}</ol>'


def _item(each: Refutation) -> str:
    pairs = [("Reported", _reported(each.claim.reported, each.unit))] if each.claim.reported else []
    pairs += [
        ("Holds if", bounds(each.claim, each.unit)),
        ("Measured", _all_measured(each)),
        ("Why", plain_words(each.claim.cause, SENTENCE_AT_MOST) if each.claim.cause else _NO_CAUSE),
    ]
    rows = "".join(f"<div><dt>{head}</dt><dd>{cell}</dd></div>" for head, cell in pairs)
    address = claim_address(each.outcome, each.name)
    return (
        f'<li class="wl-item"><div class="wl-tags">{day(each.outcome)}'
        f'{entry_link(each.outcome)}</div><div class="wl-story"><h3 class="wl-heading">'
        f'<a class="wl-title" href="{address}">{plain_words(each.claim.says, SENTENCE_AT_MOST)}</a></h3>'
        f'<p class="wl-about">{about(each.claim)}</p><dl class="wl-pairs">{rows}</dl></div></li>'
    )


def _reported(reported: Reported | None, unit: str) -> str:
    """Return what the source said, on which device, and who it is, linked where it has an address."""
    if reported is None:
        return ""
    said = reported.value if isinstance(reported.value, str) else pretty(reported.value, unit)
    return f"{plain_words(said)}, on {plain_words(reported.device)}, by {reporter(reported)}"


def _all_measured(each: Refutation) -> str:
    """Return what each device measured, a line a device, and whether records contradict each other."""
    html = "<br>".join(_measured(column, each.name) for column in each.columns)
    disputed = each.name in disputes(pasts(each.outcome))
    return html + (f'<div class="wl-about">{DISPUTED_CLAIM}</div>' if disputed else "")


def _measured(column: Column, name: str) -> str:
    """Return one device's verdict and interval, and what must be said of its record."""
    found = column.judgements[name]
    interval = "" if found.interval is None else pretty_interval(found.interval, found.unit)
    note = f" {'as the ' if found.mean else ''}{found.span}" if found.span else ""
    said = ", ".join(marks(column.evidence)) if column.evidence else ""
    beside = f' <span class="wl-about">{said}</span>' if said else ""
    return (
        f"{badge(found.verdict)} {plain_words(interval)}{note} on {gpu_words(column.name)}{beside}"
    )


def bounds(claim: Claim, unit: str) -> str:
    """Return in words and HTML when a claim holds: ``at least 4.32 TB/s``."""
    ends = claim.bounds
    if claim.at_least is not None:
        return plain_words(f"at least {pretty(ends.low, unit)}")
    if claim.at_most is not None:
        return plain_words(f"at most {pretty(ends.high, unit)}")
    if claim.equals is not None:
        return plain_words(f"exactly {pretty(ends.low, unit)}")
    return plain_words(f"between {pretty(ends.low, unit)} and {pretty(ends.high, unit)}")
