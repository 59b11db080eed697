"""A repository to look at: one plain entry on three GPUs, one that did not hold, one of other source, a
draft, and those whose every field is hostile.
"""

import re
import shutil

import msgspec
from factory import Lab, measured, record_of

from .hostile import bad, hostile_entry, long_entry
from .manuscript import B200, H200, MI300X, SPREAD, environment_of, front_matter, rates, write

DRAFTED = "unpublishable"  # a draft says it, the site must not

# The regions of the plain entry's kernel, as they must be copied.
REGIONS = {
    "ring": '''\
@triton.jit
def ring_copy(source, target, size, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    """One program copies one tile; cp.async.wait_group is what tl.load becomes."""

    row = tl.program_id(0).to(tl.int64)
    for stage in tl.range(0, size, BLOCK, num_stages=num_stages):
        tile = tl.load(source + row * size + stage + tl.arange(0, BLOCK))

        tl.store(target + row * size + stage + tl.arange(0, BLOCK), tile)  # & < > "quotes" 'too'
''',
    "rounding": '''\
class _STERound(torch.autograd.Function):
\t"""Rounds forward; its gradient is that of swizzled_tile."""
''',
}
KERNEL = f'''"""Copies through a ring of tiles."""

import torch
import triton
import triton.language as tl


# region: ring
{REGIONS["ring"]}# endregion


# region: rounding
{REGIONS["rounding"]}# endregion
'''
FIGURES = """
```figure
kind: lines
metric: latency
axis: batch
subjects: [ring, plain loop]
title: The ring stays ahead
caption: Fresh processes, cold cache.
```

```figure
kind: ratios
metric: speedup
axis: batch
subjects: [ring]
over: plain loop
title: How far ahead
```
"""
BODY = f"""
We asked whether a ring hides the latency, and on this GPU it does, [?](#ring-wins), at [?](#time).

## What we did

The kernel asks for `num_stages=3`, so that `tl.load` becomes `cp.async` and a `cp.async.wait_group`.
The gradient goes straight through `_STERound`.

```source
file: kernel.py
region: ring
```

Then it rounds.

```source
file: kernel.py
region: rounding
```
{FIGURES}
## What did not work

Nothing else, see [the other entry](2026-12-03-second.md) and [its kernel](../artifacts/second/kernel.py).
"""


def laboratory(folder, repository):
    """Make the repository in `folder`, with the settings and pages of the one at `repository`."""
    shutil.copytree(repository / "site_src", folder / "site_src")
    shutil.copy(repository / "mkdocs.yml", folder)
    lab = Lab(folder)
    plain_entry(lab)
    refuted_entry(lab)
    hostile_entry(lab)
    long_entry(lab)
    stale_entry(lab)
    draft(lab)
    linked_entries(lab)


LINK = re.compile(r"entries/([0-9]{4}-[0-9]{2}-[0-9]{2}-[\w-]+)\.md(?:#([\w-]+))?")
SPEED = {"metric": "speedup", "subject": "ring", "over": "plain loop"}


def plain_entry(lab):
    """Three GPUs that disagree: supported, refuted, inconclusive; and a claim that two say nothing of.

    The H200 has two records, so that its numbers have a history.
    """
    artifact = lab.artifact("ring-copy", kernel=KERNEL)
    ring = [10 * one for one in SPREAD]
    loops = {
        H200: [120 * one for one in SPREAD],
        B200: [50 * one for one in SPREAD],
        MI300X: [90 * one for one in SPREAD[:3]] + [110 * one for one in SPREAD[3:]],
    }
    days = {device: ["2026-12-02T10:15:00Z"] for device in loops}
    days[H200].append("2026-12-03T10:15:00Z")
    for device, loop in loops.items():
        rows = rates(ring, loop)
        if device == H200:
            rows.append(measured("rows", "only here", [5] * 6, unit="rows", batch=1))
        environment = environment_of(artifact, device)
        for day in days[device]:
            lab.publish(artifact, rows, device=device, environment=environment, recorded=day)
    count = {"metric": "rows", "subject": "only here"}
    reported = {"value": 12.5, "device": B200, "by": "a post", "url": "https://example.org/a"}
    claims = {
        "ring-wins": {
            "says": "The ring outruns a plain loop tenfold.",
            **SPEED,
            "workload": "batch=8",
            "at_least": 10,
            "reported": reported,
        },
        "only-here": {"says": "Five rows were seen.", **count, "equals": 5},
    }
    values = {"time": {"metric": "latency", "subject": "ring", "workload": "batch=8"}}
    tags = ["memory", "triton"]
    front = front_matter("ring-copy", "A ring of tiles", claims, values, tags=tags)
    write(lab, "plain", front, BODY)


def refuted_entry(lab):
    """An entry with a report that did not hold, and a tag that no other has."""
    artifact = lab.artifact("second")
    same = [10 * one for one in SPREAD]
    lab.publish(artifact, rates(same, same))
    reported = {"value": 2.5, "device": H200, "by": "a report"}
    says = "The second kernel is twice as fast."
    claims = {"no-gain": {"says": says, **SPEED, "at_least": 2, "reported": reported}}
    front = front_matter("second", "It was not faster", claims, tags=["memory", "lonely-tag"])
    write(lab, "second", front, "\nIt was not, [?](#no-gain).\n", "2026-12-03")


def stale_entry(lab):
    """An entry whose record was measured from other source, with a hostile name of a file."""
    artifact = lab.artifact("old")
    source = record_of(artifact, []).source
    files = {**source.files, bad("file"): "sha256:" + "0" * 64}
    lab.publish(
        artifact,
        rates([10 * one for one in SPREAD], [20 * one for one in SPREAD]),
        device=MI300X,
        environment=environment_of(artifact, MI300X),
        source=msgspec.structs.replace(source, files=files),
    )
    claims = {"was-fast": {"says": "It was fast.", **SPEED, "at_least": 1}}
    front = front_matter("old", "Measured from other source", claims, device=MI300X)
    write(lab, "stale", front, f"\nIt was [?](#was-fast).\n{FIGURES}", "2026-12-06")


def draft(lab):
    """An entry that is not published."""
    claims = {"no": {"says": DRAFTED, "metric": "rows", "subject": "only here", "equals": 5}}
    front = front_matter("ring-copy", DRAFTED, claims, tags=[DRAFTED], draft=True)
    write(lab, "draft", front, f"\n{DRAFTED}\n", "2026-12-07")


def linked_entries(lab):
    """An entry for each that a page of the site links to, with the claims that the links name; all are
    of one artifact, called ceilings, so that one GPU has measured ceilings.
    """
    artifact = lab.artifact("ceilings")
    times = [one * 1e-3 for one in SPREAD]
    amounts = {"traffic": 4_000_000_000, "work": 600_000_000_000}
    row = measured("latency", "loads", times, **amounts, operation="read", dtype="bf16")
    lab.publish(artifact, [row], environment=environment_of(artifact, H200))
    links = {}
    for page in sorted((lab.root / "site_src").rglob("*.md")):
        for name, anchor in LINK.findall(page.read_text(encoding="utf-8")):
            links.setdefault(name, []).extend([anchor] if anchor else [])
    rate = {"metric": "bandwidth", "subject": "loads", "at_least": 1e12}
    for name, anchors in links.items():
        says = "It reads a terabyte a second."
        claims = {anchor: {"says": says, **rate} for anchor in ["read-rate", *anchors]}
        front = front_matter("ceilings", f"Linked as {name}", claims)
        write(lab, name[11:], front, "\nIt does.\n", name[:10])
