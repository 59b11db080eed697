"""Makes repositories to test the reading half with: artifacts, records and entries of invented numbers."""

import dataclasses
from pathlib import Path

from warplog.record import SCHEMA, Environment, Measurement, Protocol, Record, Source
from warplog.source import Artifact, Repository, closure_digest
from warplog.store import publish

H200 = {"name": "NVIDIA H200", "compute_capability": "9.0", "multiprocessors": 132}
KERNEL = '''"""The sum of a row: one program owns one row."""

# region: kernel
def total(values):
    return values.sum()
# endregion


def other(values):
    return sum(values)
'''
FRONT = """\
title: One sum is enough
date: 2026-12-02
artifact: row-sum
device: nvidia-h200
tags: [pytorch, sums]
summary: One sentence for the index.
claims:
  fast:
    says: The kernel is at least ten times faster.
    metric: speedup
    subject: kernel
    over: peer
    workload: batch=31
    at_least: 10
values:
  time: {metric: latency, subject: kernel, workload: batch=31}
"""
BODY = """
We asked whether [?](#fast) holds, in [?](#time).
"""


def measured(metric, subject, runs, unit="s", failed=None, traffic=None, work=None, **workload):
    """One measurement with one sample a run; `runs` is a list of numbers, None where it failed."""
    lists = None if runs is None else [[value] for value in runs]
    timed = {"timer": "filled queue", "cache": "cold"} if unit == "s" and runs else {}
    return Measurement(metric, unit, subject, workload, lists, failed, traffic, work, **timed)


def timed(**workload):
    """A kernel twelve times as fast as its peer, and the peer against itself, over six runs."""
    kernel = [10e-6, 10.1e-6, 9.9e-6, 10e-6, 10.05e-6, 9.95e-6]
    peer = [120e-6, 121e-6, 119e-6, 120e-6, 120.5e-6, 119.5e-6]
    again = [value * 1.01 for value in peer]
    return [
        measured("latency", "kernel", kernel, traffic=4_000_000, work=1_000_000, **workload),
        measured("latency", "peer", peer, traffic=4_000_000, work=1_000_000, **workload),
        measured("latency_again", "peer", again, **workload),
        measured("mismatches", "kernel", [0] * 6, unit="rows", **workload),
    ]


def record_of(artifact, measurements, **changes):
    """A record that is fresh for `artifact`; `changes` replace its fields."""
    files = artifact.digests([])
    fields = {
        "schema": SCHEMA,
        "artifact": artifact.slug,
        "device": "nvidia-h200",
        "recorded": "2026-12-02T10:15:00Z",
        "seconds": 83.1,
        "source": Source(closure_digest(files), files, "0123456789abcdef", modified=False),
        "protocol": Protocol(1, 6, "filled queue", 134_217_728),
        "environment": Environment(
            gpu=H200,
            driver="580.95",
            python="3.12.3",
            system="Linux x86_64",
            packages={"torch": "2.11.0", "triton": "3.6.0"},
            variables={},
            clocks=[{"sm_mhz": 1980, "celsius": 40}, {"sm_mhz": 1905, "celsius": 44}],
        ),
        "disturbed": [],
        "measurements": measurements,
    }
    return Record(**{**fields, **changes})


@dataclasses.dataclass
class Lab:
    """A repository in a temporary folder."""

    root: Path

    def __post_init__(self):
        (self.root / "entries").mkdir(parents=True)
        (self.root / "artifacts" / "shared").mkdir(parents=True)

    @property
    def repository(self):
        return Repository(self.root)

    def artifact(self, slug="row-sum", **files):
        """An artifact whose files are `kernel`, `reproduce` and what `files` adds, as Python."""
        folder = self.root / "artifacts" / slug
        folder.mkdir(exist_ok=True)
        texts = {"kernel": KERNEL, "reproduce": "def reproduce(run):\n    pass\n", **files}
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        return Artifact(slug, folder)

    def publish(self, artifact, measurements, **changes):
        """A fresh record of `artifact`; returns its file."""
        return publish(record_of(artifact, measurements, **changes), artifact.records)

    def entry(self, front=FRONT, body=BODY, name="2026-12-02-one-sum.md", newline="\n"):
        """An entry's file, as written."""
        path = self.root / "entries" / name
        text = f"---\n{front}---\n{body}"
        path.write_bytes(text.replace("\n", newline).encode("utf-8"))
        return path

    def line(self, path, words):
        """The place of the first line that holds `words`, as a fault says it."""
        lines = path.read_text(encoding="utf-8").splitlines()
        number = next(n for n, line in enumerate(lines, start=1) if words in line)
        return f"{path.relative_to(self.root).as_posix()}:{number}"


def lab_with_entry(root):
    """A repository with one artifact, one fresh record and one entry that is right but not filled."""
    lab = Lab(root)
    artifact = lab.artifact()
    lab.publish(artifact, timed(batch=31))
    lab.entry()
    return lab
