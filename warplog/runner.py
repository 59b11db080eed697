"""Turns an artifact into a record: fresh processes, time limits, one GPU at a time each.

The rule kept here: a process that dies, hangs or runs out of memory costs that process and says why;
a record exists only when every process ended well; published records are only ever added to.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warplog import profile
from warplog.assembly import assemble
from warplog.child import Child, Ended
from warplog.doubt import Offered
from warplog.fault import Fault
from warplog.record import Record, Workload
from warplog.scratch import scratch_folder
from warplog.source import Artifact
from warplog.store import utc_now, write_whole

RUNS = 6
TIME_LIMIT = 900.0


@dataclasses.dataclass(frozen=True)
class Where:
    """Where a reproduction is: process `run` of `runs`, at `workload`."""

    run: int
    runs: int
    workload: Workload


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a reproduction: a record, or the reason why there is none.

    `started` is false where the script could not even begin; `kept` is the file of what was measured
    before a fault, `notes` says what could not be measured, `offered` which sizes a GPU would have had.
    """

    record: Record | None
    reason: str | None = None
    output: str = ""
    kept: Path | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    started: bool = True
    offered: list[Offered] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Options:
    """How to reproduce: processes, seconds that each may take, which GPU, the stated commit."""

    runs: int = RUNS
    time_limit: float = TIME_LIMIT
    gpu: int | None = None
    commit: str | None = None
    aside: Path | None = None


def gpus() -> int:
    """Return how many GPUs torch can use, asked in a process of its own so that none is held here.

    Raises Fault where that process was killed: a host without an answer is no host without a GPU.
    """
    code = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        problem = f"the process that counts the GPUs was killed by signal {-done.returncode}"
        raise Fault("warplog", problem, "run it again")
    if "No module named 'torch'" in done.stderr:
        remedy = "run `pip install -e '.[measure]'` with it, or leave --no-venv out"
        raise Fault("warplog", f"{sys.executable} has no package torch", remedy)
    last = (done.stdout.split() or ["0"])[-1]
    return int(last) if last.isdigit() else 0


def reproduce(artifact: Artifact, options: Options, report: Callable[[Where], None]) -> Outcome:
    """Run the artifact's script in fresh processes, one after the other, and make a record of it.

    `report` hears of each workload as it starts. Nothing under the artifact's folder is written.
    """
    began = time.monotonic()
    files, records = artifact.digests([]), _published(artifact)
    ended: list[Ended] = []
    with scratch_folder() as folder, gpu_lock(options.gpu):
        for run in range(1, options.runs + 1):
            hear = functools.partial(_report, report, run, options.runs)
            scratch = folder / str(run)
            ended.append(start(artifact, scratch, options, _seed()).wait(options.time_limit, hear))
            if ended[-1].reason:
                reason = f"process {run} of {options.runs}: {ended[-1].reason}"
                return _broken(artifact, ended, options, reason)
        counted, notes = _count(artifact, ended[0], folder, options)
    changed = _changed(artifact, files, records, ended)
    if changed:
        return _broken(artifact, ended, options, f"{changed} changed while it ran; start again")
    seconds = time.monotonic() - began
    record = assemble(artifact, ended, counted, options.commit, seconds)
    offered = [Offered(each["full"], each["tiny"]) for each in ended[0].of("sizes")]
    return Outcome(record, notes=notes, offered=offered)


def _seed() -> int:
    return random.SystemRandom().randrange(1, 2**24)


def _report(report: Callable[[Where], None], run: int, runs: int, workload: Workload) -> None:
    report(Where(run, runs, workload))


def start(
    artifact: Artifact,
    scratch: Path,
    options: Options,
    seed: int,
    wrap: Callable[[list[str]], list[str]] = list,
    *,
    counting: bool = False,
    tiny: bool = False,
    variables: dict[str, str] | None = None,
) -> Child:
    """Start a process that runs the script once; `wrap` puts another program around it, `tiny` asks for
    tiny sizes and no times, and `variables` are added to its environment.
    """
    scratch.mkdir()
    events = scratch / "events.jsonl"
    program = [sys.executable, "-m", "warplog.process", str(artifact.folder.resolve())]
    program += ["--events", str(events), "--seed", str(seed)]
    program += ["--counting"] if counting else []
    program += ["--tiny"] if tiny else []
    return Child(wrap(program), events, scratch, _variables(options.gpu) | (variables or {}))


def _published(artifact: Artifact) -> dict[Path, bytes]:
    """Return the content of every published record, to see that a script leaves them alone."""
    return {path: path.read_bytes() for path in artifact.records.rglob("*.json")}


def _changed(
    artifact: Artifact, files: dict[str, str], records: dict[Path, bytes], ended: list[Ended]
) -> str:
    """Name what changed since the start, other than by new records; empty if nothing did."""
    if artifact.digests([]) != files:
        return "the artifact's files"
    if not records.items() <= _published(artifact).items():
        return "the published records (restore them from git)"
    shared = [one.of("environment")[-1]["shared"] for one in ended]
    now = artifact.digests([name for each in shared for name in each])
    if any(now.get(name) != digest for each in shared for name, digest in each.items()):
        return "files of artifacts/shared"
    return ""


def _variables(gpu: int | None) -> dict[str, str]:
    """Return the child's environment: this one, its GPU, and warplog importable."""
    found = dict(os.environ)
    home = str(Path(__file__).resolve().parents[1])
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [home, found.get("PYTHONPATH", "")]))
    found["PYTHONDONTWRITEBYTECODE"] = "1"
    if gpu is None:
        found["TRITON_INTERPRET"] = "1"
    else:
        found["CUDA_VISIBLE_DEVICES"] = _visible(gpu)
    return found


def _visible(gpu: int) -> str:
    """Return the driver's name of GPU number `gpu` among those that this process may use."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    return allowed.split(",")[gpu].strip() if allowed else str(gpu)


@contextlib.contextmanager
def gpu_lock(gpu: int | None) -> Iterator[None]:
    """Let one reproduction at a time have a GPU; a second one waits."""
    if gpu is None:
        yield
        return
    name = f"warplog-{os.getuid()}-gpu-{_visible(gpu)}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    handle = os.open(Path(tempfile.gettempdir()) / name, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _broken(artifact: Artifact, ended: list[Ended], options: Options, reason: str) -> Outcome:
    """Return the outcome of a fault, with what was measured before it kept aside, marked incomplete."""
    last = ended[-1]
    kept = None
    with contextlib.suppress(OSError):  # the reason matters more than what can be kept
        kept = _keep_aside(artifact, ended, options, reason)
    started = not last.of("load")
    return Outcome(None, reason, last.output if last.reason else "", kept, started=started)


def _keep_aside(
    artifact: Artifact, ended: list[Ended], options: Options, reason: str
) -> Path | None:
    """Write what was measured, if anything was, to a file marked incomplete, outside the records; say
    where.
    """
    if options.aside is None or not any(one.measurements for one in ended):
        return None
    name = f"{utc_now().replace(':', '')}-{os.getpid()}.incomplete.json"
    kept = options.aside / artifact.slug / name
    runs = [{"measurements": one.measurements, "reason": one.reason} for one in ended]
    content = {"incomplete": True, "artifact": artifact.slug, "reason": reason, "runs": runs}
    write_whole(kept, json.dumps(content, indent=1) + "\n")
    return kept


def _count(
    artifact: Artifact, first: Ended, folder: Path, options: Options
) -> tuple[list[dict[str, Any]], list[str]]:
    """Read Nsight Compute's counters in one more process, if the script asked for any."""
    wanted = sorted({name for event in first.of("counters") for name in event["counters"]})
    if not wanted:
        return [], []
    if not shutil.which("ncu"):
        return [], ["counters not measured: Nsight Compute (ncu) is not installed"]
    log = folder / "counters.csv"
    wrap = functools.partial(profile.command, wanted, log)
    child = start(artifact, folder / "counters", options, _seed(), wrap, counting=True)
    ended = child.wait(options.time_limit, lambda _: None)
    if ended.reason or not log.is_file():
        return [], [f"counters not measured: {ended.reason or 'ncu wrote no table'}"]
    found = profile.read_counters(log.read_text("utf-8", "replace"), ended.of("range"))
    return found, [] if found else ["counters not measured: ncu's table holds none of the ranges"]
