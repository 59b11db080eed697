"""Times one call, and notices when someone has replaced the clock.

The rule kept here: launch gaps are not measured, a fallback is never silent, and a time is only as
good as the functions that it rests on, which are compared with those from start-up.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

FLUSH_FACTOR = 2
SPIN_SECONDS_AT_LEAST = 1e-4
SPIN_SECONDS_AT_MOST = 0.1
NO_SPIN = 0.0
TELLING_SPIN = 1e-3  # seconds of a spin that stands out from the jitter of a host
TELLING_TIMES = 2
CYCLES_A_SECOND = 2.0e9
SYNCHRONIZE_SECONDS = 5e-5
TRAILING_AT_MOST = 0.2


class TimerReplaced(Exception):
    """Something put another function in the place of a timer or of a synchronisation."""


@dataclass(frozen=True)
class Sample:
    """One timed call: device seconds, host seconds, its outputs, whether the queue stayed filled,
    and the seconds for which the device was still busy after the call's last event.
    """

    seconds: float
    host_seconds: float
    outputs: Any
    queued: bool
    trailing: float = 0.0


class Timer(Protocol):
    """Times one call. `name` is recorded."""

    name: str
    flush_bytes: int

    def time(self, name: str, call: Callable[[], Any], *, warm: bool) -> Sample:
        """Run the subject `name` once, as `call()`, and say how long it took."""


def outlived(samples: list[Sample]) -> bool:
    """Return whether the device was always still busy after the call's last event: then work ran where
    the events do not see it, on another stream.

    The least of the trailing times decides: a slow host delays some synchronisations, work that is left
    running delays every one.
    """
    seconds = statistics.median(sample.seconds for sample in samples)
    trailing = min(sample.trailing for sample in samples)
    return trailing > max(SYNCHRONIZE_SECONDS, TRAILING_AT_MOST * seconds)


def _timing_functions() -> dict[str, object]:
    return {
        "time.perf_counter": time.perf_counter,
        "torch.cuda.Event": torch.cuda.Event,
        "torch.cuda.Event.record": torch.cuda.Event.record,
        "torch.cuda.Event.elapsed_time": torch.cuda.Event.elapsed_time,
        "torch.cuda.Event.synchronize": torch.cuda.Event.synchronize,
        "torch.cuda.synchronize": torch.cuda.synchronize,
        "torch.equal": torch.equal,
    }


_ORIGINALS = _timing_functions()


def check_timers() -> None:
    """Raise TimerReplaced if a function that timing rests on is not the one from start-up."""
    for name, function in _timing_functions().items():
        if function is not _ORIGINALS[name]:
            message = f"{name} was replaced while the artifact ran; no time is kept"
            raise TimerReplaced(message)


class QueueTimer:
    """Times on the GPU with events in a filled queue, so that no launch gap is measured.

    A spinning kernel holds the stream while the host enqueues [flush, event, call, event]. `queued`
    is false if the spin had ended before the host was done: then launch gaps may be inside.
    The flush reads twice the L2, so that the call starts cold and finds no dirty lines to write back.
    """

    name = "queue"

    def __init__(self, device: torch.device) -> None:
        """Allocate the flush buffer: random data of twice the device's L2."""
        l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
        self.flush_bytes = FLUSH_FACTOR * l2_bytes
        self._buffer = torch.randn(self.flush_bytes // 4, device=device)
        self._sink = torch.empty((), device=device)
        self._spins: dict[str, float] = {}

    def time(self, name: str, call: Callable[[], Any], *, warm: bool) -> Sample:
        """Time one call. An attempt in which the host was not done before the spin was is no sample:
        the spin lengthens and the call is made again. Its length is remembered by `name`, a subject on
        a workload. A call that synchronises with the host can never be queued, and shows it by taking
        the host longer as the spin lengthens: it is not tried with long spins, and its sample says so.
        """
        spin = self._spins.get(name, SPIN_SECONDS_AT_LEAST)
        sample, waited = self._attempt(call, spin, warm=warm), 0
        while not sample.queued and SPIN_SECONDS_AT_LEAST <= spin < SPIN_SECONDS_AT_MOST:
            before, spin = sample, 2 * spin
            sample = self._attempt(call, spin, warm=warm)
            longer = sample.host_seconds - before.host_seconds
            waited = waited + 1 if spin >= TELLING_SPIN and longer > spin / 4 else 0
            if waited == TELLING_TIMES:
                break
        self._spins[name] = spin if sample.queued else NO_SPIN
        return sample

    def _attempt(self, call: Callable[[], Any], spin: float, *, warm: bool) -> Sample:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        held = torch.cuda.Event()
        torch.cuda.synchronize()
        torch.cuda._sleep(int(spin * CYCLES_A_SECOND))
        held.record()
        if warm:
            call()
        else:
            torch.amax(self._buffer, dim=0, out=self._sink)
        start.record()
        before = time.perf_counter()
        outputs = call()
        after = time.perf_counter()
        end.record()
        queued = not held.query()
        end.synchronize()
        ended = time.perf_counter()
        torch.cuda.synchronize()
        trailing = time.perf_counter() - ended
        seconds = start.elapsed_time(end) / 1000
        return Sample(seconds, after - before, outputs, queued, trailing)
