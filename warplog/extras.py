"""The files of the site that are no pages: cards, files for machines, the schema of records, the stylesheet.

The rule kept here: all of them are made from the journal and the site's sources, and from nothing else.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from warplog import exchange, gallery
from warplog.journal import Journal
from warplog.record import schema
from warplog.site import Site

SCHEMA_URI = "record.schema.json"
STYLE_URI = "assets/warplog.css"


def fonts(sources: Path) -> Path:
    """Return the folder of the site's fonts."""
    return sources / "assets" / "fonts"


def extras(
    journal: Journal, site: Site, sources: Path, kept: Path, newest: int | None = None
) -> Iterator[tuple[str, str | bytes | Path]]:
    """Yield each file by its address on the site: its content, or the file that holds it.

    `sources` is the folder of the site's own pages and fonts, `kept` one for cards that may be lost at any
    time. With `newest`, the cards of older entries are not there yet. Raises Fault where a font cannot be
    read.
    """
    cards = gallery.cards(journal, site, fonts(sources), kept, newest)
    yield from cards.items()
    yield from exchange.files(journal, site, cards)
    yield SCHEMA_URI, msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode()
    parts = sorted((sources / "style").glob("*.css"))
    yield STYLE_URI, "\n".join(part.read_text(encoding="utf-8") for part in parts)
