"""What the site is called and where it is published.

The rule kept here: a page finds its neighbours from its own place, and only what leaves the site (feeds,
cards, files for machines) names the whole address.
"""

from urllib.parse import quote

from msgspec import Struct


class Site(Struct, frozen=True):
    """The name of the journal, one sentence about it, and its address, which ends with a slash.

    An empty address leaves every address relative to the site's top.
    """

    name: str
    description: str
    url: str

    def absolute(self, address: str) -> str:
        """Return the whole address of what is at `address` from the site's top, fit for a link."""
        return self.url + quote(address, safe="/#")
