"""The clock in a filled queue, with a CUDA that is stood in for."""

from types import SimpleNamespace

import pytest
import torch

from warplog import timer


class FakeCuda:
    """A stream that spins for as long as it is told; the host needs `enqueue` seconds a call."""

    def __init__(self, enqueue):
        self.enqueue = enqueue
        self.spun = 0.0
        self.order = []

    def sleep(self, cycles):
        self.spun = cycles / timer.CYCLES_A_SECOND
        self.order.append("spin")

    def event(self, **_):
        cuda = self

        class Event:
            def record(self):
                cuda.order.append("event")

            def query(self):
                return cuda.spun < cuda.enqueue

            def synchronize(self):
                cuda.order.append("wait")

            def elapsed_time(self, _other):
                return 2.0

        return Event()


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda(enqueue=1e-3)
    monkeypatch.setattr(torch.cuda, "_sleep", fake.sleep)
    monkeypatch.setattr(torch.cuda, "Event", fake.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    facts = SimpleNamespace(L2_cache_size=1 << 20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: facts)
    return fake


def test_the_spin_lengthens_until_the_host_is_done_first(cuda):
    clock = timer.QueueTimer(torch.device("cpu"))
    sample = clock.time("s", lambda: "out", warm=False)
    assert sample.queued
    assert cuda.spun >= cuda.enqueue
    assert sample.seconds == pytest.approx(2e-3)
    assert sample.outputs == "out"


def test_a_call_that_waits_for_the_gpu_is_never_called_queued(cuda):
    cuda.enqueue = float("inf")
    clock = timer.QueueTimer(torch.device("cpu"))
    assert not clock.time("waits", lambda: None, warm=False).queued
    calls = []
    clock.time("waits", lambda: calls.append(1), warm=False)
    assert len(calls) == 1, "no use in trying long spins again"


def test_a_call_that_waits_for_the_gpu_is_found_out_before_the_spins_grow_long(cuda, monkeypatch):
    cuda.enqueue = float("inf")
    now = [0.0]
    monkeypatch.setattr(timer.time, "perf_counter", lambda: now[0])
    clock, spins = timer.QueueTimer(torch.device("cpu")), []

    def waits():
        now[0] += 2e-4 + cuda.spun
        spins.append(cuda.spun)

    assert not clock.time("waits", waits, warm=False).queued
    assert max(spins) <= 8 * timer.TELLING_SPIN


def test_a_slow_host_whose_time_does_not_grow_with_the_spin_is_given_long_ones(cuda, monkeypatch):
    cuda.enqueue = 0.05
    now = [0.0]
    monkeypatch.setattr(timer.time, "perf_counter", lambda: now[0])
    clock, jitter = timer.QueueTimer(torch.device("cpu")), iter([4e-3, 0.0, 6e-3, 1e-3] * 5)

    def slow():
        now[0] += cuda.enqueue + next(jitter)

    assert clock.time("slow", slow, warm=False).queued


def test_a_slow_subject_does_not_lengthen_another_ones_spin(cuda):
    clock = timer.QueueTimer(torch.device("cpu"))
    clock.time("slow", lambda: None, warm=False)
    slow, cuda.enqueue = cuda.spun, 0.0
    clock.time("quick", lambda: None, warm=False)
    assert cuda.spun < slow


def test_cold_flushes_twice_the_l2_and_warm_calls_once_before(cuda):
    clock = timer.QueueTimer(torch.device("cpu"))
    assert clock.flush_bytes == 2 << 20
    calls = []
    cuda.enqueue = 0.0
    clock.time("s", lambda: calls.append(1), warm=False)
    assert len(calls) == 1
    clock.time("s", lambda: calls.append(1), warm=True)
    assert len(calls) == 3


def test_the_call_lies_between_the_two_events(cuda):
    cuda.enqueue = 0.0
    clock = timer.QueueTimer(torch.device("cpu"))
    clock.time("s", lambda: cuda.order.append("call"), warm=False)
    assert cuda.order == ["spin", "event", "event", "call", "event", "wait"]


def test_a_slow_host_is_not_taken_for_work_that_was_left_running():
    slow = [timer.Sample(1e-4, 1e-5, (), queued=True, trailing=9e-5) for _ in range(8)]
    quick = timer.Sample(1e-4, 1e-5, (), queued=True, trailing=8e-6)
    assert timer.outlived(slow)
    assert not timer.outlived([*slow, quick])


def test_an_untouched_clock_is_accepted():
    timer.check_timers()
