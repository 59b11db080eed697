"""Where artifacts are measured: the GPUs of this host, one artifact at a time on each, or a cluster's.

The rule kept here: a place has one artifact at a time, an artifact has one place, and where there are
several places the longest begins first, so that none is left to run alone at the end.
"""

import contextlib
import dataclasses
import queue
from collections.abc import Callable, Iterator
from typing import Protocol

from warplog import child, runner
from warplog.entry import Entry
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.runner import Options, Outcome, Where
from warplog.source import Artifact

Report = Callable[[Where], None]
Say = Callable[[str], None]


class Places(Protocol):
    """Somewhere to measure: `many` artifacts at a time, and whether anything is `timed` there."""

    many: int
    timed: bool

    def reproduce(self, artifact: Artifact, options: Options, report: Report, say: Say) -> Outcome:
        """Measure one artifact in a place of its own; wait until there is one."""
        ...

    def stop(self) -> None:
        """End what runs: this command was asked to stop."""
        ...


class Host:
    """The GPUs of this host by number; with none of them the CPU, for correctness only."""

    def __init__(self, gpus: list[int]) -> None:
        self.many, self.timed = max(1, len(gpus)), bool(gpus)
        self._free: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        numbers: list[int | None] = [*gpus] or [None]
        for gpu in numbers:
            self._free.put(gpu)

    def reproduce(self, artifact: Artifact, options: Options, report: Report, _say: Say) -> Outcome:
        """Measure on the next GPU that is free; on the CPU once, because nothing is timed there."""
        gpu = self._free.get()
        try:
            runs = options.runs if gpu is not None else 1
            return runner.reproduce(
                artifact, dataclasses.replace(options, gpu=gpu, runs=runs), report
            )
        finally:
            self._free.put(gpu)

    def stop(self) -> None:
        """End every process that measures here."""
        child.end_all()


@contextlib.contextmanager
def places(
    on: str | None, device: str | None, entries: list[Entry], gpu: int | None = None
) -> Iterator[Places]:
    """Open the places that a command asked for: all GPUs of this host or the one numbered `gpu`, or,
    with `on`, those of a Ray cluster, of the kind `device` or the one that an artifact's entry names.
    Raises Fault for options that choose among places elsewhere than asked for.
    """
    if on is not None and gpu is not None:
        problem = f"chooses GPU {gpu} of this host, and --on {on} measures on a cluster's"
        raise Fault("--gpu", problem, "leave one of them out; with --on, --device names the kind")
    if on is not None:
        with _cluster(on, device, entries) as cluster:
            yield cluster
        return
    if device:
        raise Fault("--device", "chooses among a cluster's GPUs", "give --on too, or leave it out")
    present = runner.gpus()
    if present and gpu is not None and gpu >= present:
        raise Fault("warplog reproduce", f"there is no GPU {gpu}", f"use 0 to {present - 1}")
    yield Host([gpu] if present and gpu is not None else list(range(present)))


def _cluster(
    on: str, device: str | None, entries: list[Entry]
) -> contextlib.AbstractContextManager[Places]:
    """Join the cluster at `on`; Ray is an optional part, and only `cluster` knows it."""
    try:
        from warplog import cluster  # noqa: PLC0415 - optional
    except ModuleNotFoundError as missing:
        remedy = (
            "install it beside Warplog: pip install 'warplog[ray]' (in a checkout: -e '.[ray]')"
        )
        raise Fault("--on", f"needs Ray, and there is no module {missing.name}", remedy) from None
    devices = {entry.artifact: entry.device for entry in entries}
    return cluster.joined(on, devices, device)


def longest_first(artifacts: list[Artifact], archive: Archive) -> list[Artifact]:
    """Return `artifacts` by the seconds that their newest records took, the longest first; one that
    was never measured could be the longest, and begins before them.
    """
    return sorted(artifacts, key=lambda artifact: -_seconds(artifact, archive))


def _seconds(artifact: Artifact, archive: Archive) -> float:
    newest = [each[-1].record for each in archive.of(artifact.slug).history.values() if each]
    return max((record.seconds for record in newest), default=float("inf"))
