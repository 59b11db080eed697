"""The cells of one version in one environment: CuTe DSL is imported once, and a process is forked for
each cell.

`python cells.py` reads lines of JSON, [cells, how many at once], and answers each with a line: for each
cell its `answer`, or how its process `ended` without one, and of which ones a fork ended. A process
that dies or hangs costs its own cell.

CUDA does not work in a fork of a process that has started the driver. So nothing here may start it
before: the import is kept from it (`shared/cutedsl_older.py`), and afterwards the driver is asked. If
it has been started nevertheless, every cell gets a process that imports anew, which is slow and safe;
so does a cell whose fork ended without an answer, since that may have been the fork's doing.
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from shared.cutedsl_older import driver_untouched

SECONDS = 40  # of a cell
LAST = 2000  # characters of what a process said before it ended
FORK, SPAWN = "fork", "spawn"
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def driver_started() -> bool:
    """Say whether this process has started the driver; where there is none, it has not."""
    try:
        from cuda.bindings import driver

        code, _ = driver.cuDeviceGetCount()
    except (ImportError, RuntimeError):
        return False
    return code != driver.CUresult.CUDA_ERROR_NOT_INITIALIZED


def call(word: str) -> Any:
    """Return what comes of a cell."""
    import cell

    return cell.answer(word)


# region: answers
def answers(
    words: Sequence[str],
    at_once: int,
    way: str,
    target: Callable[[str], Any] = call,
    seconds: float = SECONDS,
) -> list[dict[str, Any]]:
    """Run `target` for each word in a process of its own; return what came of each, in their order."""
    context, waiting, found = get_context(way), list(words), {}
    running: dict[str, tuple[BaseProcess, Path, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < at_once:
                word, path = waiting[0], Path(folder) / str(len(waiting))
                child = context.Process(target=_write, args=(target, waiting.pop(0), str(path)))
                child.start()
                running[word] = child, path, time.monotonic() + seconds
            _wait(running)
            for word, (child, path, until) in list(running.items()):
                if not child.is_alive() or time.monotonic() > until:
                    found[word] = _outcome(child, path)
                    del running[word]
    return [found[word] for word in words]


# endregion


def _write(target: Callable[[str], Any], word: str, path: str) -> None:
    """In the child: write the answer where the parent looks for it, and what is printed beside it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    with Path(f"{path}.said").open("wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    part = Path(f"{path}.part")
    part.write_text(json.dumps({"answer": target(word)}), "utf-8")
    part.replace(path)


def _wait(running: dict[str, tuple[BaseProcess, Path, float]]) -> None:
    """Wait until one of the processes ends, or is late."""
    late = min(until for _, _, until in running.values()) - time.monotonic()
    connection.wait([child.sentinel for child, _, _ in running.values()], max(0.0, late) + 0.01)


def _outcome(child: BaseProcess, path: Path) -> dict[str, Any]:
    """Return the answer, or how the process ended without one; it is ended if it still runs."""
    how = "it did not end in time"
    if child.is_alive():
        child.kill()
        child.join(10)
    else:
        child.join()
        how = f"status {child.exitcode}"
    if path.exists():
        return json.loads(path.read_text("utf-8"))
    said = Path(f"{path}.said")
    told = said.read_text("utf-8", "replace")[-LAST:] if said.exists() else ""
    return {"ended": f"{how} {told}".strip()}


def answered(
    words: Sequence[str], at_once: int, way: str, target: Callable[[str], Any] = call
) -> dict[str, Any]:
    """Return what came of each word, and what was said of those whose fork ended without an answer."""
    found = dict(zip(words, answers(words, at_once, way, target), strict=True))
    forks = {word: each["ended"] for word, each in found.items() if "ended" in each and way == FORK}
    found |= zip(forks, answers(list(forks), at_once, SPAWN, target), strict=True)
    return {"way": way, "forks": forks, "found": list(found.values())}


def main() -> None:
    """Import, then answer until there is no more to answer."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    with driver_untouched():
        import cell  # noqa: F401 - for the forks
    way = SPAWN if driver_started() else FORK
    for line in sys.stdin:
        words, at_once = json.loads(line)
        told.write(json.dumps(answered(words, at_once, way)) + "\n")
        told.flush()


if __name__ == "__main__":
    main()
