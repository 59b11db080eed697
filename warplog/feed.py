"""The newest entries as an RSS and as a JSON feed. Pure.

The rule kept here: an item says what came of its claims on each device, reads without the site's styles,
and names whole addresses; the day of an entry is its date, so that the same journal gives the same feed.

We write the feeds ourselves: mkdocs-rss-plugin asks the network for the length of each image whose address
is whole, leaves tags unescaped in its XML, dates a feed by the build, and needs git and an HTTP library.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from email.utils import format_datetime
from html import escape
from xml.etree import ElementTree as ET

import msgspec

from warplog.address import card_address, entry_address
from warplog.claim import Verdict
from warplog.journal import Journal, Outcome
from warplog.outline import Line, headline_words, lines, plain
from warplog.site import Site

RSS = "feed_rss_created.xml"
JSON = "feed_json_created.json"
ITEMS_AT_MOST = 20
_ATOM = "http://www.w3.org/2005/Atom"

ET.register_namespace("atom", _ATOM)


def rss(journal: Journal, site: Site, sizes: Mapping[str, int]) -> bytes:
    """Return an RSS 2.0 feed; `sizes` are the lengths in bytes of the cards, by address: an item whose
    card is not in it has no image.
    """
    root = ET.Element("rss", version="2.0")
    channel = ET.SubElement(root, "channel")
    _add(channel, "title", site.name)
    _add(channel, "link", site.absolute("index.html"))
    _add(channel, "description", site.description)
    _add(channel, "language", "en")
    ET.SubElement(
        channel,
        f"{{{_ATOM}}}link",
        href=site.absolute(RSS),
        rel="self",
        type="application/rss+xml",
    )
    newest = journal.outcomes[:ITEMS_AT_MOST]
    if newest:
        _add(channel, "lastBuildDate", format_datetime(_noon(newest[0].entry.date)))
    for outcome in newest:
        _add_item(channel, outcome, site, sizes)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _add_item(channel: ET.Element, outcome: Outcome, site: Site, sizes: Mapping[str, int]) -> None:
    entry = outcome.entry
    item = ET.SubElement(channel, "item")
    address = site.absolute(entry_address(entry.slug))
    _add(item, "title", plain(entry.title))
    _add(item, "link", address)
    ET.SubElement(item, "guid", isPermaLink="true").text = address
    _add(item, "pubDate", format_datetime(_noon(entry.date)))
    for tag in entry.tags:
        _add(item, "category", plain(tag))
    _add(item, "description", content(outcome))
    card = card_address(entry.slug)
    if card in sizes:
        length = str(sizes[card])
        ET.SubElement(item, "enclosure", url=site.absolute(card), type="image/png", length=length)


def _add(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = text


def json_feed(journal: Journal, site: Site, sizes: Mapping[str, int]) -> bytes:
    """Return a JSON feed of version 1.1 with the same items and the same images."""
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": site.name,
        "home_page_url": site.absolute("index.html"),
        "feed_url": site.absolute(JSON),
        "description": site.description,
        "language": "en",
        "items": [_item(outcome, site, sizes) for outcome in journal.outcomes[:ITEMS_AT_MOST]],
    }
    return msgspec.json.format(msgspec.json.encode(feed), indent=1)


def _item(outcome: Outcome, site: Site, sizes: Mapping[str, int]) -> dict[str, object]:
    entry = outcome.entry
    address = site.absolute(entry_address(entry.slug))
    card = card_address(entry.slug)
    image = {"image": site.absolute(card)} if card in sizes else {}
    return {
        "id": address,
        "url": address,
        "title": plain(entry.title),
        "summary": plain(entry.summary),
        "content_html": content(outcome),
        "date_published": _noon(entry.date).isoformat(),
        "tags": [plain(tag) for tag in entry.tags],
        **image,
    }


def content(outcome: Outcome) -> str:
    """Return what a feed reader shows of an entry: its summary and a table of verdicts by device."""
    heads = "".join(f'<th scope="col">{word}</th>' for word in ("GPU", "Headline", *Verdict))
    rows = "".join(_row(line) for line in lines(outcome))
    words = headline_words(outcome)
    headline = f"<p>Headline: {escape(words)}.</p>" if words else ""
    return (
        f"<p>{escape(plain(outcome.entry.summary))}</p>{headline}"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(line: Line) -> str:
    """Return one device: its number with the interval and what must be said, and its counts."""
    said = [line.number, f"({line.interval})" if line.interval else "", line.note]
    number = escape(" ".join(filter(None, said))) or "not measured"
    counts = "".join(f"<td>{line.counts[verdict]}</td>" for verdict in Verdict)
    return f'<tr><th scope="row">{escape(line.name)}</th><td>{number}</td>{counts}</tr>'


def _noon(day: date) -> datetime:
    """Return noon of a day, which is that day in most of the world."""
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
