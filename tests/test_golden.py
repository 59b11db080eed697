"""The HTML of an entry's parts as it was looked at and found right.

A change that is meant is written anew with ``WARPLOG_GOLDEN=write pytest tests/test_golden.py`` and read
in the difference.
"""

import os
import re
from pathlib import Path

import pytest
from factory import FRONT, Lab, measured, timed
from pages import outcome, publish_b200, publish_later, slow

from warplog.block import SourceBlock, excerpt
from warplog.head import head
from warplog.history import disputes, pasts
from warplog.ledger import claims_table, failures, values_table
from warplog.listing import listing
from warplog.notice import notices
from warplog.provenance import environment, strip
from warplog.reproduction import reproduction

GOLDEN = Path(__file__).parent / "golden"
_BREAK = re.compile(
    r"(?=<(?:div|p|h1|dl|tr|th|td|li|ol|ul|details|figure|figcaption|table|thead|tbody)\b)"
    r"|(?=<span class=\"wl-line\")"
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Two GPUs: three records of one, which agree on one claim and not on the other; a failure."""
    lab = Lab(tmp_path_factory.mktemp("golden") / "lab")
    failed = measured("latency", "wild", None, failed="illegal memory access", batch=31)
    lab.publish(lab.artifact(kernel="pass\n"), timed(batch=31), recorded="2026-12-01T10:15:00Z")
    publish_later(lab, [*timed(batch=31), failed], 2)
    publish_later(lab, [*timed(batch=31), *slow(9, batch=1), failed], 4)
    publish_b200(lab, disturbed=["thermal slowdown"])
    front = FRONT.replace(
        "    at_least: 10\n",
        "    at_least: 10\n    cause: The post timed an empty queue.\n    reported: {value: 32.9, "
        "device: nvidia-b200, by: the post, url: 'https://example.org/a?b&c'}\n"
        "  exact: {says: It is exact & quick., metric: mismatches, subject: kernel, equals: 0}\n"
        "  one-row: {says: One row is slow., metric: speedup, subject: kernel, over: peer, "
        "workload: batch=1, at_most: 2}\n",
    )
    lab.entry(front)
    return outcome(lab)


def _tables(found):
    past = pasts(found)
    return claims_table(found, past, disputes(past))


PARTS = {
    "head": head,
    "notices": lambda found: notices(found, disputes(pasts(found))),
    "strip": lambda found: strip(found.evidence, "https://git.example/warplog"),
    "claims": _tables,
    "values": values_table,
    "failures": lambda found: failures(found.evidence),
    "listing": lambda found: listing(
        excerpt(SourceBlock("kernel.py", "kernel"), found.known.artifact),
        "kernel-py",
        "<a>whole</a>",
    ),
    "reproduction": reproduction,
    "environment": environment,
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_page_is_as_it_was_looked_at(found, part):
    """One element a line, so that a difference reads."""
    html = _BREAK.sub("\n", PARTS[part](found)).lstrip("\n") + "\n"
    path = GOLDEN / f"entry-{part}.html"
    if os.environ.get("WARPLOG_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(html, encoding="utf-8", newline="\n")
    assert html == path.read_text(encoding="utf-8")
