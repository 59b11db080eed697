"""What the journal gives to machines: every entry, claim, verdict and interval as files. Pure.

The rule kept here: a machine reads the same numbers and verdicts as a person does on the pages.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from warplog import dataset, export, feed, guide
from warplog.address import card_address
from warplog.journal import Journal
from warplog.site import Site


def files(
    journal: Journal, site: Site, cards: Mapping[str, Path]
) -> Iterator[tuple[str, str | bytes]]:
    """Yield the address from the site's top and the content of each file for machines.

    `cards` are the files of the pictures by address; the feeds name those that are there. A feed names whole
    addresses, so a site without one has none.
    """
    yield dataset.FILE, export.write(journal, site)
    schema = msgspec.json.encode(dataset.schema())
    yield dataset.SCHEMA_FILE, msgspec.json.format(schema, indent=2)
    if site.url:
        newest = (card_address(each.entry.slug) for each in journal.outcomes[: feed.ITEMS_AT_MOST])
        sizes = {address: cards[address].stat().st_size for address in newest if address in cards}
        yield feed.RSS, feed.rss(journal, site, sizes)
        yield feed.JSON, feed.json_feed(journal, site, sizes)
    yield guide.LLMS, guide.llms(journal, site)
    yield guide.ROBOTS, guide.robots(site)
