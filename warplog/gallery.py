"""The cards of a journal as files: one an entry and one for the site.

The rule kept here: a card is painted once and kept under a digest of all that it is made from, the fonts
and the code that paints too, so that a build paints only what changed and the same journal gives the same
bytes. A card is written whole or not at all, and one that is not whole is painted again.
"""

import hashlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from warplog import card, raster, typeface
from warplog.address import SITE_CARD, card_address
from warplog.cache import FOLDER
from warplog.card import Card, Painter
from warplog.fault import Fault
from warplog.journal import Journal, Outcome
from warplog.outline import Line, headline_words, lines, plain, tally
from warplog.site import Site

_PAINTED_BY = (card, raster, typeface)


def cards(
    journal: Journal, site: Site, fonts: Path, kept: Path, newest: int | None = None
) -> dict[str, Path]:
    """Return the file of each card by its address on the site.

    `fonts` is the folder of the site's fonts, `kept` that of the cache. With `newest`, only the cards of
    so many entries are painted, and that of the site. Raises Fault where a font cannot be read or a card
    cannot be written.
    """
    wanted = {card_address(each.entry.slug): entry_card(each, site) for each in journal.outcomes}
    wanted[SITE_CARD] = site_card(journal, site)
    made_by = _digest(fonts)
    paths = {address: kept / _name(each, made_by) for address, each in wanted.items()}
    asked = {SITE_CARD, *(card_address(each.entry.slug) for each in journal.outcomes[:newest])}
    missing = {paths[address]: wanted[address] for address in asked if not _held(paths[address])}
    if missing:
        painter = Painter(fonts)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(lambda item: _write(item[0], painter.paint(item[1])), missing.items()))
    return paths


class Studio:
    """Paints the cards of entries one by one, into the folder `kept` of the cache."""

    def __init__(self, site: Site, fonts: Path, kept: Path) -> None:
        self._site, self._kept = site, kept
        self._made_by, self._painter = _digest(fonts), Painter(fonts)

    def keep(self, outcome: Outcome) -> None:
        """Paint the card of an entry, if that is not done yet; raises Fault where it cannot be written."""
        each = entry_card(outcome, self._site)
        path = self._kept / _name(each, self._made_by)
        if not _held(path):
            _write(path, self._painter.paint(each))


def entry_card(outcome: Outcome, site: Site) -> Card:
    """Return what the card of an entry shows."""
    entry = outcome.entry
    return Card(
        name=site.name,
        beside=" \u00b7 ".join([entry.date.isoformat(), *map(plain, entry.tags)]),
        title=plain(entry.title),
        summary=plain(entry.summary),
        about=headline_words(outcome),
        lines=lines(outcome),
    )


def site_card(journal: Journal, site: Site) -> Card:
    """Return what the card of the site shows: how much there is, and what came of it."""
    counts = journal.counts
    entries = _counted(len(journal.outcomes), "entry", "entries")
    gpus = _counted(len(journal.devices), "GPU", "GPUs")
    claims = _counted(counts.total(), "claim", "claims")
    about = "each claim once, with its verdict on the GPU of its entry" if counts else ""
    line = Line(f"{entries} on {gpus}", claims, "", "", counts)
    return Card(site.name, "", site.description, "", about, [line])


def described(outcome: Outcome) -> str:
    """Return in words what the card of an entry shows."""
    came = [
        f"{line.name}: {', '.join(filter(None, [line.number, tally(line.counts), line.note]))}"
        for line in lines(outcome)
    ]
    return plain("; ".join([outcome.entry.title, *came]))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _digest(fonts: Path) -> str:
    """Return a digest of the fonts and of the code that paints."""
    paths = [*sorted(fonts.glob("*.woff2")), *(Path(str(each.__file__)) for each in _PAINTED_BY)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _name(each: Card, made_by: str) -> str:
    content = made_by.encode() + msgspec.json.encode(each)
    name = hashlib.sha256(content).hexdigest()
    return f"{name[:2]}/{name[2:32]}.png"


def _held(path: Path) -> bool:
    """Return whether a whole card is at `path`, and note that it was used."""
    try:
        whole = raster.is_whole(path.read_bytes())
        if whole:
            path.touch()
    except OSError:
        return False
    return whole


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError as error:
        problem = f"the card of a page cannot be written ({error.strerror})"
        raise Fault(FOLDER, problem, "remove what stands in the way there") from None
