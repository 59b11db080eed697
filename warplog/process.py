"""One fresh process: imports an artifact's script, runs it once, and says where it ran.

The rule kept here: each measurement is written down as soon as it is made; what the script read from
`artifacts/shared` is part of its source, and nothing else outside its folder may be; the process ends
when its parent does. Started by `runner` as `python -m warplog.process`.
"""

import argparse
import ctypes
import importlib.util
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warplog import environment, profile
from warplog.child import NO_ROOM
from warplog.event import REASON_AT_MOST, TEXT_AT_MOST, Write, writer
from warplog.mishap import NotAScript, mishap
from warplog.run import Run
from warplog.source import file_digest
from warplog.timer import QueueTimer

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class Shared:
    """The files under `artifacts/` outside the artifact's folder that this process opens."""

    def __init__(self, folder: Path) -> None:
        """Watch every file that Python opens from now on; modules are found when asked."""
        self._folder = folder.resolve()
        self._opened: set[str] = set()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str):
            self._opened.add(os.path.abspath(arguments[0]))  # noqa: PTH100 - of this moment

    def digests(self) -> dict[str, str]:
        """Return the digest of each file of `artifacts/shared` that was used, as seen from the folder.

        Raises NotAScript where another artifact's file was used.
        """
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        found = {}
        for name in {*self._opened, *filter(None, modules)}:
            path = Path(os.path.abspath(name))  # noqa: PTH100 - links are followed on purpose below
            if self._is_foreign(path.resolve()):
                inside = path.resolve().relative_to(self._folder.parent)
                if inside.parts[0] != "shared":
                    problem = f"uses artifacts/{inside.as_posix()}"
                    raise NotAScript(f"{problem}; only artifacts/shared may be shared")
                found[f"../{inside.as_posix()}"] = file_digest(path)
        return dict(sorted(found.items()))

    def _is_foreign(self, path: Path) -> bool:
        inside = path.is_relative_to(self._folder.parent) and not path.is_relative_to(self._folder)
        return inside and path.is_file() and "__pycache__" not in path.parts


def load_script(folder: Path) -> Any:
    """Import `reproduce.py` of the artifact in `folder`, with its folder and `artifacts/` importable.

    Raises NotAScript where it cannot be imported or defines no `reproduce`.
    """
    sys.path[:0] = [str(folder), str(folder.parent)]
    spec = importlib.util.spec_from_file_location("reproduce", folder / "reproduce.py")
    if spec is None or spec.loader is None:
        raise NotAScript(f"artifacts/{folder.name}/reproduce.py: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["reproduce"] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise NotAScript(f"{type(error).__name__}: {error}") from error
    place = f"artifacts/{folder.name}/reproduce.py"
    if not callable(getattr(module, "reproduce", None)):
        raise NotAScript(f"{place}: defines no function reproduce; write `def reproduce(run):`")
    try:
        inspect.signature(module.reproduce).bind(None)
    except TypeError:
        problem = "its reproduce does not take one argument, run"
        raise NotAScript(f"{place}: {problem}; write `def reproduce(run):`") from None
    return module


def end_with_parent() -> None:
    """End this process when its parent ends, however that happens: by the kernel's word where it has
    one, and else when the pipe to the parent closes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)

    def wait() -> None:
        while os.read(0, 1):
            continue
        os._exit(3)

    threading.Thread(target=wait, daemon=True).start()


def main(words: Sequence[str] | None = None) -> int:
    """Run one artifact's script once and write its events, one JSON object a line."""
    parser = argparse.ArgumentParser(prog="warplog.process")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--counting", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(words)
    end_with_parent()
    with options.events.open("a", encoding="utf-8") as file:
        write = writer(file)
        try:
            measure(
                options.folder,
                options.seed,
                write,
                counting=options.counting,
                tiny=options.tiny,
            )
        except Exception as error:
            kind = "load" if isinstance(error, NotAScript) else "fault"
            found = mishap(error, options.folder)
            try:
                write({"event": kind, "reason": found.line or _bug(error)})
            except OSError:
                os._exit(NO_ROOM)  # on the usual way out the same write would fail once more
            if not found.line:
                raise
            sys.stderr.write(f"{found.rest}\n" if found.rest else "")
            return 1
    return 0


def _bug(error: Exception) -> str:
    """Return in one line what ended the harness itself; its traceback says the rest."""
    said = str(error)[:TEXT_AT_MOST].strip().partition("\n")[0]
    return environment.scrub(f"{type(error).__name__}: {said}")[:REASON_AT_MOST]


def measure(
    folder: Path, seed: int, write: Write, *, counting: bool = False, tiny: bool = False
) -> None:
    """Run the script of the artifact in `folder`; write its events, where it ran, and that it is done.
    At `tiny` sizes, and where Nsight Compute is `counting`, nothing is timed.
    """
    where = environment.device()
    clocks = [environment.clocks(where)]
    busy: list[dict[str, Any]] = []
    timed = where.type == "cuda" and not counting and not tiny
    timer = QueueTimer(where) if timed else None
    run = Run(
        write,
        seed=seed,
        timer=timer,
        bandwidth=environment.pin_bandwidth(where),
        counting=profile.Counting(write) if counting else None,
        observe=lambda: busy.append(environment.clocks(where)),
        tiny=tiny,
    )
    shared = Shared(folder)
    script = load_script(folder)
    used = shared.digests()
    started = time.perf_counter()
    script.reproduce(run)
    seconds = time.perf_counter() - started
    used = {**shared.digests(), **used}
    clocks += [environment.busiest(busy), environment.clocks(where)]
    about = environment.about(where, folder)
    about |= {"clocks": list(filter(None, clocks)), "disturbed": environment.disturbances(clocks)}
    about |= {"timer": timer.name if timer else "none"}
    about |= {"flush_bytes": timer.flush_bytes if timer else 0}
    write({"event": "environment", **about, "shared": used, "seconds": seconds})
    write({"event": "done"})


if __name__ == "__main__":
    sys.exit(main())
