"""The records of each artifact as they stand today: the newest of each device, fresh or stale.

The rule kept here: every file is read once in a run, a record that cannot be read is a fault and not an
exception, and only a record that was measured from this very source counts as evidence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warplog.claim import Claim, Judgement, Verdict, weigh
from warplog.fault import Fault
from warplog.quantity import Quantity, readings
from warplog.reading import Reading, Unmeasured
from warplog.record import PROTOCOL, Record
from warplog.source import Artifact, Change, Repository, told
from warplog.store import read

CEILINGS = "ceilings"
_DEVICE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")


@dataclass(frozen=True)
class Evidence:
    """A record and what it is worth today.

    `changed` says what became of each file that differs from those it was measured from: none means fresh.
    `ceilings` is the fresh record that this device's floors come from, if there is one.
    """

    record: Record
    path: Path
    changed: Mapping[str, Change]
    ceilings: Record | None
    _answers: dict[tuple[Any, ...], tuple[Reading, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def name(self) -> str:
        """The GPU's own name where the record has it, else the device's folder."""
        gpu = self.record.environment.gpu or {}
        return str(gpu.get("name", "")).strip() or self.record.device

    @property
    def fresh(self) -> bool:
        """True where the record was measured from the source as it is now."""
        return not self.changed

    @property
    def older_protocol(self) -> bool:
        """True where the harness has changed since in a way that could change a number."""
        return self.record.protocol.version < PROTOCOL

    @property
    def stale_reason(self) -> str:
        """What to say of a stale record; empty for a fresh one."""
        if self.fresh:
            return ""
        return f"the record is stale: {told(self.changed)} since it was measured"

    def judge(self, claim: Claim) -> Judgement:
        """Return the verdict on `claim` here: untested where the record is stale."""
        if not self.fresh:
            return Judgement(Verdict.UNTESTED, reason=self.stale_reason)
        return self.judge_as_was(claim)

    def judge_as_was(self, claim: Claim) -> Judgement:
        """Return what the record says of `claim`, also where its source has changed since."""
        try:
            return weigh(claim, self.readings(claim))
        except Unmeasured as reason:
            return Judgement(Verdict.UNTESTED, reason=str(reason))

    def readings(self, quantity: Quantity) -> tuple[Reading, ...]:
        """Return `quantity` as the record has it, however old, or raise Unmeasured. An answer is kept,
        because pages, cards and files for machines ask the same.
        """
        sizes = tuple(quantity.workload.items())
        asked = (quantity.metric, quantity.subject, quantity.over, sizes, quantity.mean)
        if asked not in self._answers:
            self._answers[asked] = readings(quantity, self.record, self.ceilings)
        return self._answers[asked]


@dataclass(frozen=True)
class Known:
    """What is known of one artifact, and the faults of its records.

    `devices` holds the record that speaks for each device: the newest fresh one, else the newest;
    `history` holds all of a device's records, oldest first, that one too.
    """

    artifact: Artifact
    devices: dict[str, Evidence]
    faults: tuple[Fault, ...]
    history: dict[str, tuple[Evidence, ...]]

    @property
    def fresh_records(self) -> list[Record]:
        """The records that count as evidence, by device."""
        return [each.record for each in self.devices.values() if each.fresh]


@dataclass
class Archive:
    """All records of a repository, read once each, on demand."""

    repository: Repository
    _known: dict[str, Known] = field(default_factory=dict)

    def of(self, slug: str) -> Known:
        """Return what is known of the artifact `slug`, or raise Fault where there is none."""
        if slug not in self._known:
            self._known[slug] = self._read(self.repository.artifact(slug))
        return self._known[slug]

    def forget(self, slug: str) -> None:
        """Read the artifact `slug` anew when it is asked for again."""
        self._known.pop(slug, None)

    def _ceilings(self, device: str) -> Record | None:
        if not (self.repository.root / "artifacts" / CEILINGS / "reproduce.py").is_file():
            return None
        found = self.of(CEILINGS).devices.get(device)
        return found.record if found is not None and found.fresh else None

    def _read(self, artifact: Artifact) -> Known:
        records, faults = read_records(artifact, self.repository.root)
        devices, history = {}, {}
        for device, found in records.items():
            try:
                past = self._weigh(artifact, device, found)
            except Fault as fault:
                faults.append(fault)
                continue
            history[device] = past
            devices[device] = next((each for each in reversed(past) if each.fresh), past[-1])
        return Known(artifact, devices, tuple(faults), history)

    def _weigh(
        self, artifact: Artifact, device: str, found: list[tuple[Path, Record]]
    ) -> tuple[Evidence, ...]:
        """Return each record with what has changed since; records of one source are weighed once."""
        own = artifact.slug == CEILINGS
        ceilings = None if own else self._ceilings(device)
        changes: dict[tuple[str, ...], dict[str, Change]] = {}
        past = []
        for path, record in found:
            source = (record.source.digest, *record.source.files.values())
            if source not in changes:
                changes[source] = artifact.changes(record)
            changed = changes[source]
            floors = (record if not changed else None) if own else ceilings
            past.append(Evidence(record, path, changed, floors))
        return tuple(past)


def read_records(
    artifact: Artifact, root: Path
) -> tuple[dict[str, list[tuple[Path, Record]]], list[Fault]]:
    """Return each device's records, oldest first, and a fault for each file that is none."""
    records: dict[str, list[tuple[Path, Record]]] = {}
    faults = []
    for path in sorted(artifact.records.rglob("*")):
        if path.name.startswith(".") or path.is_dir():
            continue
        try:
            record = _read_one(path, artifact, root)
        except Fault as fault:
            faults.append(fault)
        else:
            records.setdefault(record.device, []).append((path, record))
    return dict(sorted(records.items())), faults


def _read_one(path: Path, artifact: Artifact, root: Path) -> Record:
    place = path.relative_to(root).as_posix()
    parts = path.relative_to(artifact.records).parts
    filed = len(parts) == len(("device", "time")) and _DEVICE.match(parts[0])
    if not filed or path.suffix != ".json":
        remedy = "records are filed by the harness as records/<device>/<UTC time>.json"
        raise Fault(place, "is not where a record can be", remedy)
    if not path.resolve().is_relative_to(artifact.folder.resolve()):
        raise Fault(place, "the link leaves the artifact", "put the file itself there")
    record = read(path, place)
    if record.artifact != artifact.slug:
        raise Fault(place, f"is a record of {record.artifact!r}", "move it to its artifact")
    return record
