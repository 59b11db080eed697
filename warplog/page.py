"""Writes the page of an entry: prose with its measured values, verdicts, figures, code, provenance. Pure.

The rule kept here: only the author's prose passes through Markdown. Everything else is HTML that waits
behind an opaque token and is put in afterwards; whatever comes from records, front matter or programs is
escaped where it is shown. What was measured from other source is not shown as current.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, count

from warplog import figure
from warplog.address import FROM_ENTRY
from warplog.block import Block, FigureBlock, SourceBlock, excerpt
from warplog.fault import Fault
from warplog.head import head
from warplog.history import disputes, pasts
from warplog.hypertext import Reader
from warplog.journal import Outcome
from warplog.ledger import claims_table, failures, values_table
from warplog.listing import listing
from warplog.notice import notices
from warplog.origin import file_link, record_link
from warplog.output import plain_words
from warplog.placeholder import TOKEN, Page, Tokens
from warplog.provenance import environment, strip
from warplog.reproduction import reproduction
from warplog.verdicts import number

_PROVENANCE = "## Environment and provenance {#provenance}"
_NO_ANCHOR = re.compile(r"[^A-Za-z0-9]+")


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


@dataclass(frozen=True)
class _Draft:
    """A page while it is written: what it hides behind tokens, and the anchors that are taken."""

    outcome: Outcome
    repository_url: str
    tokens: Tokens
    numbers: dict[str, str] = field(default_factory=dict)
    lines: set[str] = field(default_factory=set)


def write(outcome: Outcome, repository_url: str = "", related: str = "") -> Page:
    """Return the page of an entry from the records of its artifact, or raise Fault at a block's line
    where a figure or a listing cannot be made.

    `repository_url` is where a browser finds the repository, if anywhere; `related` is HTML that ends
    the page.
    """
    draft = _Draft(outcome, repository_url, Tokens(outcome.entry.body.text))
    block = draft.tokens.block
    found = pasts(outcome)
    disputed = disputes(found)
    above = head(outcome) + notices(outcome, disputed) + strip(outcome.evidence, repository_url)
    claims = claims_table(outcome, found, disputed) + failures(outcome.evidence)
    parts = [block(above), _narrative(draft), "\n\n## Claims", block(claims)]
    if outcome.entry.values:
        parts += ["## Measured values", block(values_table(outcome))]
    parts += _code(draft)
    parts += ["## Reproduce", block(reproduction(outcome))]
    if outcome.evidence:
        parts += [_PROVENANCE, block(environment(outcome))]
    if related:
        parts.append(block(related))
    return Page("".join(parts), draft.tokens.html, draft.numbers)


def _narrative(draft: _Draft) -> str:
    """Return the author's prose with a token for each measured number and each block."""
    entry = draft.outcome.entry
    changes: list[tuple[int, int, str]] = []
    for link in entry.body.links:
        html = number(link.id, entry.quantities[link.id], draft.outcome.own.evidence)
        token = draft.tokens.inline(html)
        draft.numbers[token] = entry.at(link.start)
        changes.append((link.start, link.end, token))
    figures = 0
    for placed in entry.body.blocks:
        figures += isinstance(placed.block, FigureBlock)
        html = _block(placed.block, draft, figures)
        changes.append((placed.start, placed.end, draft.tokens.block(html)))
    text, pieces, last = entry.body.text, [], entry.body.start
    for start, end, token in sorted(changes):
        pieces += [text[last:start], token]
        last = end
    return "".join([*pieces, text[last:]]).replace("\r\n", "\n")


def _block(block: Block, draft: _Draft, place: int) -> str:
    """Return a figure, the `place`-th of its page, or a listing."""
    if isinstance(block, SourceBlock):
        return _listing(block, draft)
    evidence = draft.outcome.evidence
    if not any(each.fresh for each in evidence):
        words = f"Figure {place}, {block.title}, waits for a record from this very source."
        return f'<p class="wl-notice">{plain_words(words)}</p>'
    found = figure.panels(block, evidence)
    paired = zip(evidence, found, strict=True)
    links = ", ".join(record_link(each, FROM_ENTRY) for each, panel in paired if not panel.missing)
    return figure.draw(block, found, place, f'<span class="wl-about">Source: {links}</span>')


def _listing(block: SourceBlock, draft: _Draft) -> str:
    """Return a listing whose lines have anchors that no other listing of the page has."""
    found = excerpt(block, draft.outcome.known.artifact)
    name = _NO_ANCHOR.sub("-", found.file).strip("-")
    numbers = range(found.first, found.first + found.text.count("\n") + 1)
    names = chain([name], (f"{name}-{again}" for again in count(2)))
    taken = ((each, {f"{each}-L{line}" for line in numbers}) for each in names)
    anchor, ids = next((each, ids) for each, ids in taken if not ids & draft.lines)
    draft.lines.update(ids)
    outcome = draft.outcome
    link = file_link(found, outcome.entry.artifact, outcome.own.evidence, draft.repository_url)
    return listing(found, anchor, link)


def _code(draft: _Draft) -> list[str]:
    """Return all of kernel.py where the entry shows no source itself."""
    entry = draft.outcome.entry
    if any(isinstance(placed.block, SourceBlock) for placed in entry.body.blocks):
        return []
    if not (draft.outcome.known.artifact.folder / "kernel.py").is_file():
        return []
    whole = SourceBlock("kernel.py", place=entry.place)
    return ["## Code", draft.tokens.block(_listing(whole, draft))]
