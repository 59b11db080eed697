"""Addresses on the site, from its top; a page puts its way to the top before them.

The rule kept here: a path of the repository is the same path on the site, an entry is found by its slug,
and every address names a file, so that the site also works where it lies on a disk.
"""

from warplog.record import Record

FROM_ENTRY = "../"
FROM_DEVICE = "../"


def entry_address(slug: str) -> str:
    """Return where the page of an entry is."""
    return f"entries/{slug}.html"


def device_address(device: str) -> str:
    """Return where the page of a device is."""
    return f"gpus/{device}.html"


def record_address(record: Record, file: str) -> str:
    """Return where a raw record is; `file` is its name: ``2026-12-02T101500Z.json``."""
    return f"artifacts/{record.artifact}/records/{record.device}/{file}"


def source_address(artifact: str, file: str) -> str:
    """Return where a file of an artifact is; `file` may be ``../shared/x.py``."""
    if file.startswith("../"):
        return f"artifacts/{file.removeprefix('../')}"
    return f"artifacts/{artifact}/{file}"
