"""The ways into the journal: the pages that list, sort and compare entries. Pure.

The rule kept here: every list is made from the journal, so that all of them say the same as the entries.
"""

from html import escape

from warplog import verdicts
from warplog.address import entry_address
from warplog.journal import Journal, Outcome
from warplog.placeholder import Page, Tokens

HOME = "index.md"
_MARKER = "<!-- warplog: entries -->"


def pages(journal: Journal) -> dict[str, Page]:
    """Return the pages that no file of site_src holds, by the name that such a file would have."""
    del journal
    return {}


def home(markdown: str, journal: Journal) -> Page:
    """Return the home page with the list of entries, newest first, where its marker stands."""
    tokens = Tokens(markdown)
    items = [_item(outcome) for outcome in journal.outcomes]
    listed = f'<ol class="wl-entries">{"".join(items)}</ol>' if items else "<p>No entry yet.</p>"
    return Page(markdown.replace(_MARKER, tokens.block(listed)), tokens.html)


def _item(outcome: Outcome) -> str:
    entry, evidence = outcome.entry, outcome.own.evidence
    tags = "".join(f"<span>{escape(tag)}</span>" for tag in entry.tags)
    stale = ""
    if evidence is not None and not evidence.fresh:
        stale = '<span class="wl-badge wl-untested">stale record</span>'
    return (
        f'<li><div class="wl-tags"><time datetime="{entry.date}">{entry.date}</time>{tags}</div>'
        f'<div><a class="wl-title" href="{entry_address(entry.slug)}">{escape(entry.title)}</a>'
        f'<p class="wl-summary">{escape(entry.summary)}</p>'
        f"<p>{verdicts.verdict_counts(entry, evidence)} {stale}</p></div></li>"
    )
