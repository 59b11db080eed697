"""Writes pages of invented entries to look at: the HTML as a reader gets it, and what stands in it."""

import re
from html.parser import HTMLParser

import msgspec
from factory import H200, measured, record_of, timed

from warplog.entry import load
from warplog.evidence import Archive
from warplog.journal import outcome_of
from warplog.page import write
from warplog.placeholder import substitute

ENTRY = "2026-12-02-one-sum.md"
B200 = {"name": "NVIDIA B200", "compute_capability": "10.0", "multiprocessors": 148}
EVIL = "\"><img src=x onerror=alert(1)>\u202egnp.\x07'&\U0001f600" + "W" * 10_000


def outcome(lab):
    """The lab's one entry with what came of it."""
    archive = Archive(lab.repository)
    entry = load(lab.root / "entries" / ENTRY, lab.repository, archive)
    return outcome_of(entry, archive.of(entry.artifact))


def page_of(lab, **options):
    """The page of the lab's one entry, with its tokens."""
    return write(outcome(lab), **options)


def shown(lab, **options):
    """The page with its tokens replaced, as if Markdown had done nothing."""
    page = page_of(lab, **options)
    return substitute(page.markdown, page.html)


def row(text, name):
    """The row of a table that has the id `name`."""
    return re.search(rf'<tr id="{name}">.*?</tr>', text, re.DOTALL)[0]


def on(artifact, gpu, **changes):
    """The environment of a record, on another GPU."""
    environment = record_of(artifact, []).environment
    return msgspec.structs.replace(environment, gpu=gpu, **changes)


def slow(times=1.0, **workload):
    """A kernel `times` times as fast as its peer: the claim of ten is refuted."""
    return [
        measured("latency", "kernel", [1e-4] * 6, **workload),
        measured("latency", "peer", [times * 1e-4] * 6, **workload),
    ]


def publish_b200(lab, rows=None, **changes):
    """A record of a second GPU, on which the claim does not hold."""
    artifact = lab.artifact()
    changes = {"environment": on(artifact, B200), "device": "nvidia-b200"} | changes
    return lab.publish(artifact, slow(batch=31) if rows is None else rows, **changes)


def publish_later(lab, rows, day=3, **changes):
    """One more record of the first GPU, some days later."""
    return lab.publish(lab.artifact(), rows, recorded=f"2026-12-{day:02}T10:15:00Z", **changes)


def publish_evil(lab, evil=EVIL):
    """Records in which every text is hostile."""
    artifact = lab.artifact()
    plain = record_of(artifact, [])
    environment = msgspec.structs.replace(
        plain.environment,
        gpu=dict.fromkeys(H200, evil) | {"ecc": evil},
        driver=evil,
        python=evil,
        system=evil,
        packages={evil: evil, "torch": evil, "cuda": evil},
        variables={evil: evil},
        clocks=[{"sm_mhz": evil, "slowed": [evil]}],
    )
    rows = [
        *timed(batch=31),
        measured("latency", evil, [1e-5] * 6, mode=evil),
        measured("rows", evil, [1] * 6, unit=evil, batch=31),
        measured("latency", evil, None, failed=evil, batch=31),
    ]
    for day in (2, 3):
        publish_later(
            lab,
            rows,
            day,
            environment=environment,
            protocol=msgspec.structs.replace(plain.protocol, timer=evil, harness=evil),
            source=msgspec.structs.replace(plain.source, commit=evil),
            disturbed=[evil],
        )


class Tags(HTMLParser):
    """Every element of a text, and every attribute that could run something."""

    def __init__(self, text):
        super().__init__()
        self.names, self.active, self.ids, self.targets = set(), [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.active += [(name, value) for name, value in attrs if name.startswith("on")]
        self.active += [(name, value) for name, value in attrs if "script:" in (value or "")]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag == "a":
            self.targets |= {
                value[1:] for name, value in attrs if name == "href" and value.startswith("#")
            }
