"""The checks and the timing of one workload, for subjects that take turns.

The rule kept here: every timed output is compared with the reference, the same addresses hold other
data from round to round, and a subject that is wrong once is recorded with the reason and not timed.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from warplog.claim import AA_METRIC
from warplog.measure import (
    Inputs,
    Outputs,
    Subject,
    Wrong,
    as_tuple,
    error_of,
    poisoned,
)
from warplog.record import Number, compact
from warplog.timer import Sample, Timer, check_timers, outlived

WARM_UPS = 2
REASON_AT_MOST = 300

Write = Callable[[dict[str, Any]], None]
Amount = tuple[Number | None, Number | None]


class ContextLost(Exception):
    """The CUDA context is gone: nothing more can run in this process."""


class Comparison:
    """The checks and the timing of one workload: what was drawn once and serves every subject."""

    def __init__(
        self,
        write: Write,
        cases: list[Inputs],
        expected: list[Outputs],
        limit: float,
        workload: dict[str, Any],
        cache: str,
    ) -> None:
        self.write = write
        self.cases = cases
        self.expected = expected
        self.limit = limit
        self.workload = workload
        self.cache = cache
        self.buffers = tuple(_copy(value) for value in cases[0])

    def load(self, case: int) -> None:
        """Copy a case into the buffers, so that the same addresses hold other data."""
        for buffer, value in zip(self.buffers, self.cases[case], strict=True):
            if isinstance(buffer, torch.Tensor):
                buffer.copy_(value)

    def judge(self, outputs: Outputs, case: int) -> float:
        """Return the error on a case, or raise Wrong."""
        error = error_of(outputs, self.expected[case], exact=self.limit == 0.0)
        if not error <= self.limit:
            message = f"error {error:.3g} exceeds the tolerance {self.limit:.3g}"
            raise Wrong(message)
        return error

    def check(self, name: str, call: Subject) -> bool:
        """Check one subject on every case, record its error, and say whether it may be timed."""
        worst = 0.0
        for case in range(len(self.cases)):
            self.load(case)
            try:
                with poisoned():
                    outputs = as_tuple(call(*self.buffers))
                _settle(name)
                worst = max(worst, self.judge(outputs, case))
                self.unchanged(case)
            except ContextLost:
                raise
            except Exception as error:  # noqa: BLE001 - a subject may raise anything; it is recorded
                self.fail(name, error)
                _settle(name)
                return False
        self.write(measured("error", "fraction", name, self.workload, [worst]))
        return True

    def unchanged(self, case: int) -> None:
        """Raise Wrong if a subject wrote into its inputs."""
        for number, (buffer, value) in enumerate(zip(self.buffers, self.cases[case], strict=True)):
            if isinstance(buffer, torch.Tensor) and not _same_bytes(buffer, value):
                message = f"changed its input {number}"
                raise Wrong(message)

    def time(
        self,
        subjects: dict[str, Subject],
        baseline: str,
        timer: Timer,
        samples: int,
        amounts: dict[str, Amount],
        floors: dict[str, float],
    ) -> None:
        """Time the subjects in rotating order, check each timed output, and record all samples."""
        turns = [(name, "latency") for name in subjects]
        if baseline in subjects:
            turns.append((baseline, AA_METRIC))
        kept: dict[tuple[str, str], list[Sample]] = {turn: [] for turn in turns}
        failed: set[str] = set()
        for number in range(WARM_UPS + samples):
            case = number % len(self.cases)
            self.load(case)
            shift = number % len(turns)
            for turn in turns[shift:] + turns[:shift]:
                name = turn[0]
                if name in failed:
                    continue
                try:
                    sample = self.sample(name, subjects[name], timer, case)
                except Wrong as error:
                    failed.add(name)
                    self.fail(name, error)
                    continue
                if number >= WARM_UPS:
                    kept[turn].append(sample)
        check_timers()
        for (name, metric), taken in kept.items():
            if name not in failed:
                self.keep(name, metric, taken, timer, amounts[name], floors[name])

    def sample(self, name: str, call: Subject, timer: Timer, case: int) -> Sample:
        """Time one call and check what it returned; the outputs are let go."""
        check_timers()
        taken = timer.time(name, lambda: call(*self.buffers), warm=self.cache == "warm")
        _settle(name)
        self.judge(as_tuple(taken.outputs), case)
        return dataclasses.replace(taken, outputs=())

    def keep(
        self,
        name: str,
        metric: str,
        taken: list[Sample],
        timer: Timer,
        amount: Amount,
        floor: float,
    ) -> None:
        """Record the samples of one subject, or its failure if it was faster than memory allows."""
        seconds = [sample.seconds for sample in taken]
        fastest = min(seconds)
        if fastest < floor:
            bounds = f"{fastest:.3g} s under {floor:.3g} s"
            self.fail(name, Wrong(f"faster than this device's memory allows: {bounds}"))
            return
        if outlived(taken):
            self.fail(name, Wrong("left work running after its last event, on another stream"))
            return
        found = measured(metric, "s", name, self.workload, seconds)
        traffic, work = amount
        optional = {"traffic": traffic, "work": work}
        found["measurement"].update({key: v for key, v in optional.items() if v is not None})
        queued = all(sample.queued for sample in taken)
        found["measurement"]["timer"] = timer.name if queued else "events"
        found["measurement"]["cache"] = self.cache
        self.write(found)
        if metric == "latency":
            host = [sample.host_seconds for sample in taken]
            self.write(measured("host_time", "s", name, self.workload, host))

    def fail(self, name: str, error: Exception) -> None:
        """Record that a subject is wrong; it has no time."""
        reason = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        reason = " ".join(reason.split())[:REASON_AT_MOST]
        found = {"metric": "latency", "unit": "s", "subject": name, "workload": self.workload}
        self.write({"event": "measurement", "measurement": {**found, "failed": reason}})


def _settle(name: str) -> None:
    """Wait for the GPU; an error that this brings up has cost the CUDA context."""
    if not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        first = str(error).strip().partition("\n")[0]
        message = f"{name!r} cost the CUDA context: {first}"
        raise ContextLost(message) from None


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same_bytes(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Return whether two tensors of one dtype hold the same bits (NaN included)."""
    return bool(torch.equal(*(each.contiguous().view(torch.uint8) for each in (one, two))))


def measured(
    metric: str, unit: str, subject: str, workload: dict[str, Any], values: Sequence[Number]
) -> dict[str, Any]:
    """Return the event of one measurement, its numbers cut to six digits."""
    measurement: dict[str, Any] = {
        "metric": metric,
        "unit": unit,
        "subject": subject,
        "workload": workload,
    }
    measurement["runs"] = [[compact(_plain(value)) for value in values]]
    return {"event": "measurement", "measurement": measurement}


def _plain(value: Any) -> Number:
    """Return a Python number for a numpy or torch scalar."""
    number: Number = value.item() if hasattr(value, "item") else value
    return number
