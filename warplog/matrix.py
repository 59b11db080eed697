"""Writes the matrix: entries and claims in rows, GPUs in columns, a verdict in each cell. Pure.

The rule kept here: it is a plain table that says all without script, and a script only hides rows. Each
entry has a row; some `CLAIMS_SHOWN` claims, of the newest entries, have one of their own, because nobody
reads six thousand rows or waits for them: the row of an older entry counts its claims and leads to them.
"""

from collections.abc import Collection
from html import escape

from warplog.address import tag_anchor
from warplog.catalogue import claim_address, counted, day, entry_link
from warplog.claim import Claim, Judgement, Verdict
from warplog.history import disputes, pasts
from warplog.journal import Column, Journal, Outcome
from warplog.notice import DISPUTED_CLAIM, marks
from warplog.output import SENTENCE_AT_MOST, plain_words
from warplog.placeholder import Page
from warplog.reception import reception
from warplog.sheet import sheet
from warplog.tally import glyph, gpu_words, plural, sum_badge, summary
from warplog.unit import pretty_interval

CLAIMS_SHOWN = 300
_FIT = 4
_NONE = '<td class="wl-nothing"><span role="img" aria-label="not measured">&middot;</span></td>'
_SCRIPT = "assets/matrix.js"


def page(journal: Journal) -> Page:
    """Return the page of the matrix."""
    head = f"<h1>Matrix</h1>{_introduction(journal)}"
    if not journal.outcomes:
        return sheet("Matrix", _ABOUT, f"{head}<p>No entry yet.</p>")
    devices = columns(journal)
    rows, claims = [], 0
    for outcome in journal.outcomes:
        rows.append(_entry_row(outcome, devices))
        if claims < CLAIMS_SHOWN:
            rows += _claim_rows(outcome, devices, journal.devices)
            claims += len(outcome.entry.claims)
    many = " wl-many" if len(devices) > _FIT else ""
    table = (
        f'<div class="wl-matrix-box{many}" role="region" aria-label="Verdicts by GPU" tabindex="0">'
        f'<table class="wl-matrix"><thead><tr><th scope="col">Entry and claim</th>{_heads(devices)}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    return sheet(
        "Matrix", _ABOUT, f"{head}{_form(journal, devices, claims)}{table}", script=_SCRIPT
    )


_ABOUT = "Every entry and its claims against every GPU, with the verdict in each cell."


def columns(journal: Journal) -> dict[str, str]:
    """Return the name of each device that has a column: the most measured first.

    A device that an entry is about has one also where nothing was measured on it yet.
    """
    names: dict[str, str] = {}
    uses: dict[str, int] = {}
    for outcome in journal.outcomes:
        for column in outcome.columns:
            measured = column.evidence is not None
            if measured or column.device not in names:
                names[column.device] = column.name
            uses[column.device] = uses.get(column.device, 0) + measured
    return {device: names[device] for device in sorted(names, key=lambda each: (-uses[each], each))}


def _introduction(journal: Journal) -> str:
    claims = sum(len(each.entry.claims) for each in journal.outcomes)
    said = "The same claim side by side on every GPU that it was measured on, with the interval of its runs."
    if claims > CLAIMS_SHOWN:
        said += (
            f" There are {plural(claims, 'claim')}: those of the newest entries have rows of their own, some"
            f" {CLAIMS_SHOWN} of them; the row of an older entry counts its claims and leads to them."
        )
    return f'<p class="wl-lede">{said}</p>'


def _heads(devices: dict[str, str]) -> str:
    return "".join(
        f'<th scope="col" data-gpu="{escape(device)}" title="{plain_words(name)}">'
        f"{gpu_words(name)}</th>"
        for device, name in devices.items()
    )


def _entry_row(outcome: Outcome, devices: dict[str, str]) -> str:
    by_device = {each.device: each for each in outcome.columns}
    cells = "".join(_sum_cell(by_device.get(device)) for device in devices)
    tags = " ".join(tag_anchor(tag) for tag in dict.fromkeys(outcome.entry.tags))
    return (
        f'<tr data-entry="{escape(outcome.entry.slug)}" data-tags="{escape(tags)}">'
        f'<th scope="row">{entry_link(outcome)}<span class="wl-about">{day(outcome)}</span></th>{cells}</tr>'
    )


def _sum_cell(column: Column | None) -> str:
    """Return a device's cell in the row of an entry; `data-verdict` has each verdict of its claims."""
    if column is None:
        return _NONE
    verdicts = " ".join(each.value for each in Verdict if column.counts[each])
    notes = [counted(column)] if summary(column) is not None else []
    notes += marks(column.evidence) if column.evidence is not None else ["no record yet"]
    return (
        f'<td data-verdict="{verdicts}">{sum_badge(column)}'
        f'<span class="wl-about">{"; ".join(notes)}</span></td>'
    )


def _claim_rows(outcome: Outcome, devices: dict[str, str], measured: Collection[str]) -> list[str]:
    """Return a row a claim, with how it fared on the devices that anything was `measured` on."""
    by_device = {each.device: each.judgements for each in outcome.columns}
    found = pasts(outcome)
    disputed = disputes(found)
    rows = []
    for name, claim in outcome.entry.claims.items():
        cells = "".join(_cell(by_device.get(device, {}).get(name)) for device in devices)
        judged = (each.judgements[name] for each in outcome.columns)
        span = next((each.span for each in judged if each.mean), "")
        fared = reception(name, outcome, found[name], measured).words
        notes = [span, fared, DISPUTED_CLAIM if name in disputed else ""]
        said = "; ".join(filter(None, notes))
        note = f'<span class="wl-about">{said}</span>' if said else ""
        rows.append(_claim_row(outcome, name, claim, note, cells))
    return rows


def _claim_row(outcome: Outcome, name: str, claim: Claim, note: str, cells: str) -> str:
    address = claim_address(outcome, name)
    return (
        f'<tr data-claim="{outcome.entry.slug}#{name}"><th scope="row"><a href="{address}">'
        f"{plain_words(claim.says, SENTENCE_AT_MOST)}</a>{note}</th>{cells}</tr>"
    )


def _cell(judgement: Judgement | None) -> str:
    """Return one device's verdict on a claim, with its interval."""
    if judgement is None:
        return _NONE
    interval = judgement.interval
    words = "" if interval is None else plain_words(pretty_interval(interval, judgement.unit))
    shown = f' <span class="wl-runs">{words}</span>' if words else ""
    return f'<td data-verdict="{judgement.verdict.value}">{glyph(judgement.verdict)}{shown}</td>'


def _form(journal: Journal, devices: dict[str, str], claims: int) -> str:
    """Return the filters: without script they are not there, and they take their place before it runs, so
    that nothing moves. `claims` have rows of their own.
    """
    entries = len(journal.outcomes)
    verdicts = {each.value: each.value for each in Verdict}
    tags = {tag_anchor(tag): tag for tag in journal.tags}
    selects = (
        _select("verdict", "Verdict", "any", verdicts)
        + _select("tag", "Tag", "any", tags)
        + _select("gpu", "GPU", "all", devices)
    )
    return (
        f'<form id="wl-filter" class="wl-filter">{selects}<button type="reset">Show all</button>'
        f'<output aria-live="polite">{entries} of {entries} entries and {claims} of {claims} claims</output>'
        "</form>"
    )


def _select(name: str, label: str, every: str, options: dict[str, str]) -> str:
    choices = "".join(
        f'<option value="{escape(value)}">{plain_words(words)}</option>'
        for value, words in options.items()
    )
    return f'<label>{label} <select name="{name}"><option value="">{every}</option>{choices}</select></label>'
