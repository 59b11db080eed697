"""Writes claims and measured values as HTML: what is said, reported, measured, and the verdict. Pure.

The rule kept here: a verdict is an icon, a word and a tint; an untested claim says why; a number says on
which device, from how many runs, and how far they lie apart.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape

from warplog.claim import Claim, Judgement, Reported, Verdict, compare
from warplog.entry import Entry, measured
from warplog.evidence import Evidence
from warplog.output import plain_output
from warplog.quantity import UNITS, Quantity, Unmeasured
from warplog.quantity import readings as readings_of
from warplog.unit import pretty, pretty_interval
from warplog.workload import spell

ICONS = {
    Verdict.SUPPORTED: "\u2713",
    Verdict.REFUTED: "\u2715",
    Verdict.INCONCLUSIVE: "\u2248",
    Verdict.UNTESTED: "\u2013",
}
_SHORT = 160
NOTHING = "&ndash;"


def badge(verdict: Verdict, count: int | None = None) -> str:
    """Return a verdict as an icon and a word; `count` stands before the word where given."""
    number = f"{count} " if count is not None else ""
    return (
        f'<span class="wl-badge wl-{verdict.value}"><span class="wl-icon" aria-hidden="true">'
        f"{ICONS[verdict]}</span> {number}{verdict.value}</span>"
    )


def verdict_counts(entry: Entry, evidence: Evidence | None) -> str:
    """Return a badge for each verdict that the claims of an entry have on its device."""
    found = Counter(judged(claim, evidence).verdict for claim in entry.claims.values())
    return " ".join(badge(verdict, found[verdict]) for verdict in Verdict if found[verdict])


def judged(claim: Claim, evidence: Evidence | None) -> Judgement:
    """Return the verdict on a claim; untested where the device has no record."""
    if evidence is None:
        return Judgement(Verdict.UNTESTED, reason="no record from this device")
    return evidence.judge(claim)


def value(name: str, quantity: Quantity, evidence: Evidence | None) -> str:
    """Return a measured number in prose: its interval, device, runs and record are in its title."""
    words = measured(quantity, evidence)
    if evidence is None or words is None:
        reason = escape(_why_not(quantity, evidence))
        return (
            f'<a class="wl-value wl-missing" href="#{escape(name)}">'
            f'<span title="{reason}">not measured</span></a>'
        )
    found = readings_of(quantity, evidence.record, evidence.ceilings)
    judgement = Judgement(Verdict.UNTESTED, found)
    interval = pretty_interval(judgement.interval, judgement.unit) if judgement.interval else ""
    runs = "one run" if judgement.runs == 1 else f"{judgement.runs} runs"
    title = (
        f"{interval} over {runs} on {evidence.name}; "
        f"{quantity.metric} of {quantity.subject}; record of {evidence.record.recorded}"
    )
    return (
        f'<a class="wl-value" href="#{escape(name)}">'
        f'<span title="{escape(title)}">{escape(words)}</span></a>'
    )


def _why_not(quantity: Quantity, evidence: Evidence | None) -> str:
    if evidence is None:
        return "no record from this device"
    if not evidence.fresh:
        return evidence.stale_reason
    try:
        readings_of(quantity, evidence.record, evidence.ceilings)
    except Unmeasured as reason:
        return str(reason)[:_SHORT]
    return ""


def claims_table(entry: Entry, devices: Sequence[Evidence]) -> str:
    """Return the claims with reported value, bounds, and interval and verdict on each device."""
    names = [escape(evidence.name) for evidence in devices] or [escape(entry.device)]
    rows = []
    for name, claim in entry.claims.items():
        found = [judged(claim, evidence) for evidence in devices] or [judged(claim, None)]
        unit = next((each.unit for each in found if each.unit), _unit(claim, devices))
        cells = {"Reported": _reported(claim.reported, unit), "Holds if": _bounds(claim, unit)}
        cells |= dict(zip(names, (_cell(each, claim) for each in found), strict=True))
        said = f'{escape(claim.says)}<div class="wl-about">{_about(claim)}</div>'
        rows.append(
            f'<tr id="{escape(name)}"><td class="wl-says">{said}</td>'
            + "".join(_labelled(head, cell) for head, cell in cells.items())
            + "</tr>"
        )
    heads = ["Claim", "Reported", "Holds if", *(_head(evidence) for evidence in devices)]
    return _table([*heads, *([] if devices else names)], rows, "wl-claims")


def _labelled(head: str, cell: str) -> str:
    """Return a cell that carries its column's name, for a screen on which columns do not fit."""
    empty = " wl-empty" if cell == NOTHING else ""
    return f'<td class="wl-cell{empty}" data-head="{head}">{cell}</td>'


def values_table(entry: Entry, devices: Sequence[Evidence]) -> str:
    """Return the values that the prose names, with their interval on each device."""
    rows = []
    for name, quantity in entry.values.items():
        cells = "".join(f"<td>{_value_cell(quantity, each)}</td>" for each in devices)
        cells = cells or "<td>not measured</td>"
        rows.append(f'<tr id="{escape(name)}"><td>{_about(quantity)}</td>{cells}</tr>')
    heads = ["Value", *(_head(evidence) for evidence in devices)]
    return _table([*heads, *([] if devices else [escape(entry.device)])], rows)


def failures(devices: Sequence[Evidence]) -> str:
    """Return the subjects that failed, where and why, as HTML; empty where none did."""
    rows = [
        f"<tr><td>{escape(each.subject)}</td><td>{escape(spell(each.workload))}</td>"
        f"<td>{escape(evidence.name)}</td>"
        f'<td><pre class="wl-output">{plain_output(each.failed)}</pre></td></tr>'
        for evidence in devices
        if evidence.fresh
        for each in evidence.record.measurements
        if each.failed is not None
    ]
    return _table(["Failed", "Workload", "Device", "Why"], rows) if rows else ""


def _table(heads: list[str], rows: list[str], kind: str = "") -> str:
    top = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f'<div class="wl-scroll" tabindex="0"><table class="wl-table {kind}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _head(evidence: Evidence) -> str:
    notes = [] if evidence.fresh else ["stale"]
    notes += ["disturbed"] if evidence.record.disturbed else []
    said = f'<div class="wl-about">{", ".join(notes)}</div>' if notes else ""
    return escape(evidence.name) + said


def _about(quantity: Quantity) -> str:
    """Return what a quantity measures, in a line."""
    over = f" over {quantity.over}" if quantity.over else ""
    where = f", {spell(quantity.workload)}" if quantity.workload else ""
    counter = "." in quantity.metric  # named as its tool names it
    metric = quantity.metric if counter else quantity.metric.replace("_", " ")
    return escape(f"{metric} of {quantity.subject}{over}{where}")


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
        return f"&ge; {escape(pretty(bounds.low, unit))}"
    if claim.at_most is not None:
        return f"&le; {escape(pretty(bounds.high, unit))}"
    equal = "= " if claim.equals is not None else ""
    return escape(equal + pretty_interval(bounds, unit))


def _reported(reported: Reported | None, unit: str) -> str:
    """Return what the source said, on which device, and who it is."""
    if reported is None:
        return NOTHING
    said = reported.value
    words = escape(said if isinstance(said, str) else pretty(said, unit))
    by = escape(reported.by)
    if reported.url is not None:
        by = f'<a href="{escape(reported.url)}" rel="noopener">{by}</a>'
    return f'{words}<div class="wl-about">{escape(reported.device)}, {by}</div>'


def _looks_inside(judgement: Judgement, claim: Claim) -> bool:
    """Return whether a refuting number is written as the bound itself: 9.998 and 10 are both 10.0."""
    bounds = claim.bounds
    return any(
        f"{end:.3g}" in {f"{bounds.low:.3g}", f"{bounds.high:.3g}"}
        for reading in judgement.readings
        if compare(reading.interval, bounds) is Verdict.REFUTED
        for end in (reading.interval.low, reading.interval.high)
    )


def _cell(judgement: Judgement, claim: Claim) -> str:
    """Return one device's side of a claim: interval, badge, and what must be said beside it."""
    parts = []
    if judgement.interval is not None:
        interval = pretty_interval(judgement.interval, judgement.unit)
        parts.append(f'<span class="wl-interval">{escape(interval)}</span>')
    parts.append(badge(judgement.verdict))
    notes = []
    if judgement.runs == 1:
        notes.append("one run")
    if len(judgement.readings) > 1:
        notes.append(f"over {len(judgement.readings)} workloads")
    if _looks_inside(judgement, claim):
        notes.append("outside by less than three digits show")
    if judgement.within_noise:
        notes.append("within the A/A noise")
    parts += [f'<div class="wl-about">{note}</div>' for note in notes]
    if judgement.reason:
        parts.append(f'<div class="wl-about wl-reason">{_reason(judgement.reason)}</div>')
    return " ".join(parts)


def _reason(text: str) -> str:
    """Return why a claim is untested; long program output is folded away."""
    shown = plain_output(text)
    if len(text) <= _SHORT and "\n" not in shown:
        return shown
    return f'<details class="wl-more"><summary>why</summary><pre class="wl-output">{shown}</pre></details>'


def _value_cell(quantity: Quantity, evidence: Evidence) -> str:
    words = measured(quantity, evidence)
    if words is None:
        return f'not measured<div class="wl-about">{_reason(_why_not(quantity, evidence))}</div>'
    found = Judgement(Verdict.UNTESTED, readings_of(quantity, evidence.record, evidence.ceilings))
    interval = pretty_interval(found.interval, found.unit) if found.interval else ""
    runs = "one run" if found.runs == 1 else f"runs {escape(interval)}"
    return f'{escape(words)}<div class="wl-about">{runs}</div>'
