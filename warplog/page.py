"""Writes the page of an entry: prose with its measured values, verdicts, figures, code, provenance. Pure.

The rule kept here: only the author's prose passes through Markdown. Everything else is HTML that waits
behind an opaque token and is put in afterwards; whatever comes from records, front matter or programs is
escaped where it is shown. What was measured from other source is not shown as current.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape

from warplog import figure, verdicts
from warplog.address import FROM_ENTRY
from warplog.block import Block, FigureBlock, SourceBlock, excerpt
from warplog.entry import Entry
from warplog.evidence import Evidence, Known
from warplog.fault import Fault
from warplog.hypertext import Reader
from warplog.journal import Outcome
from warplog.listing import listing
from warplog.placeholder import TOKEN, Page, Tokens
from warplog.provenance import duration, provenance_table, record_link


def refuse_active(html: str, page: Page, place: str) -> None:
    """Raise Fault where the author's rendered prose, still with its tokens, could run something in a
    reader's browser, or where a measured number does not stand in prose. `place` is the entry's file.
    """
    reader = Reader()
    reader.read(html)
    for finding in reader.findings:
        problem = f"active HTML on the page: {finding.what}"
        raise Fault(place, problem, "put it in backticks, or leave it out")
    prose = " ".join(reader.prose)
    shown = Counter(TOKEN.findall(prose))
    everywhere = Counter(TOKEN.findall(html))
    for token, link in page.numbers.items():
        if not shown[token] or shown[token] != everywhere[token]:
            problem = "a measured number in code, in a link, in a heading or in an attribute"
            raise Fault(link, problem, "write it in a sentence of its own")


def write(outcome: Outcome) -> Page:
    """Return the page of an entry from the records of its artifact, or raise Fault at a block's line
    where a figure or a listing cannot be made.
    """
    entry, known, devices = outcome.entry, outcome.known, outcome.evidence
    tokens = Tokens(entry.body.text)
    numbers: dict[str, str] = {}
    parts = [
        tokens.block(_head(entry, known)),
        _narrative(entry, known, devices, tokens, numbers),
        "\n\n## Claims",
        tokens.block(verdicts.claims_table(entry, devices) + verdicts.failures(devices)),
    ]
    if entry.values:
        table = verdicts.values_table(entry, devices)
        parts += ["## Measured values", tokens.block(table)]
    parts += _code(entry, known, tokens)
    parts += ["## Reproduce", tokens.block(_reproduce(entry, known))]
    if devices:
        parts += ["## Provenance", tokens.block(provenance_table(devices, FROM_ENTRY))]
    return Page("".join(parts), tokens.html, numbers)


def _head(entry: Entry, known: Known) -> str:
    """Return the head of a page: date, tags, title, summary, verdicts, and what must be said first."""
    evidence = known.devices.get(entry.device)
    tags = "".join(f"<span>{escape(tag)}</span>" for tag in entry.tags)
    device = evidence.name if evidence else entry.device
    return (
        f'<header class="wl-head"><div class="wl-tags"><time datetime="{entry.date}">{entry.date}'
        f"</time>{tags}</div><h1>{escape(entry.title)}</h1>"
        f'<p class="wl-summary">{escape(entry.summary)}</p>'
        f'<p class="wl-counts">{verdicts.verdict_counts(entry, evidence)} '
        f'<span class="wl-about">on {escape(device)}</span></p></header>{notices(entry, evidence)}'
    )


def notices(entry: Entry, evidence: Evidence | None) -> str:
    """Return what a reader must know before the numbers: no record, stale, disturbed."""
    words = []
    if evidence is None:
        words.append(f"Nothing was measured on {entry.device} yet: every claim is untested.")
    elif not evidence.fresh:
        words.append(
            f"Stale: {', '.join(evidence.changed)} changed since the numbers of "
            f"{evidence.record.recorded} were measured, so none is shown as current."
        )
    if evidence is not None and evidence.record.disturbed:
        words.append(f"Disturbed: {'; '.join(evidence.record.disturbed)}.")
    return "".join(f'<p class="wl-notice" role="note">{escape(each)}</p>' for each in words)


def _narrative(
    entry: Entry,
    known: Known,
    devices: Sequence[Evidence],
    tokens: Tokens,
    numbers: dict[str, str],
) -> str:
    """Return the author's prose with a token for each measured number and each block.

    Adds the tokens of the numbers to `numbers`, with the places of their links.
    """
    evidence = known.devices.get(entry.device)
    changes: list[tuple[int, int, str]] = []
    for link in entry.body.links:
        html = verdicts.value(link.id, entry.quantities[link.id], evidence)
        token = tokens.inline(html)
        numbers[token] = entry.at(link.start)
        changes.append((link.start, link.end, token))
    figures = 0
    for placed in entry.body.blocks:
        figures += isinstance(placed.block, FigureBlock)
        html = _block(placed.block, known, devices, figures)
        changes.append((placed.start, placed.end, tokens.block(html)))
    text, pieces, last = entry.body.text, [], entry.body.start
    for start, end, token in sorted(changes):
        pieces += [text[last:start], token]
        last = end
    return "".join([*pieces, text[last:]]).replace("\r\n", "\n")


def _block(block: Block, known: Known, devices: Sequence[Evidence], number: int) -> str:
    if isinstance(block, SourceBlock):
        return listing(excerpt(block, known.artifact))
    if not known.fresh_records:
        words = f"Figure {number}, {block.title}, waits for a record from this very source."
        return f'<p class="wl-notice">{escape(words)}</p>'
    fresh = [each for each in devices if each.fresh]
    links = ", ".join(record_link(each, FROM_ENTRY) for each in fresh)
    drawn = figure.panels(block, fresh)
    return figure.draw(block, drawn, number, f'<span class="wl-about">Source: {links}</span>')


def _code(entry: Entry, known: Known, tokens: Tokens) -> list[str]:
    """Return all of kernel.py where the entry shows no source itself."""
    if any(isinstance(placed.block, SourceBlock) for placed in entry.body.blocks):
        return []
    if not (known.artifact.folder / "kernel.py").is_file():
        return []
    whole = SourceBlock("kernel.py", place=entry.place)
    return ["## Code", tokens.block(listing(excerpt(whole, known.artifact)))]


def _reproduce(entry: Entry, known: Known) -> str:
    """Return the command that measures the page again, and how long it takes."""
    evidence = known.devices.get(entry.device)
    took = ""
    if evidence is not None:
        device = escape(evidence.name)
        took = f"<p>It takes about {duration(evidence.record.seconds)} on one {device}, "
        took += f"{evidence.record.protocol.runs} fresh processes in all.</p>"
    return (
        f'<div class="highlight wl-command"><pre><code>nox -s reproduce -- {entry.slug}</code></pre>'
        f"</div>{took}"
    )
