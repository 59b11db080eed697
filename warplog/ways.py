"""The ways into the journal: the pages that list, sort and compare entries. Pure.

The rule kept here: every list is made from the journal, so that all of them say the same as the entries;
none of them is searched, because what they repeat is found where it is told.
"""

import heapq
from collections import Counter
from html import escape

from warplog import chronicle, gpu, matrix, refutation
from warplog.address import (
    ARCHIVE,
    DEVICES,
    FROM_ENTRY,
    MATRIX,
    REFUTED,
    device_address,
    matrix_address,
)
from warplog.catalogue import full_item, lines
from warplog.claim import Verdict
from warplog.journal import Journal, Outcome
from warplog.output import plain_words
from warplog.placeholder import Page, Tokens
from warplog.tally import gpu_words, plural

HOME = "index.md"
NEWEST = 20
RELATED = 3
_NUMBERS = "<!-- warplog: numbers -->"
_ENTRIES = "<!-- warplog: entries -->"
_LOOKED_AT = 200
_NAMED_AT_MOST = 4


def pages(journal: Journal) -> dict[str, Page]:
    """Return the pages that no file of site_src holds, by the name that such a file would have."""
    return {
        "matrix.md": matrix.page(journal),
        "did-not-hold.md": refutation.page(journal),
        "archive.md": chronicle.archive(journal),
        "tags.md": chronicle.tags(journal),
        **gpu.pages(journal),
    }


def home(markdown: str, journal: Journal) -> Page:
    """Return the home page with its numbers and its newest entries where its markers stand."""
    tokens = Tokens(markdown)
    for marker, html in ((_NUMBERS, numbers(journal)), (_ENTRIES, _newest(journal))):
        markdown = markdown.replace(marker, tokens.block(html))
    return Page(markdown, tokens.html)


def numbers(journal: Journal) -> str:
    """Return in one sentence how much there is and what came of it, each number a link, as HTML."""
    if not journal.outcomes:
        return '<p class="wl-numbers">Nothing is published yet.</p>'
    counts = journal.counts
    entries = _link(ARCHIVE, plural(len(journal.outcomes), "entry", "entries"))
    claims = _link(MATRIX, plural(sum(counts.values()), "claim"))
    always = (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.INCONCLUSIVE)
    shown = [each for each in Verdict if each in always or counts[each]]
    said = [
        _link(matrix_address(verdict=each.value), f"{counts[each] or 'none'} {each.value}")
        for each in shown
    ]
    return (
        f'<p class="wl-numbers">So far {entries} and {claims}: {_series(said)}, each on the GPU of its '
        f"entry; {_devices(journal)}. {_link(REFUTED, 'What did not hold, and why')}.</p>"
    )


def _devices(journal: Journal) -> str:
    """Say on how many kinds of GPU anything was measured, by name where they are few."""
    found = journal.devices
    if not found:
        return "nothing was measured on a GPU yet"
    if len(found) > _NAMED_AT_MOST:
        return f"measured on {_link(DEVICES, plural(len(found), 'kind') + ' of GPU')}"
    names = [
        f'<a href="{device_address(device)}">{gpu_words(name)}</a>'
        for device, name in found.items()
    ]
    kinds = "one kind of GPU, " if len(found) == 1 else f"{len(found)} kinds of GPU, "
    return f"measured on {kinds}{_series(names)}"


def _link(address: str, words: str) -> str:
    return f'<a href="{escape(address)}">{plain_words(words)}</a>'


def _series(parts: list[str]) -> str:
    """Join as a sentence does: ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _newest(journal: Journal) -> str:
    if not journal.outcomes:
        return "<p>No entry yet.</p>"
    items = "".join(full_item(each) for each in journal.outcomes[:NEWEST])
    more = ""
    if len(journal.outcomes) > NEWEST:
        words = f"All {len(journal.outcomes)} entries, by year"
        more = f'<p class="wl-more-entries">{_link(ARCHIVE, words)}</p>'
    return f'<ol class="wl-items wl-entries">{items}</ol>{more}'


def related(outcome: Outcome, journal: Journal) -> str:
    """Return 'Read on' for the page of an entry: up to 3 entries that share the most tags with it, the
    newest first among equals; empty where none shares any. Of each tag its 200 newest are looked at.
    """
    shared: Counter[str] = Counter()
    for tag in dict.fromkeys(outcome.entry.tags):
        shared.update(each.entry.place for each in journal.tags[tag][:_LOOKED_AT])
    del shared[outcome.entry.place]
    best = heapq.nlargest(RELATED, shared, key=lambda place: (shared[place], place))
    if not best:
        return ""
    listed = lines((journal.by_place[place] for place in best), FROM_ENTRY)
    return (
        '<nav class="wl-related" aria-label="Read on" data-search-exclude>'
        f'<p class="wl-label">Read on</p>{listed}</nav>'
    )
