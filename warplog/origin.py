"""Writes where a number or a line comes from: its raw record, its commit, its file. Pure.

The rule kept here: a link into the repository names a commit that holds just these lines; where none is
known to, it leads to the copy that the site publishes beside the page.
"""

import re
from html import escape

from warplog.address import FROM_ENTRY, record_address, source_address
from warplog.block import Excerpt
from warplog.evidence import Evidence
from warplog.output import plain_words

_SHORT = 12
_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})")
_KIBIBYTE = 1024


def record_link(evidence: Evidence, root: str, words: str = "") -> str:
    """Return a link to the raw record as HTML; `root` leads from the page to the site's top.

    `words` is escaped text; the device and the file by default.
    """
    record, file = evidence.record, evidence.path.name
    shown = words or escape(f"{record.device}/{file}")
    return f'<a href="{escape(root + record_address(record, file))}">{shown}</a>'


def size(evidence: Evidence) -> str:
    """Return how large the raw record is: ``413 KiB``."""
    found = evidence.path.stat().st_size
    return f"{found / _KIBIBYTE:.0f} KiB" if found >= _KIBIBYTE else f"{found} bytes"


def day_and_time(recorded: str) -> str:
    """Return a record's UTC time to the minute, as a person reads it: ``2026-12-02 10:15``."""
    found = _TIME.match(recorded)
    return f"{found[1]} {found[2]}" if found else plain_words(recorded)


def commit_link(evidence: Evidence, repository_url: str) -> str:
    """Return the record's commit, a link where the repository's address is known; empty without one."""
    commit = evidence.record.source.commit
    if commit is None:
        return ""
    shown = plain_words(commit[:_SHORT])
    if not repository_url or not _COMMIT.match(commit):
        return shown
    return f'<a href="{escape(repository_url.rstrip("/"))}/commit/{commit}">{shown}</a>'


def file_link(
    excerpt: Excerpt, artifact: str, evidence: Evidence | None, repository_url: str
) -> str:
    """Return a link to the lines that `excerpt` shows: in the repository at the commit of the record that
    was measured from them, or else to the file as published.
    """
    address = source_address(artifact, excerpt.file)
    source = evidence.record.source if evidence is not None and evidence.fresh else None
    commit = source.commit if source is not None and not source.modified else None
    if not repository_url or commit is None or not _COMMIT.match(commit):
        return f'<a href="{escape(FROM_ENTRY + address)}">view the file</a>'
    last = excerpt.first + excerpt.text.count("\n")
    top = f"{repository_url.rstrip('/')}/blob/{commit}/{address}"
    return f'<a href="{escape(top)}#L{excerpt.first}-L{last}">view in repository</a>'
