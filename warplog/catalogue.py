"""Lists entries: in full for the home page, as a line for the archive, the tags and the devices. Pure.

The rule kept here: an entry is never listed without what came of it on each GPU; whatever a contributor
or a record wrote is escaped. `root` leads from the page to the site's top.
"""

from collections.abc import Iterable

from warplog.address import device_address, entry_address, tag_address
from warplog.journal import Column, Outcome
from warplog.notice import caveats, marks
from warplog.output import SENTENCE_AT_MOST, plain_words
from warplog.tally import MIXED, gpu_words, in_words, sum_badge, sum_glyph, summary

_COLUMNS_AT_MOST = 5
_DRAFT = '<span class="wl-badge wl-untested">draft</span> '


def day(outcome: Outcome) -> str:
    """Return an entry's date as HTML."""
    return f"<time>{outcome.entry.date.isoformat()}</time>"


def entry_link(outcome: Outcome, root: str = "", kind: str = "") -> str:
    """Return a link to an entry by its title."""
    named = f' class="{kind}"' if kind else ""
    entry = outcome.entry
    title = plain_words(entry.title, SENTENCE_AT_MOST)
    return f'<a{named} href="{root}{entry_address(entry.slug)}">{title}</a>'


def claim_address(outcome: Outcome, name: str, root: str = "") -> str:
    """Return where a claim stands on the page of its entry."""
    return f"{root}{entry_address(outcome.entry.slug)}#{name}"


def tag_links(outcome: Outcome, root: str = "") -> str:
    """Return the tags of an entry, each a link to the entries that share it."""
    return "".join(
        f'<a href="{root}{tag_address(tag)}">{plain_words(tag)}</a>'
        for tag in dict.fromkeys(outcome.entry.tags)
    )


def full_item(outcome: Outcome) -> str:
    """Return an entry as an item of the home page: date, tags, title, summary, a verdict a GPU."""
    entry = outcome.entry
    draft = _DRAFT * entry.draft
    shown = outcome.columns[:_COLUMNS_AT_MOST]
    rows = "".join(f"<li>{_column(each)}</li>" for each in shown)
    more = len(outcome.columns) - len(shown)
    if more > 0:
        rows += f'<li><a href="{entry_address(entry.slug)}#claims">and {more} more</a></li>'
    return (
        f'<li class="wl-item"><div class="wl-tags">{day(outcome)}{tag_links(outcome)}</div>'
        f'<div class="wl-story"><h3 class="wl-heading">{draft}{entry_link(outcome, kind="wl-title")}</h3>'
        f'<p class="wl-summary">{plain_words(entry.summary, SENTENCE_AT_MOST)}</p></div>'
        f'<ul class="wl-sides">{rows}</ul></li>'
    )


def _column(column: Column) -> str:
    """Return one device's side of an entry: its name, a badge, the counts and what must be said."""
    notes = caveats(column)
    if summary(column) is not None:
        notes.insert(0, counted(column))
    said = "; ".join(plain_words(note) for note in notes)
    return (
        f'<span class="wl-side">{_device(column)}</span> {sum_badge(column)}'
        f' <span class="wl-about">{said}</span>'
    )


def counted(column: Column) -> str:
    """Write what a badge sums up: ``28 supported, 3 refuted`` where mixed, else ``18 claims``."""
    if summary(column) == MIXED:
        return in_words(column.counts)
    count = len(column.judgements)
    return "1 claim" if count == 1 else f"{count} claims"


def _device(column: Column) -> str:
    """Return a device's short name; a link to its page where it has one."""
    name = gpu_words(column.name)
    if column.evidence is None:
        return name
    return f'<a href="{device_address(column.device)}">{name}</a>'


def lines(outcomes: Iterable[Outcome], root: str = "", *, only: str | None = None) -> str:
    """Return entries as a list of lines: date, title, and a glyph with the names of the GPUs on which it
    stands; with `only`, of that device alone, and with its counts.
    """
    items = "".join(_line(each, root, only) for each in outcomes)
    return f'<ol class="wl-lines">{items}</ol>'


def _line(outcome: Outcome, root: str, only: str | None) -> str:
    chips: dict[tuple[str, str], list[str]] = {}
    for column in outcome.columns:
        if only in (None, column.device):
            notes = marks(column.evidence) if column.evidence is not None else []
            words = gpu_words(column.name) if only is None else counted(column)
            chips.setdefault((sum_glyph(column), ", ".join(notes)), []).append(words)
    verdicts = " ".join(_chip(*key, names) for key, names in chips.items())
    draft = '<span class="wl-chip"><i>draft</i></span> ' * outcome.entry.draft
    return f"<li>{day(outcome)}{entry_link(outcome, root)}<span>{draft}{verdicts}</span></li>"


def _chip(glyph: str, notes: str, names: list[str]) -> str:
    """Return a glyph, the names of the GPUs on which it stands, and what must be said of them."""
    beside = f" <i>{notes}</i>" if notes else ""
    return f'<span class="wl-chip">{glyph} {", ".join(names)}{beside}</span>'
