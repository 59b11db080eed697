"""Makes journals of several entries and GPUs to test the ways in with, and compares pages with golden ones.

The rule kept here: the numbers are invented and never change; a golden page is written anew by
``WARPLOG_GOLDEN=write python -m pytest`` and then read by a person.
"""

import os
from datetime import date, timedelta
from pathlib import Path

import msgspec
import yaml
from factory import H200, Lab, measured, record_of, timed

from warplog.evidence import Archive
from warplog.journal import Journal, Outcome, read_journal

GOLDEN = Path(__file__).parent / "golden"
B200 = {"name": "NVIDIA B200", "compute_capability": "10.0", "multiprocessors": 148}
RTX = {"name": "NVIDIA GeForce RTX 5090", "compute_capability": "12.0"}
SPREAD = (1, 1.01, 0.99, 1, 1.005, 0.995)
CLAIMS = {
    "fast": {
        "says": "The kernel is at least ten times faster.",
        "metric": "speedup",
        "subject": "kernel",
        "over": "peer",
        "workload": "batch=31",
        "at_least": 10,
        "reported": {
            "value": 32.9,
            "device": "nvidia-b200",
            "by": "a post",
            "url": "https://x.example/",
        },
    },
    "right": {
        "says": "No row differs.",
        "metric": "mismatches",
        "subject": "kernel",
        "equals": 0,
    },
}


def golden(name: str, html: str) -> None:
    """Compare a page with its golden file, a tag a line."""
    path = GOLDEN / f"ways-{name}.html"
    lines = html.replace("><", ">\n<") + "\n"
    if os.environ.get("WARPLOG_GOLDEN") == "write":
        path.write_text(lines, encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8"), f"see tests/shelf.py to renew {path.name}"


def write_entry(lab: Lab, slug: str, day: str = "2026-12-02", **changes) -> Path:
    """Write an entry about the artifact of the same name, without a number in its story."""
    front = {
        "title": f"The story of {slug}",
        "date": day,
        "artifact": slug,
        "device": "nvidia-h200",
        "tags": ["sums"],
        "summary": "One sentence for the index.",
        "claims": CLAIMS,
        **changes,
    }
    text = yaml.safe_dump(front, sort_keys=False, allow_unicode=False, width=10_000)
    return lab.entry(text, "\nA story.\n", f"{day}-{slug}.md")


def write_record(
    lab: Lab, slug: str, gpu=H200, faster: float = 1, device: str = "", **changes
) -> None:
    """Publish a record in which the kernel is 12 times `faster` than its peer."""
    artifact = lab.artifact(slug)
    found = [
        msgspec.structs.replace(each, runs=[[value / faster] for [value] in each.runs])
        if (each.metric, each.subject) == ("latency", "kernel")
        else each
        for each in timed(batch=31)
    ]
    name = device or gpu["name"].lower().replace(" ", "-").replace("geforce-", "")
    base = record_of(artifact, found, device=name, **changes)
    environment = msgspec.structs.replace(base.environment, gpu=gpu)
    lab.publish(artifact, found, device=name, **{**changes, "environment": environment})


def write_ceilings(lab: Lab, **changes) -> None:
    """Publish a record of ceilings: 4 and 4.5 TB/s cold, 9 warm, 700 TOP/s in bf16, 1500 in fp8."""
    artifact = lab.artifact("ceilings")
    gigabyte = 10**9
    found = [
        _ceiling("loads", 2.5e-4, "cold", traffic=gigabyte, operation="read", row_bytes=1024),
        _ceiling("loads", 1e9 / 4.5e12, "cold", traffic=gigabyte, operation="read", row_bytes=4096),
        _ceiling("loads", 1e9 / 9e12, "warm", traffic=gigabyte, operation="l2-read", mebibytes=4),
        _ceiling(
            "matmul", 1e-3, "cold", work=700 * gigabyte, operation="matmul", dtype="bf16", size=8192
        ),
        _ceiling(
            "matmul", 1e-3, "cold", work=1500 * gigabyte, operation="matmul", dtype="fp8", size=8192
        ),
        measured("device_time", "two events", [1.3e-6 * each for each in SPREAD], kernels=0),
        measured("device_time", "launch", [2.9e-6 * each for each in SPREAD], kernels=1),
        measured("device_time", "launch", [9e-6 * each for each in SPREAD], kernels=10),
        measured("round_trip", "launch", [16e-6 * each for each in SPREAD], kernels=1),
    ]
    lab.publish(artifact, found, **changes)


def _ceiling(subject, seconds, cache, **about):
    taken = [seconds * each for each in SPREAD]
    return msgspec.structs.replace(measured("latency", subject, taken, **about), cache=cache)


def shelf(root: Path) -> Lab:
    """A repository with three entries on three GPUs: what was reported holds on one and not on another,
    a record is stale, a device was never measured, and one GPU has ceilings.
    """
    lab = Lab(root)
    write_record(lab, "first")
    write_record(lab, "first", B200, faster=0.5)
    explained = {**CLAIMS["fast"], "cause": "Twice the bandwidth feeds the peer alone."}
    write_entry(
        lab, "first", "2025-11-30", tags=["sums", "triton"], claims=CLAIMS | {"fast": explained}
    )
    write_record(lab, "second", faster=0.5)
    write_record(lab, "second", RTX, disturbed=["run 1: thermal slowdown"])
    own = {key: value for key, value in CLAIMS["fast"].items() if key != "reported"}
    write_entry(lab, "second", "2026-01-05", tags=["C++", "triton"], claims=CLAIMS | {"fast": own})
    write_record(lab, "third")
    (lab.root / "artifacts/third/kernel.py").write_text("changed = True\n", encoding="utf-8")
    write_entry(lab, "third", "2026-01-06", tags=["sums", "C"], device="nvidia-b200")
    write_ceilings(lab)
    return lab


def journal(lab: Lab) -> Journal:
    """The journal of a repository that is right."""
    found, faults = read_journal(Archive(lab.repository))
    assert not faults
    return found


def copies(outcome: Outcome, count: int) -> Journal:
    """A journal of `count` entries that are all like one, a day apart, newest first."""
    found = []
    for number in range(count):
        day = date(2026, 12, 2) - timedelta(days=number)
        slug = f"copy-{number}"
        place = f"entries/{day}-{slug}.md"
        entry = msgspec.structs.replace(outcome.entry, slug=slug, date=day, place=place)
        found.append(Outcome(entry, outcome.known, outcome.columns))
    return Journal(tuple(found))


def html(page) -> str:
    """All that the tokens of a page stand for."""
    return "".join(page.html.values())
