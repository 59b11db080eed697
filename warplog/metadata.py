"""What the theme's templates show of an entry beside its page: title, description, card, neighbours. Pure.

The rule kept here: templates do not escape, so everything is escaped here.
"""

from html import escape
from typing import Any

from warplog import gallery
from warplog.address import card_address, entry_address
from warplog.journal import Journal, Outcome


def metadata(outcome: Outcome, journal: Journal) -> dict[str, Any]:
    """Return what templates show of an entry, by name.

    `prev` and `next` are the entries before and after by date, as `url` from the site's top and `title`.
    """
    entry = outcome.entry
    older, newer = journal.neighbours(outcome)
    return {
        "title": escape(entry.title),
        "description": escape(entry.summary),
        "date": entry.date.isoformat(),
        "tags": [escape(tag) for tag in entry.tags],
        "image": card_address(entry.slug),
        "image_alt": escape(gallery.described(outcome)),
        "kind": "entry",
        "hide": ["navigation"],
        "prev": _link(older),
        "next": _link(newer),
    }


def _link(outcome: Outcome | None) -> dict[str, str] | None:
    if outcome is None:
        return None
    return {"url": entry_address(outcome.entry.slug), "title": escape(outcome.entry.title)}
