"""The checks and the timing of one workload, for subjects that take turns.

The rule kept here: every timed output is compared with the reference, the same addresses hold other
data from round to round, a last look is taken on data that no subject has seen, and a subject that is
wrong once is recorded with the reason and has no time.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from warplog.case import Buffers, Case
from warplog.event import Events
from warplog.measure import Outputs, Subject, Wrong, as_tuple, error_of, poisoned
from warplog.quantity import AA_METRIC
from warplog.record import Number, Workload
from warplog.timer import Sample, Timer, TimerReplaced, check_timers, outlived
from warplog.workload import spell

WARM_UPS = 2
SLOWER_UNSEEN = 3.0

Turn = tuple[str, str]


class ContextLost(Exception):
    """The CUDA context is gone: nothing more can run in this process."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """How one workload is compared: the limit of the error (0: equal bits), the state of the cache,
    timed rounds, the baseline, and by subject the bytes, operations and least seconds of a call.
    """

    workload: Workload
    limit: float
    cache: str
    samples: int
    baseline: str
    traffic: dict[str, Number | None]
    work: dict[str, Number | None]
    floor: dict[str, float]


class Comparison:
    """One workload, drawn once for every subject."""

    def __init__(self, events: Events, plan: Plan, cases: list[Case]) -> None:
        """`cases` are checked first and then timed in turn; ValueError if their forms differ."""
        self._events = events
        self._plan = plan
        self._cases = cases
        self._buffers = Buffers(cases)
        self.failed: set[str] = set()

    def check(self, name: str, call: Subject) -> None:
        """Check one subject on every case and record its error, or why it is wrong."""
        worst = 0.0
        with self._recorded(name):
            call(*self._buffers.inputs)  # what a first call compiles or captures holds no poison
            _settle(name)
            for case in self._cases:
                self._buffers.load(case)
                with poisoned():
                    outputs = as_tuple(call(*self._buffers.inputs))
                _settle(name)
                worst = max(worst, self._judge(outputs, case))
                self._buffers.check_unchanged()
        if name not in self.failed:
            self._events.measured("error", "fraction", name, self._plan.workload, [worst])

    def time(self, subjects: dict[str, Subject], timer: Timer, unseen: Iterator[Case]) -> None:
        """Time the subjects that are right, launch by launch, in rotating order; record all samples.

        `unseen` gives cases for the last look: no sample is taken of them, but a subject that is wrong
        there, or far slower than on cases that it knew, has failed.
        """
        turns = [(name, "latency") for name in subjects if name not in self.failed]
        if self._plan.baseline not in self.failed:
            turns.append((self._plan.baseline, AA_METRIC))
        kept: dict[Turn, list[Sample]] = {turn: [] for turn in turns}
        for number in range(WARM_UPS + self._plan.samples):
            case = self._cases[number % len(self._cases)]
            for turn, sample in self._round(turns, subjects, timer, case, number):
                if number >= WARM_UPS:
                    kept[turn].append(sample)
        slowest: list[dict[str, float]] = []
        for number, case in enumerate(unseen):
            slowest.append(dict.fromkeys(subjects, 0.0))
            for (name, _), sample in self._round(turns, subjects, timer, case, number):
                slowest[-1][name] = max(slowest[-1][name], sample.seconds)
        check_timers()
        for turn in turns:
            with self._recorded(turn[0]):
                unseen_at_best = min((each[turn[0]] for each in slowest), default=0.0)
                self._check_possible(turn[0], kept[turn], unseen_at_best)
        for turn in turns:
            if turn[0] not in self.failed:
                self._keep(turn, kept[turn], timer)

    def _round(
        self,
        turns: list[Turn],
        subjects: dict[str, Subject],
        timer: Timer,
        case: Case,
        number: int,
    ) -> Iterator[tuple[Turn, Sample]]:
        """Time each subject once on `case`; the order rotates with the round's number."""
        self._buffers.load(case)
        shift = number % max(1, len(turns))
        for turn in turns[shift:] + turns[:shift]:
            name = turn[0]
            sample = None
            if name not in self.failed:
                with self._recorded(name):
                    sample = self._sample(name, subjects[name], timer, case)
            if sample is not None:
                yield turn, sample
        try:
            self._check_inputs()
        except Wrong as error:
            for name in {name for name, _ in turns} - self.failed:
                self._fail(name, str(error))

    def _sample(self, name: str, call: Subject, timer: Timer, case: Case) -> Sample:
        """Time one call and check what it returned; the outputs are let go."""
        check_timers()
        inputs = self._buffers.inputs
        what = f"{name} on {spell(self._plan.workload)}"
        taken = timer.time(what, lambda: call(*inputs), warm=self._plan.cache == "warm")
        _settle(name)
        try:
            self._judge(as_tuple(taken.outputs), case)
        except Wrong:
            self._check_inputs()
            raise
        return dataclasses.replace(taken, outputs=())

    def _check_inputs(self) -> None:
        """Raise Wrong if the inputs changed since the round began; whose doing it was is not known."""
        try:
            self._buffers.check_unchanged()
        except Wrong:
            raise Wrong("the inputs changed in a timed round, by this subject or another") from None

    def _judge(self, outputs: Outputs, case: Case) -> float:
        """Return the error on a case, or raise Wrong."""
        error = error_of(outputs, case.expected, exact=self._plan.limit == 0.0)
        if not error <= self._plan.limit:
            raise Wrong(f"error {error:.3g} exceeds the tolerance {self._plan.limit:.3g}")
        return error

    def _check_possible(self, name: str, taken: list[Sample], unseen: float) -> None:
        """Raise Wrong if no honest call could have taken these times, or `unseen` seconds for a case
        that it met for the first time.
        """
        if name in self.failed:
            return
        seconds = [sample.seconds for sample in taken]
        floor = self._plan.floor[name]
        if min(seconds) < floor:
            bounds = f"{min(seconds):.3g} s under {floor:.3g} s"
            raise Wrong(f"faster than this device's memory allows: {bounds}")
        if outlived(taken):
            raise Wrong("left work running after its last event, on another stream")
        if unseen > SLOWER_UNSEEN * max(seconds):
            times = f"{unseen:.3g} s, before it at most {max(seconds):.3g} s"
            raise Wrong(f"slower on data that it had not seen: {times}")

    def _keep(self, turn: Turn, taken: list[Sample], timer: Timer) -> None:
        """Record the samples of one subject."""
        name, metric = turn
        plan = self._plan
        seconds = [sample.seconds for sample in taken]
        about: dict[str, Any] = {"traffic": plan.traffic[name], "work": plan.work[name]}
        about["timer"] = timer.name if all(sample.queued for sample in taken) else "events"
        self._events.measured(metric, "s", name, plan.workload, seconds, cache=plan.cache, **about)
        if metric == "latency":
            host = [sample.host_seconds for sample in taken]
            self._events.measured("host_time", "s", name, plan.workload, host)

    @contextmanager
    def _recorded(self, name: str) -> Iterator[None]:
        """Record whatever a subject raises as its failure; what ends the process goes on."""
        try:
            yield
        except (ContextLost, TimerReplaced):
            raise
        except Wrong as error:
            self._fail(name, str(error))
        except Exception as error:  # noqa: BLE001 - a subject may raise anything; it is recorded
            self._fail(name, f"{type(error).__name__}: {error}")
            _settle(name)

    def _fail(self, name: str, why: str) -> None:
        """Record that a subject is wrong; it has no time."""
        if name not in self.failed:
            self.failed.add(name)
            self._events.failed("latency", "s", name, self._plan.workload, why)


def _settle(name: str) -> None:
    """Wait for the GPU; an error that this brings up has cost the CUDA context."""
    if not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        first = str(error).strip().partition("\n")[0]
        raise ContextLost(f"{name!r} cost the CUDA context: {first}") from None
