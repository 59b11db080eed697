"""The matrix of versions and call forms: every cell in a process of its own, what it said compared
with known messages.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from shared import cutedsl_older as older

CELL = Path(__file__).parent / "cell.py"
SECONDS, AT_ONCE = 120, 10
TODAY = "today"

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


def outcomes(wanted: Sequence[str]) -> dict[tuple[str, str], Outcome]:
    """Run the cells of these forms in every version that is installed, some at a time."""
    cells = [(version, form) for version in places() for form in wanted]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(cells, pool.map(lambda cell: _outcome(*cell), cells), strict=True))


def _outcome(version: str, form: str) -> Outcome:
    variables = {"CUTE_DSL_ENABLE_TVM_FFI": "1"} if form.startswith("switch") else {}
    try:
        found = json.loads(_run(version, form, variables))
    except (subprocess.SubprocessError, ValueError) as error:
        return Outcome("none", right=False, message=f"the process ended: {error}")
    return Outcome(**found)


def costs() -> dict[str, dict[str, list[float]]]:
    """Return the host's seconds of a call by version and way, of one version after the other."""
    return {version: json.loads(_run(version, "--cost", {})) for version in places()}


def _run(version: str, word: str, variables: dict[str, str]) -> str:
    """Run `cell.py` with a version; return its last line."""
    told = older.environment(places()[version]) | variables
    ended = subprocess.run(
        [sys.executable, str(CELL), word],
        check=True,
        capture_output=True,
        text=True,
        env=told,
        timeout=SECONDS,
    )
    return ended.stdout.strip().splitlines()[-1]
