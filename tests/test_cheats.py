"""Kernels that cheat: each is caught, and each passes once the one defence against it is removed."""

import contextlib
import time

import pytest
import torch

from warplog import case, comparison, measure, timer
from warplog import run as run_module
from warplog.timer import Sample


def double(x):
    return x * 2


def reference(x):
    return x.double() * 2


def compare(run, numbers, cheat, **options):
    """Compare the honest kernel with the cheat, in the cheat's favour: it goes first."""
    run.compare(
        {"cheat": cheat, "honest": double}, reference, numbers, samples=4, n=1000, **options
    )


class WritesNothing:
    """Returns memory that it never wrote, in which somebody left the right answer.

    `torch.narrow` of a pool stands for an allocator that hands out used memory, which real ones do
    by chance.
    """

    def __init__(self):
        self.pool = torch.empty(2000)

    def __call__(self, x):
        torch.mul(x, 2, out=self.pool[:1000])
        return torch.narrow(self.pool, 0, 0, 1000)


@pytest.fixture
def reused_memory(monkeypatch):
    """Makes `torch.narrow` an allocator in the harness's eyes."""
    monkeypatch.setattr(measure, "_ALLOCATORS", measure._ALLOCATORS | {torch.narrow})


class WritesZeros:
    """Returns zeros, which an all-zero reference would match."""

    def __call__(self, x):
        return torch.zeros_like(x)


class RemembersFirst:
    """Computes once and returns that answer for ever."""

    answer = None

    def __call__(self, x):
        if self.answer is None:
            self.answer = x * 2
        return self.answer


class RemembersAddress:
    """Computes once an address, whatever has been written there since."""

    def __init__(self):
        self.answers = {}

    def __call__(self, x):
        return self.answers.setdefault(x.data_ptr(), x * 2).clone()


class RemembersContent:
    """Computes, slowly, once for each content, and looks the answer up when it sees it again."""

    def __init__(self):
        self.answers = {}

    def __call__(self, x):
        key = float(x[0])
        if key not in self.answers:
            time.sleep(0.02)
            self.answers[key] = x * 2
        return self.answers[key].clone()


class Postponed(torch.Tensor):
    """A tensor that could put its work off until somebody looks at it."""


class RightOnLastCall:
    """Right while it is checked and on the very last timed call; cheap and wrong in between."""

    def __init__(self, checked, timed):
        self.calls = 0
        self.checked, self.last = checked, checked + timed

    def __call__(self, x):
        self.calls += 1
        honest = self.calls <= self.checked or self.calls == self.last
        return x * 2 if honest else torch.ones_like(x)


class PatchesTimer:
    """Replaces the clock by one that stands nearly still."""

    def __init__(self):
        self.now = 0.0

    def __call__(self, x):
        time.perf_counter = self.tick
        return x * 2

    def tick(self):
        self.now += 1e-12
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """Puts the real clock back, whatever a cheat did to it."""
    monkeypatch.setattr(time, "perf_counter", time.perf_counter)


@pytest.mark.usefixtures("reused_memory")
def test_a_kernel_that_writes_nothing_is_caught(run, written, numbers):
    compare(run, numbers, WritesNothing())
    assert "NaN" in written.failure("cheat")
    assert written.failure("honest") is None


@pytest.mark.usefixtures("reused_memory")
def test_and_passes_without_poison(run, written, numbers, monkeypatch):
    monkeypatch.setattr(comparison, "poisoned", contextlib.nullcontext)
    compare(run, numbers, WritesNothing())
    assert written.failure("cheat") is None


def test_a_kernel_that_writes_zeros_is_caught(run, written, numbers):
    compare(run, numbers, WritesZeros())
    assert "error 1" in written.failure("cheat")


def test_and_passes_without_the_error(run, written, numbers, monkeypatch):
    monkeypatch.setattr(comparison, "error_of", lambda *_, **__: 0.0)
    compare(run, numbers, WritesZeros())
    assert written.failure("cheat") is None


@pytest.mark.parametrize(("factor", "says"), [(0.0, "all zero"), (float("nan"), "all NaN")])
def test_a_reference_that_proves_nothing_is_an_error(run, numbers, factor, says):
    with pytest.raises(comparison.Wrong, match=says):
        run.compare({"zeros": lambda x: x * factor}, lambda x: x * factor, numbers, n=1000)


def test_and_zeros_pass_without_that_check(run, written, numbers, monkeypatch):
    monkeypatch.setattr(case, "check_reference", lambda _: None)
    run.compare({"cheat": WritesZeros()}, lambda x: x.double() * 0, numbers, samples=2, n=1000)
    assert written.failure("cheat") is None


@pytest.mark.parametrize("cheat", [RemembersFirst, RemembersAddress])
def test_a_kernel_that_remembers_is_caught(run, written, numbers, cheat):
    compare(run, numbers, cheat())
    assert "exceeds the tolerance" in written.failure("cheat")


@pytest.mark.parametrize("cheat", [RemembersFirst, RemembersAddress])
def test_and_passes_without_fresh_inputs(run, written, numbers, cheat, monkeypatch):
    monkeypatch.setattr(run_module, "CHECKS", 1)
    monkeypatch.setattr(run_module, "UNSEEN", 0)
    compare(run, numbers, cheat())
    assert written.failure("cheat") is None


def last_call():
    """The cheat that knows how often it is called: checks, then two turns a round as baseline."""
    rounds = comparison.WARM_UPS + 4 + run_module.UNSEEN
    return RightOnLastCall(1 + run_module.CHECKS, 2 * rounds)


def test_a_kernel_that_is_right_only_on_the_last_call_is_caught(run, written, numbers):
    compare(run, numbers, last_call())
    assert "exceeds the tolerance" in written.failure("cheat")


def test_and_passes_if_timed_outputs_are_not_checked(run, written, numbers, monkeypatch):
    def unchecked(self, name, call, clock, _case):
        return clock.time(name, lambda: call(*self._buffers.inputs), warm=False)

    monkeypatch.setattr(comparison.Comparison, "_sample", unchecked)
    compare(run, numbers, last_call())
    assert written.failure("cheat") is None


@pytest.mark.usefixtures("clock")
def test_a_patched_timer_is_caught(run, numbers):
    with pytest.raises(timer.TimerReplaced, match="perf_counter was replaced"):
        compare(run, numbers, PatchesTimer())


@pytest.mark.usefixtures("clock")
def test_and_passes_if_nobody_looks_at_the_timer(run, written, numbers, monkeypatch):
    monkeypatch.setattr(comparison, "check_timers", lambda: None)
    compare(run, numbers, PatchesTimer())
    assert max(written.metric("latency", "cheat")["runs"][0]) < 1e-9


class FastClock:
    """A timer by which everything takes a nanosecond."""

    name, flush_bytes = "queue", 0

    def __init__(self, trailing=0.0):
        self.trailing = trailing

    def time(self, name, call, *, warm):
        assert name in ("cheat on n=1000", "honest on n=1000")
        assert not warm
        return Sample(1e-9, 1e-9, call(), queued=True, trailing=self.trailing)


def test_a_time_below_the_floor_is_an_error(written, numbers):
    fast = run_module.Run(written.append, timer=FastClock(), bandwidth=4.8e12)
    compare(fast, numbers, double, traffic=8000)
    assert "faster than this device's memory allows" in written.failure("cheat")


def test_and_is_recorded_where_the_traffic_allows_it(written, numbers):
    fast = run_module.Run(written.append, timer=FastClock(), bandwidth=4.8e12)
    compare(fast, numbers, double, traffic=4000)
    assert written.failure("cheat") is None


def test_work_left_on_another_stream_is_caught(written, numbers):
    late = run_module.Run(written.append, timer=FastClock(trailing=1e-3))
    compare(late, numbers, double)
    assert "another stream" in written.failure("cheat")


def test_a_kernel_that_remembers_contents_is_caught_on_data_it_has_not_seen(run, written, numbers):
    compare(run, numbers, RemembersContent())
    assert "slower on data that it had not seen" in written.failure("cheat")
    assert written.failure("honest") is None


def test_and_passes_if_it_has_seen_everything(run, written, numbers, monkeypatch):
    monkeypatch.setattr(run_module, "UNSEEN", 0)
    compare(run, numbers, RemembersContent())
    assert written.failure("cheat") is None


def test_a_kernel_that_counts_the_cases_is_wrong_on_the_first_unseen_one(run, written, numbers):
    answers = []

    def cheat(x):
        if len(answers) < run_module.CHECKS:
            answers.append(x * 2)
            return answers[-1]
        known = [each for each in answers if float(each[0]) == float(x[0] * 2)]
        return known[0].clone() if known else torch.zeros_like(x)

    compare(run, numbers, cheat)
    assert "exceeds the tolerance" in written.failure("cheat")


def test_a_tensor_that_could_put_work_off_is_refused(run, written, numbers):
    compare(run, numbers, lambda x: (x * 2).as_subclass(Postponed))
    assert "returned Postponed where a plain tensor belongs" in written.failure("cheat")


def test_inputs_changed_in_a_timed_round_blame_no_honest_subject_alone(run, written, numbers):
    calls = []

    def vandal(x):
        calls.append(1)
        out = x * 2
        if len(calls) > 1 + run_module.CHECKS:
            x.zero_()
        return out

    run.compare({"honest": double, "vandal": vandal}, reference, numbers, samples=3, n=1000)
    assert "inputs changed in a timed round" in written.failure("honest")
    assert "inputs changed in a timed round" in written.failure("vandal")


def test_a_subject_that_raises_only_while_timed_fails_alone(run, written, numbers):
    calls = []

    def tired(x):
        calls.append(1)
        if len(calls) > run_module.CHECKS + 2:
            raise MemoryError("no more")
        return x * 2

    compare(run, numbers, tired)
    assert written.failure("cheat") == "MemoryError: no more"
    assert written.metric("latency", "honest")


def test_a_kernel_that_costs_the_cuda_context_ends_the_process(run, written, numbers, monkeypatch):
    broken = []

    def synchronize():
        if broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    with pytest.raises(comparison.ContextLost, match="'cheat' cost the CUDA context: CUDA error"):
        compare(run, numbers, lambda x: broken.append(1) or x * 2)
    assert written.failure("honest") is None
