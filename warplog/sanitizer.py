"""Runs an artifact's tiny sizes under NVIDIA's compute-sanitizer and reads what it found.

The rule kept here: the tool's word and the script's are two, and a clean artifact needs both. A script
that dies or compares nothing, a subject that fails, and a tool that writes no summary are no clean outcome.
What is told of a finding holds no path.
"""

import dataclasses
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from warplog import runner
from warplog.child import Ended
from warplog.fault import Fault
from warplog.names import nearest
from warplog.scratch import scratch_folder
from warplog.session import COULD_NOT, DIFFERS, SAME, printable
from warplog.source import Artifact
from warplog.workload import spell

TOOLS = ("memcheck", "racecheck", "synccheck")
PROGRAM = "compute-sanitizer"
FOUND = 86
PRINTED_AT_MOST = 1000
SEED = 1
_ELSEWHERE = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
_UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_LINE = re.compile(r"^=========(?P<indent> *)(?P<words>\S.*?)\s*$", re.MULTILINE)
_SUMMARY = re.compile(
    r"(?:ERROR SUMMARY: (?P<errors>\d+) errors?|RACECHECK SUMMARY: (?P<hazards>\d+) hazards? .*)\Z"
)
_BROKEN = re.compile(r"(?:Error: |Warning: )?(?:Internal .*[Ee]rror|Unable to|Failed to)")
_NO_FINDING = re.compile(
    r"COMPUTE-SANITIZER|\w+ SUMMARY:|(?:Error: )?(?:Target application|couldn't find|process didn't)"
)
_WHERE = re.compile(
    r"\bat (?P<kernel>.+?)[+:]0x[0-9a-f]+(?: in (?P<place>\S+))?"
    r"|\bat 0x[0-9a-f]+ in (?P<older>\S+)"
)
_FOLDERS = re.compile(r"[^\s:()]*/")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One kind of fault in one kernel, at one line where the tool knows it; how often it was printed."""

    kind: str
    kernel: str
    place: str
    count: int

    def __str__(self) -> str:
        """Write it in a line: ``Invalid __global__ read of size 4 bytes in kernel (kernel.py:43): 7``."""
        place = f" ({self.place})" if self.place else ""
        return f"{self.kind} in {self.kernel or 'no kernel'}{place}: {self.count}"


@dataclasses.dataclass(frozen=True)
class Examined:
    """What one tool found in one artifact: `total` findings, or the `reason` why it could not look.

    `failed` names the subjects that failed at a tiny size: no finding of the tool's, but their kernels may
    not have run.
    """

    total: int
    findings: tuple[Finding, ...] = ()
    failed: tuple[str, ...] = ()
    reason: str | None = None
    output: str = ""


def program() -> str:
    """Return where compute-sanitizer is: on the PATH or where the CUDA toolkit puts it; or raise Fault."""
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"))
    folders = [*(f"{home}/bin" for home in homes if home), *_ELSEWHERE]
    found = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=os.pathsep.join(folders))
    if found is None:
        remedy = "install it with the CUDA toolkit, or put its folder on the PATH"
        raise Fault("warplog sanitize", f"there is no {PROGRAM} here", remedy)
    return found


def tools(names: list[str]) -> list[str]:
    """Return the tools that are named, all if none is, or raise Fault for what is no tool of ours."""
    for name in names:
        if name not in TOOLS:
            raise Fault("warplog sanitize", f"no tool {name!r}", nearest(name, TOOLS))
    return list(dict.fromkeys(names)) or list(TOOLS)


def command(sanitizer: str, tool: str, log: Path, words: list[str]) -> list[str]:
    """Return the command line that runs the program `words` under `tool` and writes to `log`.

    Calls of the driver that fail are not counted: torch and Triton probe for what a driver lacks.
    """
    return [
        sanitizer,
        f"--tool={tool}",
        f"--error-exitcode={FOUND}",
        "--target-processes=application-only",
        "--report-api-errors=no",
        "--show-backtrace=no",
        f"--print-limit={PRINTED_AT_MOST}",
        f"--log-file={log}",
        *words,
    ]


def examine(artifact: Artifact, tool: str, options: runner.Options, *, pooled: bool) -> Examined:
    """Run the artifact's script once at its tiny sizes, timing nothing, under `tool` of `program()`.

    Under memcheck each tensor has an allocation of its own: torch's allocator cuts tensors from large
    pieces, and an access beyond a tensor but within its piece would not be seen. `pooled` keeps that
    allocator, for a script that captures CUDA graphs, which need it.
    """
    sanitizer = program()
    variables = _UNCACHED if tool == "memcheck" and not pooled else {}
    with scratch_folder() as folder, runner.gpu_lock(options.gpu):
        log = folder / "log"
        child = runner.start(
            artifact,
            folder / "run",
            options,
            SEED,
            lambda words: command(sanitizer, tool, log, words),
            tiny=True,
            variables=variables,
        )
        ended = child.wait(options.time_limit, lambda _: None)
        return judge(ended, log.read_text("utf-8", "replace") if log.is_file() else "")


def examine_all(
    artifacts: list[Artifact],
    names: list[str],
    options: runner.Options,
    say: Callable[[str], None],
    *,
    pooled: bool,
) -> int:
    """Examine each artifact with each tool of `names`, say what came of it, and return the exit status:
    0 nothing found, 1 a finding, 2 something could not be examined.
    """
    worst = SAME
    for artifact in artifacts:
        for tool in names:
            found = examine(artifact, tool, options, pooled=pooled)
            for line in _lines(found):
                say(printable(f"{artifact.slug}: {tool}: {line}"))
            status = COULD_NOT if found.reason is not None else DIFFERS if found.total else SAME
            worst = max(worst, status)
    return worst


def _lines(found: Examined) -> list[str]:
    """Return what to say of one examination: what failed on the way, each finding, and the sum."""
    lines = [f"note: not right at a tiny size: {each}" for each in found.failed]
    if found.reason is not None:
        words = [f"the last that it wrote:\n{found.output}"] if found.output else []
        return [*lines, *words, f"could not run: {found.reason}"]
    if not found.total:
        return [*lines, "nothing found"]
    return [*lines, *map(str, found.findings), f"{found.total} found"]


def judge(ended: Ended, log: str) -> Examined:
    """Return what came of a process that ended so, and of the tool that wrote `log`."""
    total, findings = read(log)
    failed = tuple(
        f"{each['subject']} on {spell(each['workload'])}: {each['failed']}"
        for each in ended.measurements
        if each.get("failed") is not None
    )
    lines = [_FOLDERS.sub("", found["words"]) for found in _LINE.finditer(log)]
    broken = next((line for line in lines if _BROKEN.match(line)), None)
    if total and (findings or broken is None):
        return Examined(total, findings, failed)
    if broken is not None:
        return Examined(0, (), failed, f"{PROGRAM}: {broken}", ended.output)
    if ended.reason is not None:
        return Examined(0, (), failed, ended.reason, ended.output)
    if total is None:
        said = "; ".join(lines) or "nothing at all"
        return Examined(0, (), failed, f"{PROGRAM} wrote no summary: {said}")
    if failed or not ended.measurements:
        what = f"{len(failed)} failed" if failed else "the script measured nothing"
        return Examined(0, (), failed, f"{what}, so not all was looked at")
    return Examined(0, (), failed)


def read(log: str) -> tuple[int | None, tuple[Finding, ...]]:
    """Return how many findings the tool counted, None where it wrote no summary, and those it printed,
    alike ones together, in their order.
    """
    total: int | None = None
    heads: list[tuple[str, str]] = []
    for line in _LINE.finditer(log):
        words, inside = line["words"], len(line["indent"]) > 1
        summary = _SUMMARY.match(words)
        if summary:
            total = (total or 0) + int(summary["errors"] or summary["hazards"])
        elif inside and heads and not heads[-1][1]:
            heads[-1] = heads[-1][0], words
        elif not inside and not _NO_FINDING.match(words) and not _BROKEN.match(words):
            heads.append(
                (words, words if _WHERE.search(words) else "")
            )  # a race says where at once
    found = Counter(_finding(*each) for each in heads)
    return total, tuple(Finding(*key, count) for key, count in found.items())


def _finding(head: str, where: str) -> tuple[str, str, str]:
    """Return kind, kernel and place of a finding from its first line and the line that says where."""
    kind = re.split(r" at (?=.*0x)", head.removeprefix("Error: "))[0].rstrip(".")
    place = _WHERE.search(where)
    if place is None:
        return kind, "", ""
    if place["older"]:
        *line, kernel = _FOLDERS.sub("", place["older"]).split(":")
        return kind, kernel, ":".join(line)
    return kind, place["kernel"], _FOLDERS.sub("", place["place"] or "")
