"""The matrix of versions and call forms: what each cell said, compared with known messages."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from threading import Timer
from typing import Any, Self

from shared import cutedsl_older as older

CELL = Path(__file__).parent / "cell.py"
CELLS = Path(__file__).parent / "cells.py"
SECONDS = 60  # of a cell, import included
TODAY, COST = "today", "--cost"
KINDS = ("other", "kernel", "switch")  # of call forms; all but the first are how their names begin

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


class Worker:
    """A process that imports one version of CuTe DSL and then answers cells, one after the other."""

    def __init__(self, version: str, first: Path | None, *, switch: bool) -> None:
        """Start it; it imports while nobody waits."""
        self._version = version
        self._variables = variables(first, switch=switch)
        self._start()

    def _start(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, str(CELLS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            env=self._variables,
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        """Whether it has been ended; the next question starts another."""
        return self._process.returncode is not None

    def ask(self, words: Sequence[str]) -> list[dict[str, Any]]:
        """Return what came of each word: its `answer`, or how the process `ended` without one."""
        return [self._answer(word) for word in words]

    def _answer(self, word: str) -> dict[str, Any]:
        if self.ended:
            self._start()
        late = Timer(SECONDS, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(json.dumps(word) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            return {"ended": self.end()}
        finally:
            late.cancel()

    def end(self) -> str:
        """End the process; return its status and the last of what it said."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what it was asked may still be in the pipe
                pipe.close()
        with self._said as said:
            said.seek(0)
            told = said.read().decode("utf-8", "replace")[-2000:]
        return f"status {self._process.returncode} {told}".strip()


class Workers:
    """Processes for each version that is installed; all import at the same time.

    A launch from plain Python leaves off in the middle, so those forms have a process of their own, as
    have those with the switch, which is read at the import; all others share one.
    """

    def __enter__(self) -> Self:
        """Start them."""
        self._workers = {
            (version, kind): Worker(version, first, switch=kind == "switch")
            for version, first in places().items()
            for kind in KINDS
        }
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        for worker in self._workers.values():
            if not worker.ended:
                worker.end()

    def ask(self, version: str, kind: str, words: Sequence[str]) -> list[dict[str, Any]]:
        """Return what came of each word."""
        return self._workers[version, kind].ask(words)


def kind_of(form: str) -> str:
    """Return which process of a version a form is called in."""
    return next((kind for kind in KINDS[1:] if form.startswith(kind)), KINDS[0])


def variables(first: Path | None, *, switch: bool) -> dict[str, str]:
    """Return the environment of a process that imports a version."""
    return older.environment(first) | ({"CUTE_DSL_ENABLE_TVM_FFI": "1"} if switch else {})


def outcomes(workers: Workers, wanted: Sequence[str]) -> dict[tuple[str, str], Outcome]:
    """Run the cells of these forms in every version that is installed."""
    groups = [(version, kind) for version in places() for kind in KINDS]
    words = {kind: [form for form in wanted if kind_of(form) == kind] for kind in KINDS}
    with ThreadPoolExecutor(max(1, len(groups))) as pool:
        told = pool.map(lambda group: workers.ask(*group, words[group[1]]), groups)
        found = {
            (version, form): _outcome(each)
            for (version, kind), all_told in zip(groups, told, strict=True)
            for form, each in zip(words[kind], all_told, strict=True)
        }
    return {(version, form): found[version, form] for version in places() for form in wanted}


def _outcome(told: dict[str, Any]) -> Outcome:
    if "answer" in told:
        return Outcome(**told["answer"])
    return Outcome("none", right=False, message=f"the process ended: {told['ended']}")


def costs(workers: Workers) -> dict[str, dict[str, list[float]]]:
    """Return the host's seconds of a call by version and way; the versions take turns."""
    versions = list(places())
    with ThreadPoolExecutor(max(1, len(versions))) as pool:
        told = list(pool.map(lambda version: workers.ask(version, KINDS[0], [COST])[0], versions))
    for version, each in zip(versions, told, strict=True):
        if "ended" in each:
            print(f"{version}: no times, the process ended: {each['ended']}")  # noqa: T201
    return {
        version: each["answer"]
        for version, each in zip(versions, told, strict=True)
        if "answer" in each
    }
