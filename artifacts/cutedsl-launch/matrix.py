"""The matrix of versions and call forms: every cell in a process of its own, what it said compared
with known messages.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from threading import Timer
from typing import Any, Self

from kernel import arch
from shared import cutedsl_older as older

CELL = Path(__file__).parent / "cell.py"
CELLS = Path(__file__).parent / "cells.py"
SECONDS, AT_ONCE = 150, 7  # of all cells of a version; processes
TODAY, COST = "today", "--cost"

# region: messages
MESSAGES = {
    # what the report calls «ir.Attribute.parse() called with no active MLIR context», in its month and today
    "no context": "An MLIR function requires a Context but none was provided",
    "launch outside jit": "kernels can only be launched while a @cute.jit function is being compiled",
    # the report's second error, in its words in both versions
    "tensor without annotation": "Unsupported argument type: <class 'torch.Tensor'> for annotated type: None",
    # what torch's tensors meet where the argument is annotated
    "tensor for cute.Tensor": "to be <class 'cutlass.cute.typing.Tensor'>, but got <class 'torch.Tensor'>",
    # what a launch says under the report's patch
    "no expression": "convert it into Dynamic Expression (aka MLIR values) but failed",
    "no expression, today": "cannot be converted to a DynamicExpression",
}
# endregion


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: the version that ran, whether the kernel's numbers were right, and what
    was said.
    """

    version: str
    right: bool
    message: str

    @property
    def said(self) -> list[str]:
        """The known messages that stand in what was said, whatever its line breaks."""
        plain = " ".join(self.message.split())
        return [name for name, text in MESSAGES.items() if text in plain]


def forms() -> list[str]:
    """Return the call forms, in their order, without importing CuTe DSL."""
    table = CELL.read_text("utf-8").partition("FORMS:")[2].partition("\n}")[0]
    return re.findall(r'^    "([^"]+)":', table, re.MULTILINE)


def places() -> dict[str, Path | None]:
    """Return where to import each version from that is installed; None: as this process would."""
    found: dict[str, Path | None] = {}
    first = older.modules()
    if first:
        found[older.VERSION] = first
    if util.find_spec("cutlass"):
        found[TODAY] = None
    return found


class Parents:
    """A process for each version that is installed, with the switch in its environment and without, which
    imports CuTe DSL and then forks; all import at the same time.
    """

    def __enter__(self) -> Self:
        """Start them."""
        self._open = ExitStack()
        self._anew: list[str] = []
        self._started = {
            (version, switch): self._start(first, switch=switch)
            for version, first in places().items()
            for switch in (False, True)
        }
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        for process, _ in self._started.values():
            process.kill()
        self._open.close()

    def _start(self, first: Path | None, *, switch: bool) -> tuple[subprocess.Popen, Any]:
        said = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the rest
        process = subprocess.Popen(
            [sys.executable, str(CELLS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
            env=variables(first, switch=switch),
        )  # fmt: skip
        return self._open.enter_context(process), said

    def ask(
        self, version: str, words: Sequence[str], *, switch: bool = False
    ) -> list[dict[str, Any]]:
        """Return what came of each word; if the parent dies or hangs, that is what came of all."""
        if not words:
            return []
        process, said = self._started[version, switch]
        late = Timer(SECONDS, process.kill)
        late.start()
        try:
            process.stdin.write(json.dumps([list(words), AT_ONCE]) + "\n")
            process.stdin.flush()
            told = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            how = f"all of {version} ended, status {_end_of(process, said)}"
            return [{"ended": how}] * len(words)
        finally:
            late.cancel()
        self._anew += [version] * len(words if told["way"] != "fork" else told["forks"])
        if told["way"] != "fork":
            print(f"{version}: importing it started the driver; each cell imports it anew")  # noqa: T201
        for word, why in told["forks"].items():
            print(f"{version}, {word}: a fork ended and a new process was started: {why}")  # noqa: T201
        return told["found"]

    def anew(self, version: str) -> int:
        """Return for how many cells of a version a fork was not enough."""
        return self._anew.count(version)


def _end_of(process: subprocess.Popen, said: Any) -> str:
    """End a process; return its status and the last of what it said."""
    process.kill()
    process.wait()
    with suppress(OSError):  # what it was asked may still be in the pipe
        process.stdin.close()
    said.seek(0)
    return f"{process.returncode} {said.read().decode('utf-8', 'replace')[-2000:]}"


def variables(first: Path | None, *, switch: bool) -> dict[str, str]:
    """Return the environment of a process that imports a version and then forks.

    Whether there is a GPU is asked of NVML, and its architecture is told, so that nothing has to
    start the driver before the forks do.
    """
    told = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "CUTE_DSL_ARCH": arch()}
    told |= {"OPENBLAS_NUM_THREADS": "1"}  # a process that forks has one thread
    return older.environment(first) | told | ({"CUTE_DSL_ENABLE_TVM_FFI": "1"} if switch else {})


def outcomes(parents: Parents, wanted: Sequence[str]) -> dict[tuple[str, str], Outcome]:
    """Run the cells of these forms in every version that is installed, some at a time."""
    groups = [
        (version, switch, [form for form in wanted if form.startswith("switch") == switch])
        for version in places()
        for switch in (False, True)
    ]
    with ThreadPoolExecutor(max(1, len(groups))) as pool:
        told = pool.map(lambda group: parents.ask(group[0], group[2], switch=group[1]), groups)
        found = {
            (version, form): _outcome(each)
            for (version, _, forms), all_told in zip(groups, told, strict=True)
            for form, each in zip(forms, all_told, strict=True)
        }
    return {(version, form): found[version, form] for version in places() for form in wanted}


def _outcome(told: dict[str, Any]) -> Outcome:
    if "answer" in told:
        return Outcome(**told["answer"])
    return Outcome("none", right=False, message=f"the process ended: {told['ended']}")


def costs(parents: Parents) -> dict[str, dict[str, list[float]]]:
    """Return the host's seconds of a call by version and way; the versions take turns."""
    versions = list(places())
    with ThreadPoolExecutor(max(1, len(versions))) as pool:
        told = list(pool.map(lambda version: parents.ask(version, [COST])[0], versions))
    for version, each in zip(versions, told, strict=True):
        if "ended" in each:
            print(f"{version}: no times, the process ended: {each['ended']}")  # noqa: T201
    return {
        version: each["answer"]
        for version, each in zip(versions, told, strict=True)
        if "answer" in each
    }
