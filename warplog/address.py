"""Addresses on the site, from its top; a page puts its way to the top before them.

The rule kept here: a path of the repository is the same path on the site, an entry is found by its slug,
and every address names a file, so that the site also works where it lies on a disk.
"""

import hashlib
import re
from urllib.parse import urlencode

from warplog.markup import slugify
from warplog.record import Record

FROM_ENTRY = "../"
FROM_DEVICE = "../"
ARCHIVE = "archive.html"
DEVICES = "gpus.html"
MATRIX = "matrix.html"
REFUTED = "did-not-hold.html"
SITE_CARD = "assets/card.png"
TAGS = "tags.html"

_OWN_ANCHOR = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_DIGEST = 6


def entry_address(slug: str) -> str:
    """Return where the page of an entry is."""
    return f"entries/{slug}.html"


def device_address(device: str) -> str:
    """Return where the page of a device is."""
    return f"gpus/{device}.html"


def card_address(slug: str) -> str:
    """Return where the picture is that stands beside a link to an entry."""
    return f"assets/cards/{slug}.png"


def record_address(record: Record, file: str) -> str:
    """Return where a raw record is; `file` is its name: ``2026-12-02T101500Z.json``."""
    return f"artifacts/{record.artifact}/records/{record.device}/{file}"


def source_address(artifact: str, file: str) -> str:
    """Return where a file of an artifact is; `file` may be ``../shared/x.py``."""
    if file.startswith("../"):
        return f"artifacts/{file.removeprefix('../')}"
    return f"artifacts/{artifact}/{file}"


def matrix_address(**filters: str) -> str:
    """Return where the matrix is, filtered by `verdict`, `tag` (its anchor) or `gpu` (a device)."""
    return f"{MATRIX}?{urlencode(filters)}" if filters else MATRIX


def tag_anchor(tag: str) -> str:
    """Return the anchor of a tag on the page of tags: the tag itself where it can be an anchor.

    Any other tag has a digest of itself behind what is left of it, so that ``C`` and ``C++`` stay apart
    and an anchor does not change when another tag comes.
    """
    if _OWN_ANCHOR.match(tag):
        return tag
    digest = hashlib.sha256(tag.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return "-".join(filter(None, [slugify(tag).strip("-_"), digest]))


def tag_address(tag: str) -> str:
    """Return where the entries of a tag are listed."""
    return f"{TAGS}#{tag_anchor(tag)}"
