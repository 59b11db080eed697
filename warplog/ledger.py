"""Writes the tables of an entry: its claims, its measured values, and what failed. Pure.

The rule kept here: every claim shows who reported what, when it holds, and on every device what was
measured above the verdict; an untested one says why, a refuted one what the cause is.
"""

import math
from collections.abc import Sequence
from html import escape

from warplog.claim import Claim, Judgement, Reported, Verdict
from warplog.entry import measured
from warplog.evidence import Evidence
from warplog.history import Past, Pasts, history
from warplog.journal import Column, Outcome
from warplog.notice import DISPUTED_CLAIM, marks
from warplog.output import SENTENCE_AT_MOST, plain_output, plain_words
from warplog.quantity import UNITS, Quantity
from warplog.reception import reception
from warplog.record import Measurement
from warplog.tally import short_name
from warplog.unit import pretty, pretty_interval
from warplog.verdicts import about, alike, badge, interval, reason, reporter, runs, taken
from warplog.workload import spell

_BESIDE_AT_MOST = 4
_SCROLLS_FROM = 12
_NOTHING = "&ndash;"
_HOLDS = "Holds if"
_NARROW = {_HOLDS: ' class="wl-holds"'}


def claims_table(outcome: Outcome, pasts: Pasts, disputed: dict[str, list[Past]]) -> str:
    """Return the claims: what is said and reported, the bounds, and interval, verdict and history on
    each device. `pasts` is what each record said of each claim, `disputed` the claims on which they
    differ.
    """
    claims = outcome.entry.claims
    reported = any(claim.reported for claim in claims.values())
    rows = []
    for name, claim in claims.items():
        fared = reception(name, outcome, pasts[name]).words
        says = _says(name, claim, outcome, fared, disputed=name in disputed)
        cells = _cells(name, outcome, pasts[name], reported=reported)
        rows.append(f'<tr id="{escape(name)}">{says}{cells}</tr>')
    heads = ["Claim", *(["Reported"] if reported else []), _HOLDS, *map(_head, outcome.columns)]
    many = len(outcome.columns)
    table = _table(heads, rows, f"wl-claims wl-claims-{many}")
    return (
        table if many <= _BESIDE_AT_MOST else f'<div class="wl-scroll" tabindex="0">{table}</div>'
    )


def _cells(
    name: str, outcome: Outcome, past: dict[str, tuple[Past, ...]], *, reported: bool
) -> str:
    """Return the cells of one claim: what was reported, when it holds, and what each device says."""
    claim = outcome.entry.claims[name]
    judgements = [column.judgements[name] for column in outcome.columns]
    unit = next((each.unit for each in judgements if each.unit), _unit(claim, outcome.evidence))
    cells = [_cell("Reported", _reported(claim.reported, unit))] if reported else []
    cells.append(_cell(_HOLDS, _bounds(claim, unit)))
    for column, judged in zip(outcome.columns, judgements, strict=True):
        said = _judged(judged, claim, column) + history(past[column.device])
        cells.append(_cell(plain_words(short_name(column.name)), said))
    return "".join(cells)


def values_table(outcome: Outcome) -> str:
    """Return the values that the prose names, with their interval on each device; a long table scrolls
    in a box of its own.
    """
    rows = []
    for name, quantity in outcome.entry.values.items():
        cells = "".join(
            _cell(plain_words(short_name(each.name)), _value(quantity, each))
            for each in outcome.columns
        )
        said = f'<th scope="row">{_anchor(name)}{about(quantity)}</th>'
        rows.append(f'<tr id="{escape(name)}">{said}{cells}</tr>')
    table = _table(["Value", *map(_head, outcome.columns)], rows, "wl-values")
    tall = " wl-tall" if len(rows) > _SCROLLS_FROM else ""
    return f'<div class="wl-scroll{tall}" tabindex="0">{table}</div>'


def failures(devices: Sequence[Evidence]) -> str:
    """Return the subjects that failed, where and why; empty where none did."""
    rows = [
        _failure(each, evidence)
        for evidence in devices
        if evidence.fresh
        for each in evidence.record.measurements
        if each.failed is not None
    ]
    if not rows:
        return ""
    said = "<caption>What failed was not timed, and no claim rests on it.</caption>"
    return _table(["Failed", "Device", "Why"], rows, "wl-failures", said)


def _failure(failed: Measurement, evidence: Evidence) -> str:
    where = f'<div class="wl-about">{plain_words(spell(failed.workload))}</div>'
    why = f'<pre class="wl-output" tabindex="0">{plain_output(failed.failed or "")}</pre>'
    return (
        f'<tr><th scope="row">{plain_words(failed.subject)}{where}</th>'
        f"{_cell('Device', plain_words(short_name(evidence.name)))}{_cell('Why', why)}</tr>"
    )


def _table(heads: list[str], rows: list[str], kind: str, caption: str = "") -> str:
    top = "".join(f'<th scope="col"{_NARROW.get(head, "")}>{head}</th>' for head in heads)
    return (
        f'<table class="wl-table {kind}">{caption}<thead><tr>{top}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _cell(head: str, content: str) -> str:
    """Return a cell that carries its column's name, for a screen on which columns do not fit."""
    empty = ' class="wl-empty"' if content == _NOTHING else ""
    return f'<td{empty} data-head="{head}">{content}</td>'


def _head(column: Column) -> str:
    notes = marks(column.evidence) if column.evidence else ["no record"]
    said = f'<div class="wl-about">{", ".join(notes)}</div>' if notes else ""
    return plain_words(short_name(column.name)) + said


def _anchor(name: str) -> str:
    return f'<a class="wl-id" href="#{escape(name)}">{escape(name)}</a>'


def _says(name: str, claim: Claim, outcome: Outcome, fared: str, *, disputed: bool) -> str:
    """Return the cell of the claim itself: its id, the sentence, the quantity, the cause, how it fared."""
    refuted = any(each.judgements[name].verdict is Verdict.REFUTED for each in outcome.columns)
    said = plain_words(claim.says, SENTENCE_AT_MOST)
    notes = f'<div class="wl-about">{about(claim)}</div>'
    if claim.cause is not None and refuted:
        cause = plain_words(claim.cause, SENTENCE_AT_MOST)
        notes += f'<div class="wl-cause"><strong>Why:</strong> {cause}</div>'
    for words in filter(None, (fared, DISPUTED_CLAIM if disputed else "")):
        notes += f'<div class="wl-about">{words}</div>'
    return f'<th scope="row" class="wl-says">{_anchor(name)}{said}{notes}</th>'


def _unit(quantity: Quantity, devices: Sequence[Evidence]) -> str:
    """Return the unit of a metric that was not measured here: a record's, however old, or ours."""
    found = (
        each.unit
        for evidence in devices
        for each in evidence.record.measurements
        if each.metric == quantity.metric
    )
    return UNITS.get(quantity.metric) or next(found, "")


def _bounds(claim: Claim, unit: str) -> str:
    bounds = claim.bounds
    if claim.at_least is not None:
        return f"&ge; {plain_words(pretty(bounds.low, unit))}"
    if claim.at_most is not None:
        return f"&le; {plain_words(pretty(bounds.high, unit))}"
    equal = "= " if claim.equals is not None else ""
    return plain_words(equal + pretty_interval(bounds, unit))


def _reported(reported: Reported | None, unit: str) -> str:
    """Return what the source said, on which device, and who it is."""
    if reported is None:
        return _NOTHING
    said = reported.value
    words = plain_words(said if isinstance(said, str) else pretty(said, unit))
    by = f"{plain_words(reported.device)}, {reporter(reported)}"
    return f'{words}<div class="wl-about">{by}</div>'


def _looks_inside(judgement: Judgement, claim: Claim) -> bool:
    """Return whether an end outside the bounds is written as a bound: 9.998 and 10 are both 10.0."""
    shown, bounds = judgement.interval, claim.bounds
    if shown is None:
        return False
    return any(
        alike(end, bound, judgement.unit)
        for end in (shown.low, shown.high)
        if not bounds.low <= end <= bounds.high
        for bound in (bounds.low, bounds.high)
        if math.isfinite(bound)
    )


def _judged(judgement: Judgement, claim: Claim, column: Column) -> str:
    """Return one device's side of a claim: interval, badge, and what must be said beside it. Why a
    whole column is untested is said above the table.
    """
    parts = []
    if judgement.readings:
        parts.append(f'<span class="wl-interval">{plain_words(interval(judgement))}</span>')
    parts.append(badge(judgement.verdict))
    notes = []
    if judgement.runs == 1:
        notes.append(runs(judgement))
    if judgement.span:
        notes.append(judgement.span)
    if _looks_inside(judgement, claim):
        notes.append("outside by less than three digits show")
    if judgement.within_noise:
        notes.append("within the A/A noise")
    parts += [f'<div class="wl-about">{note}</div>' for note in notes]
    if column.evidence is not None and column.evidence.fresh and judgement.reason:
        parts.append(f'<div class="wl-about">{reason(judgement.reason)}</div>')
    return "".join(parts)


def _value(quantity: Quantity, column: Column) -> str:
    """Return one device's side of a value: the number, and how far its runs lie apart."""
    evidence = column.evidence
    words, found = measured(quantity, evidence), taken(quantity, evidence)
    if words is None:
        return f'not measured<div class="wl-about">{reason(found.reason)}</div>'
    spread = interval(found)
    said = runs(found) if spread == words or found.runs == 1 else f"runs {spread}"
    said += f", {found.span}" if found.span else ""
    return f'{plain_words(words)}<div class="wl-about">{plain_words(said)}</div>'
