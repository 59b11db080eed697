"""Turns an artifact into a record: fresh processes, time limits, one GPU at a time each.

The rule kept here: a process that dies, hangs or runs out of memory costs that process and says why;
a record exists only when every process ended well; published records are only ever added to.
"""

import contextlib
import fcntl
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from warplog import profile
from warplog.record import (
    SCHEMA,
    Environment,
    Measurement,
    Protocol,
    Record,
    Source,
    utc_now,
    write_whole,
)
from warplog.source import Artifact, closure_digest

RUNS = 6
PROTOCOL_VERSION = 1
TIME_LIMIT = 900.0
LAST_OUTPUT = 40
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Progress:
    """Where a reproduction is: process `run` of `runs`, at `workload`."""

    run: int
    runs: int
    workload: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """How one process ended: its events, and the reason where it did not end well."""

    events: list[dict[str, Any]]
    reason: str | None = None
    output: str = ""

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [event for event in self.events if event["event"] == kind]

    @property
    def measurements(self) -> list[dict[str, Any]]:
        """What it measured, in order."""
        return [event["measurement"] for event in self.of("measurement")]


@dataclass(frozen=True)
class Outcome:
    """What came of a reproduction: a record, or the reason why there is none."""

    record: Record | None
    reason: str | None = None
    output: str = ""
    kept: Path | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """How to reproduce: processes, seconds that each may take, which GPU, the stated commit."""

    runs: int = RUNS
    time_limit: float = TIME_LIMIT
    gpu: int | None = None
    commit: str | None = None
    aside: Path | None = None


def gpus() -> int:
    """Return how many GPUs torch can use, asked in a process of its own so that none is held here."""
    code = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.stdout.strip().isdigit() else 0


def reproduce(artifact: Artifact, options: Options, report: Callable[[Progress], None]) -> Outcome:
    """Run the artifact's script in fresh processes, one after the other, and make a record of it.

    `report` hears of each workload as it starts. Nothing under the artifact's folder is written.
    """
    started = time.monotonic()
    files = artifact.digests([])
    with tempfile.TemporaryDirectory(prefix="warplog-") as scratch, _gpu_lock(options.gpu):
        ended: list[Ended] = []
        for run in range(1, options.runs + 1):
            seed = random.SystemRandom().randrange(1, 2**24)
            process = _Process(artifact, Path(scratch) / str(run), seed, options)
            one = process.wait(functools.partial(_report, report, run, options.runs))
            ended.append(one)
            if one.reason:
                kept = _keep_aside(artifact, ended, options)
                reason = f"process {run} of {options.runs}: {one.reason}"
                return Outcome(None, reason, one.output, kept)
        counted, notes = _count(artifact, ended[0], Path(scratch) / "counters", options)
    if artifact.digests([]) != files:
        return Outcome(None, "the artifact's files changed while it ran; start again")
    seconds = time.monotonic() - started
    return Outcome(_record(artifact, ended, counted, options, seconds), notes=notes)


def _report(
    report: Callable[[Progress], None], run: int, runs: int, workload: dict[str, Any]
) -> None:
    report(Progress(run, runs, workload))


class _Process:
    """One fresh process in its own session, so that it and all it started can be ended together."""

    def __init__(
        self,
        artifact: Artifact,
        scratch: Path,
        seed: int,
        options: Options,
        wrap: Callable[[list[str]], list[str]] = list,
        counters: str = "",
    ) -> None:
        scratch.mkdir()
        self._events = scratch / "events.jsonl"
        self._output = scratch / "output"
        self._limit = options.time_limit
        self._events.touch()
        program = [sys.executable, "-m", "warplog.run", str(artifact.folder.resolve())]
        program += ["--events", str(self._events), "--seed", str(seed), "--counters", counters]
        with self._output.open("wb") as output:
            self._child = subprocess.Popen(
                wrap(program),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env=_variables(options.gpu),
                start_new_session=True,
            )

    def wait(self, report: Callable[[dict[str, Any]], None]) -> Ended:
        """Wait for the end or the time limit, and say how it ended."""
        deadline = time.monotonic() + self._limit
        seen = 0
        try:
            while self._child.poll() is None and time.monotonic() < deadline:
                seen = self._tell(seen, report)
                time.sleep(POLL_SECONDS)
            hung = self._child.poll() is None
        finally:
            self._end()
        self._tell(seen, report)
        events = _read_events(self._events)
        return Ended(events, self._reason(events, hung=hung), self.last_output())

    def _tell(self, seen: int, report: Callable[[dict[str, Any]], None]) -> int:
        events = _read_events(self._events)
        for event in events[seen:]:
            if event["event"] == "workload":
                report(event["workload"])
        return len(events)

    def _end(self) -> None:
        """End the process and whatever it left running."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        if self._child.stdin:
            self._child.stdin.close()

    def _reason(self, events: list[dict[str, Any]], *, hung: bool) -> str | None:
        status = self._child.returncode
        faults = [event["reason"] for event in events if event["event"] == "fault"]
        if hung:
            return f"did not end within {self._limit:.0f} s"
        if faults:
            return str(faults[-1])
        if status < 0:
            name = signal.Signals(-status).name
            hint = " (often: the host ran out of memory)" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}"
        if status or not any(event["event"] == "done" for event in events):
            return f"ended with status {status} before the script was done"
        return None

    def last_output(self) -> str:
        """Return the last lines that the process wrote, whatever bytes they are."""
        text = self._output.read_bytes()[-100_000:].decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-LAST_OUTPUT:])


def _variables(gpu: int | None) -> dict[str, str]:
    """Return the child's environment: this one, its GPU, and warplog importable."""
    found = dict(os.environ)
    home = str(Path(__file__).resolve().parents[1])
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [home, found.get("PYTHONPATH", "")]))
    found["PYTHONDONTWRITEBYTECODE"] = "1"
    if gpu is None:
        found["TRITON_INTERPRET"] = "1"
    else:
        found["CUDA_VISIBLE_DEVICES"] = _visible(found.get("CUDA_VISIBLE_DEVICES"), gpu)
    return found


def _visible(allowed: str | None, gpu: int) -> str:
    """Return the name of GPU number `gpu` among those that this process may use."""
    return allowed.split(",")[gpu].strip() if allowed else str(gpu)


def _read_events(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of an event file; a last line cut short is left for later."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines() if line]


@contextlib.contextmanager
def _gpu_lock(gpu: int | None) -> Iterator[None]:
    """Let one reproduction at a time have a GPU; a second one waits."""
    path = Path(tempfile.gettempdir()) / f"warplog-{os.getuid()}-gpu-{gpu}.lock"
    with path.open("w") as file:
        if gpu is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _keep_aside(artifact: Artifact, ended: list[Ended], options: Options) -> Path | None:
    """Write what was measured before a fault to a file marked incomplete, outside the records."""
    if options.aside is None:
        return None
    path = options.aside / artifact.slug / f"{utc_now().replace(':', '')}.incomplete.json"
    runs = [{"measurements": one.measurements, "reason": one.reason} for one in ended]
    content = {"incomplete": True, "artifact": artifact.slug, "runs": runs}
    write_whole(path, json.dumps(content, indent=1) + "\n")
    return path


def _count(
    artifact: Artifact, first: Ended, scratch: Path, options: Options
) -> tuple[list[dict[str, Any]], list[str]]:
    """Read Nsight Compute's counters in one more process, if the script asked for any."""
    wanted = sorted({name for event in first.of("counters") for name in event["counters"]})
    if not wanted:
        return [], []
    if not shutil.which("ncu"):
        return [], ["counters not measured: Nsight Compute (ncu) is not installed"]
    log = scratch.parent / "counters.csv"
    process = _Process(
        artifact,
        scratch,
        1,
        options,
        wrap=lambda program: profile.command(wanted, program, log),
        counters="all",
    )
    ended = process.wait(lambda _: None)
    if ended.reason or not log.is_file():
        return [], [f"counters not measured: {ended.reason or 'ncu wrote no table'}"]
    table = log.read_text("utf-8", "replace")
    found = profile.read_counters(table, ended.of("range"))
    missing = "" if found else "counters not measured: ncu's table holds none of the ranges"
    return found, [missing] if missing else []


def _record(
    artifact: Artifact,
    ended: list[Ended],
    counted: list[dict[str, Any]],
    options: Options,
    seconds: float,
) -> Record:
    """Put the processes' events together into one record."""
    about = [one.of("environment")[-1] for one in ended]
    files = artifact.digests(sorted({name for one in about for name in one["shared"]}))
    commit, modified = artifact.commit()
    if options.commit:
        commit, modified = options.commit, False
    measurements = _merge([one.measurements for one in ended]) + counted
    return Record(
        schema=SCHEMA,
        artifact=artifact.slug,
        device=about[0]["device"],
        recorded=utc_now(),
        seconds=round(seconds, 1),
        source=Source(closure_digest(files), files, commit, modified),
        protocol=_protocol(ended),
        environment=_environment(about),
        disturbed=[
            f"run {number}: {line}"
            for number, one in enumerate(about, 1)
            for line in one["disturbed"]
        ],
        measurements=msgspec.convert(measurements, list[Measurement]),
    )


def _protocol(ended: list[Ended]) -> Protocol:
    about = ended[0].of("environment")[-1]
    return Protocol(
        version=PROTOCOL_VERSION,
        runs=len(ended),
        timer=about["timer"],
        flush_bytes=about["flush_bytes"],
    )


def _environment(about: list[dict[str, Any]]) -> Environment:
    first = about[0]
    return Environment(
        gpu=first["gpu"],
        driver=first["driver"],
        python=first["python"],
        system=first["system"],
        packages=first["packages"],
        variables=first["variables"],
        clocks=[reading for one in about for reading in one["clocks"]],
    )


def _merge(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Join the same measurement of every process. One that failed anywhere has failed, and says so;
    one that a process did not make is dropped with its reason, because ratios pair runs by number.
    """
    merged: dict[str, dict[str, Any]] = {}
    for run in runs:
        for each in run:
            key = json.dumps([each["metric"], each["subject"], each["workload"]], sort_keys=True)
            known = merged.setdefault(key, {**each, "runs": []})
            if "failed" in each:
                known["failed"] = each["failed"]
            known["runs"].extend(each.get("runs", []))
            if known.get("timer") != each.get("timer"):
                known["timer"] = "events"
    for known in merged.values():
        if "failed" not in known and len(known["runs"]) != len(runs):
            known["failed"] = f"measured in {len(known['runs'])} of {len(runs)} processes only"
        if "failed" in known:
            del known["runs"]
    return list(merged.values())
