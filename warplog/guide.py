"""Guides for machines: llms.txt for a model that reads the site, robots.txt for a crawler. Pure.

The rule kept here: a number is never given without its device and its verdicts, and whoever cites one is
told what to cite with it. The format of llms.txt is that of https://llmstxt.org.
"""

import re

from warplog import dataset, feed
from warplog.address import MATRIX, REFUTED, entry_address
from warplog.journal import Journal, Outcome
from warplog.outline import Line, headline_words, lines, plain, tally
from warplog.site import Site

LLMS = "llms.txt"
ROBOTS = "robots.txt"
_NEWEST = 50
_SPECIAL = re.compile(r"([\\\[\]`*_<>])")

_METHOD = """\
Each entry is bound to a runnable artifact: a kernel, its slow reference, and a script that measures both.
A claim is one falsifiable sentence with a metric and bounds.
Its measured value on a GPU is the interval from the lowest to the highest of several fresh processes.
The verdict is how that interval lies to the bounds:

- *supported*: inside.
- *refuted*: apart. This is a result, and stays.
- *inconclusive*: astride.
- *untested*: nothing was measured from this very source."""

_CITING = """\
To cite a claim, give its address (the page of the entry, `#`, the id of the claim), the GPU, the verdict,
the interval with its unit, and the date of the record; site.json has them under `claims` and `devices`.
A verdict holds for the GPU that it names and for no other.
What stands as reported was said by others, and counts as far as the verdict supports it.
A number whose record is stale is not current; one that is marked disturbed, of an older protocol or
disputed is to be cited with that mark."""


def llms(journal: Journal, site: Site) -> str:
    """Return llms.txt: what this is, how to cite it, the entries, and where the data is.

    Entries beyond the newest 50 stand in the section that a short context may leave out, with what came
    of them on their own device alone.
    """
    counts = journal.counts
    devices = ", ".join(plain(name) for name in journal.devices.values()) or "no GPU yet"
    sums = (
        f"Entries: {len(journal.outcomes)}. Claims: {counts.total()}, each on the GPU of its entry: "
        f"{tally(counts)}. Measured on: {devices}."
    )
    newest, older = journal.outcomes[:_NEWEST], journal.outcomes[_NEWEST:]
    parts = [
        f"# {site.name}",
        f"> {site.description}",
        _METHOD,
        _CITING,
        sums,
        _section("Entries", [_entry(outcome, lines(outcome), site) for outcome in newest]),
        _section("Method", _method(site)),
        _section("Data", _data(site)),
        _section("Optional", [_entry(outcome, lines(outcome)[:1], site) for outcome in older]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(title: str, items: list[str]) -> str:
    return "\n".join([f"## {title}", "", *items]) if items else ""


def _entry(outcome: Outcome, devices: list[Line], site: Site) -> str:
    entry = outcome.entry
    words = headline_words(outcome)
    came = []
    for line in devices:
        number = f"; {words}: {line.number}" if line.number else ""
        note = f" ({line.note})" if line.note else ""
        came.append(f"{line.name}: {tally(line.counts)}{number}{note}.")
    said = _literal(" ".join([plain(entry.summary), *came]))
    return _link(plain(entry.title), entry_address(entry.slug), f"{entry.date}. {said}", site)


def _method(site: Site) -> list[str]:
    return [
        _link("Method", "method.html", "how a number is made, and what a verdict rests on", site),
        _link("Glossary", "glossary.html", "one word a thing", site),
        _link("Matrix", MATRIX, "every claim on every GPU", site),
        _link("Did not hold", REFUTED, "reports that were refuted, with their cause", site),
    ]


def _data(site: Site) -> list[str]:
    feeds = [
        _link("RSS feed", feed.RSS, "the newest entries", site),
        _link("JSON feed", feed.JSON, "the same", site),
    ]
    return [
        _link(
            "site.json", dataset.FILE, "every entry, claim, verdict and interval, in SI units", site
        ),
        _link("site.schema.json", dataset.SCHEMA_FILE, "what each field of site.json means", site),
        _link(
            "record.schema.json",
            "record.schema.json",
            "a raw record: all runs, with provenance",
            site,
        ),
        *(feeds if site.url else []),
    ]


def _link(name: str, address: str, note: str, site: Site) -> str:
    return f"- [{_literal(name)}]({site.absolute(address)}): {note}"


def _literal(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", text)


def robots(site: Site) -> str:
    """Return robots.txt: everything may be read, and the sitemap, named by its whole address where the
    site has one, says what there is.
    """
    sitemap = f"\nSitemap: {site.absolute('sitemap.xml')}\n" if site.url else ""
    return f"User-agent: *\nAllow: /\n{sitemap}"
