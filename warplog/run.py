"""What a reproduction script is handed: the device, the sizes, and the verbs compare, count, profile.

The rule kept here: one fresh process runs the whole script once and writes down each measurement as
soon as it is made, so that what was measured before a fault is never lost. Started by `runner` as
`python -m warplog.run`; it ends when its parent does.
"""

import argparse
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

from warplog import environment, profile
from warplog.comparison import REASON_AT_MOST, Comparison, Write, measured
from warplog.measure import Inputs, Subject, as_tuple, check_reference, floor_seconds
from warplog.record import Number
from warplog.timer import QueueTimer, Timer

CHECKS = 3
T = TypeVar("T")


class Run:
    """One process's view of a reproduction. `seed` differs in every process."""

    def __init__(
        self,
        write: Write,
        *,
        seed: int = 0,
        timer: Timer | None = None,
        bandwidth: float | None = None,
        counting: profile.Counting | None = None,
    ) -> None:
        """`write` takes each event; `timer` times calls (None: nothing is timed); `bandwidth` is
        the bytes per second that no call may exceed; `counting` is set in the extra process that
        runs under Nsight Compute.
        """
        self.device = environment.device()
        self.on_gpu = self.device.type == "cuda"
        self.seed = seed
        self._write = write
        self._timer = timer
        self._bandwidth = bandwidth
        self._counting = counting

    def sizes(self, full: Sequence[T], tiny: Sequence[T]) -> list[T]:
        """Return `full` on a GPU and `tiny` without one."""
        return list(full if self.on_gpu else tiny)

    def compare(
        self,
        subjects: dict[str, Subject],
        reference: Subject,
        inputs: Callable[[int], Any],
        *,
        baseline: str | None = None,
        exact: bool = False,
        tolerance: float = 1e-2,
        traffic: Number | dict[str, Number] | None = None,
        work: Number | dict[str, Number] | None = None,
        cache: str = "cold",
        samples: int = 25,
        time: bool = True,
        **workload: Any,
    ) -> None:
        """Check each subject against `reference` on fresh inputs, then time those that are right.

        `subjects` maps names to callables of `*inputs(seed)`; they return a tensor or a tuple of
        tensors of the reference's shapes and on its device. `exact` asks for equal bits, otherwise
        the error (see `measure.error_of`) may reach `tolerance`. `traffic` is bytes and `work`
        operations of one call, for all subjects or by name. `baseline` (the first subject, if not
        named) is timed twice a round: its ratio to itself is the A/A floor. Records `error`,
        `latency` and `host_time` (s). Raises ValueError for a bad argument.
        """
        baseline = baseline or next(iter(subjects), None)
        if baseline not in subjects or cache not in ("cold", "warm"):
            message = f"baseline={baseline!r} must be a subject, cache={cache!r} cold or warm"
            raise ValueError(message)
        if self._counting:
            return
        self._write({"event": "workload", "workload": workload})
        cases = [_as_inputs(inputs(self.seed * CHECKS + number)) for number in range(CHECKS)]
        expected = [as_tuple(reference(*case)) for case in cases]
        for answer in expected:
            check_reference(answer)
        limit = 0.0 if exact else tolerance
        comparison = Comparison(self._write, cases, expected, limit, workload, cache)
        right = {name: call for name, call in subjects.items() if comparison.check(name, call)}
        if self._timer is None or not time or not right:
            return
        amounts = {name: (_of(traffic, name), _of(work, name)) for name in right}
        memory = self._bandwidth if cache == "cold" else None
        floors = {
            name: floor_seconds(amount[0], self._timer.flush_bytes / 2, memory)
            for name, amount in amounts.items()
        }
        comparison.time(right, baseline, self._timer, samples, amounts, floors)

    def count(
        self,
        metric: str,
        value: Number | Sequence[Number],
        *,
        unit: str,
        subject: str,
        **workload: Any,
    ) -> None:
        """Record a fact that `compare` does not measure: one number, or the samples of one."""
        if self._counting:
            return
        values = list(value) if isinstance(value, Sequence) else [value]
        self._write(measured(metric, unit, subject, workload, values))

    def launches(self, call: Callable[[], Any]) -> list[profile.Launch]:
        """Return the kernels that `call()` launches, in order; an empty list without a GPU."""
        return profile.launches(call) if self.on_gpu else []

    def profile(
        self,
        subject: str,
        call: Callable[[], Any] | None = None,
        *,
        code: str | None = None,
        counters: Sequence[str],
        **workload: Any,
    ) -> None:
        """Record evidence that is not time.

        With `code` (PTX or SASS) each counter ``ptx:cp.async`` or ``sass:LDG.E.128`` is how many
        instructions start so. With `call` each is a metric of Nsight Compute, summed over the kernels
        that the call launches; it is read in one extra process, and only on a GPU.
        """
        if code is not None:
            if self._counting is None:
                for counter in counters:
                    found = profile.instructions(code, counter.partition(":")[2])
                    self.count(counter, found, unit="instructions", subject=subject, **workload)
        elif call is None:
            message = "profile needs a call or code="
            raise ValueError(message)
        elif self._counting:
            self._counting.region(call, subject, counters, workload)
        elif self.on_gpu:
            self._write({"event": "counters", "counters": list(counters)})


def _as_inputs(drawn: Any) -> Inputs:
    return tuple(drawn) if isinstance(drawn, tuple | list) else (drawn,)


def _of(amount: Number | dict[str, Number] | None, name: str) -> Number | None:
    return amount.get(name) if isinstance(amount, dict) else amount


def load_script(folder: Path) -> Any:
    """Import `reproduce.py` of the artifact in `folder`, with its folder and `artifacts/` importable."""
    sys.path[:0] = [str(folder), str(folder.parent)]
    spec = importlib.util.spec_from_file_location("reproduce", folder / "reproduce.py")
    if spec is None or spec.loader is None:
        raise ImportError(str(folder / "reproduce.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["reproduce"] = module
    spec.loader.exec_module(module)
    return module


def shared_modules(folder: Path) -> list[str]:
    """Return the files of `artifacts/shared` that this process imported, seen from `folder`."""
    shared = (folder.parent / "shared").resolve()
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve().is_relative_to(shared):
            found.add("../shared/" + Path(file).resolve().relative_to(shared).as_posix())
    return sorted(found)


def _end_with_parent() -> None:
    """End this process when the pipe to its parent closes, however the parent died."""

    def wait() -> None:
        while os.read(0, 1):
            continue
        os._exit(3)

    threading.Thread(target=wait, daemon=True).start()


def _writer(file: TextIO) -> Write:
    def write(event: dict[str, Any]) -> None:
        file.write(json.dumps(event, allow_nan=False) + "\n")
        file.flush()

    return write


def main(words: Sequence[str] | None = None) -> int:
    """Run one artifact's script once and write its events, one JSON object a line."""
    parser = argparse.ArgumentParser(prog="warplog.run")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--counters", default="")
    options = parser.parse_args(words)
    _end_with_parent()
    with options.events.open("a", encoding="utf-8") as file:
        return _reproduce(options, _writer(file))


def _reproduce(options: argparse.Namespace, write: Write) -> int:
    where = environment.device()
    gpu = where.type == "cuda"
    before = environment.clocks(where)
    counting = profile.Counting(write) if options.counters else None
    timer = QueueTimer(where) if gpu and not counting else None
    bandwidth = environment.pin_bandwidth(where)
    run = Run(write, seed=options.seed, timer=timer, bandwidth=bandwidth, counting=counting)
    try:
        started = time.perf_counter()
        load_script(options.folder).reproduce(run)
        seconds = time.perf_counter() - started
    except Exception as error:
        first = str(error).strip().partition("\n")[0][:REASON_AT_MOST]
        write({"event": "fault", "reason": f"{type(error).__name__}: {first}"})
        raise
    clocks = [before, environment.clocks(where)] if gpu else []
    requirements = options.folder / "requirements.txt"
    write(
        {
            "event": "environment",
            "device": environment.slug(where),
            "gpu": environment.gpu(where),
            "driver": environment.driver() if gpu else None,
            "python": sys.version.split()[0],
            "system": environment.system(),
            "packages": environment.packages(requirements if requirements.is_file() else None),
            "variables": environment.variables(),
            "clocks": clocks,
            "disturbed": environment.disturbances(clocks),
            "timer": timer.name if timer else "none",
            "flush_bytes": timer.flush_bytes if timer else 0,
            "shared": shared_modules(options.folder),
            "seconds": seconds,
        }
    )
    write({"event": "done"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
