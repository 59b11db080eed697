"""Writes verdicts and measured numbers as HTML: badges, signs, and a number in a sentence. Pure.

The rule kept here: a verdict is an icon, a word and a tint; a number says on which device, from how many
runs, and how far they lie apart; a missing one says why.
"""

from collections import Counter
from html import escape
from urllib.parse import quote

from warplog.claim import Claim, Judgement, Reported, Verdict
from warplog.entry import Entry, measured
from warplog.evidence import Evidence
from warplog.journal import NO_RECORD
from warplog.output import SENTENCE_AT_MOST, plain_output, plain_text, plain_words
from warplog.quantity import Quantity
from warplog.reading import Unmeasured
from warplog.record import Interval
from warplog.unit import pretty, pretty_interval
from warplog.workload import spell

ICONS = {  # the letters of our fonts
    Verdict.SUPPORTED: "\u2713",
    Verdict.REFUTED: "\u2717",
    Verdict.INCONCLUSIVE: "\u2248",
    Verdict.UNTESTED: "\u2013",
}
_REASON_AT_MOST = 160
_RESERVED = "%:/?#[]@!$&'()*+,;=~"  # what an address may hold as it stands
_UNBROKEN_TO = 24


def badge(verdict: Verdict, count: int | None = None) -> str:
    """Return a verdict as an icon and a word; `count` stands before the word where given."""
    number = f"{count} " if count is not None else ""
    return (
        f'<span class="wl-badge wl-{verdict.value}"><span class="wl-icon" aria-hidden="true">'
        f"{ICONS[verdict]}</span> {number}{verdict.value}</span>"
    )


def sign(name: str, says: str, verdict: Verdict) -> str:
    """Return the verdict on the claim `name` as a round sign that leads to its row."""
    title = f"{verdict.value.capitalize()}: {plain_words(says, SENTENCE_AT_MOST)}"
    return (
        f'<a class="wl-dot wl-{verdict.value}" href="#{escape(name)}" title="{title}">'
        f'<span aria-hidden="true">{ICONS[verdict]}</span></a>'
    )


def verdict_counts(entry: Entry, evidence: Evidence | None) -> str:
    """Return a badge for each verdict that the claims of an entry have on its device."""
    found = Counter(
        evidence.judge(claim).verdict if evidence else Verdict.UNTESTED
        for claim in entry.claims.values()
    )
    return " ".join(badge(verdict, found[verdict]) for verdict in Verdict if found[verdict])


def about(quantity: Quantity) -> str:
    """Return what a quantity measures, in a line of escaped text."""
    over = f" over {quantity.over}" if quantity.over else ""
    where = f", {spell(quantity.workload)}" if quantity.workload else ""
    counter = "." in quantity.metric  # named as its tool names it
    metric = quantity.metric if counter else quantity.metric.replace("_", " ")
    mean = f"{quantity.mean} mean of " if quantity.mean is not None else ""
    return plain_words(f"{mean}{metric} of {quantity.subject}{over}{where}")


def taken(quantity: Quantity, evidence: Evidence | None) -> Judgement:
    """Return what was measured of `quantity` as a judgement without bounds: its readings, or why there
    are none that count.
    """
    if evidence is None:
        return Judgement(Verdict.UNTESTED, reason=NO_RECORD)
    if not evidence.fresh:
        return Judgement(Verdict.UNTESTED, reason=evidence.stale_reason)
    try:
        found = evidence.readings(quantity)
    except Unmeasured as reason:
        return Judgement(Verdict.UNTESTED, reason=str(reason))
    return Judgement(Verdict.UNTESTED, found)


def interval(judgement: Judgement) -> str:
    """Return the interval of what was measured, as plain text; empty where nothing was."""
    found = judgement.interval
    return pretty_interval(found, judgement.unit) if found is not None else ""


def alike(one: float, other: float, unit: str) -> bool:
    """Return whether two numbers are shown as one: 9.998 and 10 are both 10.0."""
    shown = pretty_interval(Interval.of([one, other]), unit)
    return shown in (pretty(one, unit), pretty(other, unit))


def same(judgement: Judgement) -> bool:
    """Return whether no run differs from another, and not in three digits alone."""
    found = judgement.interval
    return found is not None and found.low == found.high


def runs(judgement: Judgement) -> str:
    """Return how many runs stand behind what was measured: ``6 runs``."""
    return "one run" if judgement.runs == 1 else f"{judgement.runs} runs"


def number(name: str, quantity: Quantity, evidence: Evidence | None) -> str:
    """Return a measured number in prose: a link to its row, whose title says interval, device, runs
    and record.
    """
    words = measured(quantity, evidence)
    found = taken(quantity, evidence)
    if evidence is None or words is None:
        reason = escape(plain_text(found.reason)[:_REASON_AT_MOST])
        return (
            f'<a class="wl-value wl-missing" href="#{escape(name)}" title="{reason}">'
            "not measured</a>"
        )
    where = f", {found.span}" if found.span else ""
    title = (
        f"{plain_words(interval(found))} over {runs(found)} on {plain_words(evidence.name)}; "
        f"{about(quantity)}{where}; record of {escape(evidence.record.recorded)}"
    )
    shown = plain_words(words.replace(" ", "\u00a0") if len(words) <= _UNBROKEN_TO else words)
    sign = ""
    if isinstance(quantity, Claim) and evidence.judge(quantity).verdict is Verdict.REFUTED:
        title += "; its claim is refuted"
        sign = f'<sup class="wl-against" role="img" aria-label="refuted">{ICONS[Verdict.REFUTED]}</sup>'
    return f'<a class="wl-value" href="#{escape(name)}" title="{title}">{shown}{sign}</a>'


def reporter(reported: Reported) -> str:
    """Return who reported a number, linked where the source has an address, as HTML."""
    by = plain_words(reported.by)
    if reported.url is None:
        return by
    address = escape(quote(reported.url, safe=_RESERVED))
    return f'<a href="{address}" rel="noopener">{by}</a>'


def reason(text: str) -> str:
    """Return why nothing was measured; long program output is folded away."""
    shown = plain_output(text)
    if len(text) <= _REASON_AT_MOST and "\n" not in shown:
        return shown
    output = f'<pre class="wl-output" tabindex="0">{shown}</pre>'
    return f'<details class="wl-more"><summary>why</summary>{output}</details>'
