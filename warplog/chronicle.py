"""Writes the archive by year and the entries by tag. Pure.

The rule kept here: both are whole, an entry is one line, and the anchor of a tag never changes because
another tag came.
"""

from html import escape
from itertools import groupby

from warplog.address import ARCHIVE, MATRIX, tag_anchor
from warplog.catalogue import lines
from warplog.claim import Verdict
from warplog.journal import Journal
from warplog.output import plain_words
from warplog.placeholder import Page
from warplog.sheet import section, sheet
from warplog.tally import MIXED, MIXED_ICON, plural
from warplog.verdicts import ICONS

NO_ENTRY = "<p>No entry yet.</p>"


def legend() -> str:
    """Return what the glyphs mean, in words beside each."""
    said = [(each.value, ICONS[each]) for each in Verdict] + [(MIXED, MIXED_ICON)]
    glyphs = "".join(
        f'<span class="wl-chip"><span class="wl-dot wl-{kind}" aria-hidden="true">{icon}</span> {kind}'
        "</span>"
        for kind, icon in said
    )
    return f'<p class="wl-legend">{glyphs}</p>'


def archive(journal: Journal) -> Page:
    """Return the page of all entries by year, newest first."""
    years = [
        (year, list(found))
        for year, found in groupby(journal.outcomes, key=lambda each: each.entry.date.year)
    ]
    jumps = _jumps([(f"y{year}", str(year), len(found)) for year, found in years])
    parts = [section(f"y{year}", str(year), lines(found)) for year, found in years]
    head = f"<h1>Archive</h1><p>{plural(len(journal.outcomes), 'entry', 'entries')}, newest first."
    head += f' The same against the GPUs: <a href="{MATRIX}">matrix</a>.</p>'
    body = f"{head}{jumps}{legend()}{''.join(parts) or NO_ENTRY}"
    return sheet("Archive", "Every entry by year, with its verdict on each GPU.", body)


def tags(journal: Journal) -> Page:
    """Return the page of all tags, each with its entries, newest first."""
    found = journal.tags
    jumps = _jumps([(tag_anchor(tag), tag, len(each)) for tag, each in found.items()])
    parts = [section(tag_anchor(tag), tag, lines(each)) for tag, each in found.items()]
    head = f"<h1>Tags</h1><p>{plural(len(found), 'tag')}, each with its entries, newest first."
    head += f' By year: <a href="{ARCHIVE}">archive</a>.</p>'
    body = f"{head}{jumps}{legend()}{''.join(parts) or NO_ENTRY}"
    return sheet("Tags", "Every tag with its entries and their verdicts.", body)


def _jumps(found: list[tuple[str, str, int]]) -> str:
    """Return links to the sections of a page: anchor, words, and how many entries are there."""
    links = "".join(
        f'<li><a href="#{escape(anchor)}">{plain_words(words)}</a> <span>{count}</span></li>'
        for anchor, words, count in found
    )
    return f'<ul class="wl-jumps">{links}</ul>' if links else ""
