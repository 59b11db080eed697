"""Three clocks for one call: the host's part of it, the device's part, and both when nothing hides one.

- `host_seconds`: a loop of calls into an idle queue, by the host's clock;
- `device_seconds`: two events behind a kernel that spins until the host is done, as the harness does;
- `idle_seconds`: two events around a call into an idle queue, so that the device waits for the host.

The last is what a benchmark that records events around a call reports. Nothing is flushed, and
outputs are not looked at: each of these calls is checked by `compare` first.
"""

import time
from collections.abc import Callable

import torch

Call = Callable[[], object]

SAMPLES = 21
CALLS = 64  # so that what a dispatcher does at every 64th call is in every sample once
CYCLES_A_SECOND = 2.0e9
SPIN_SECONDS = 1e-3
SPIN_SECONDS_AT_MOST = 0.05


def host_seconds(call: Call) -> list[float]:
    """Return the host's seconds of a call, in a loop of CALLS, once a sample."""
    call()
    found = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter() - begin) / CALLS)
    torch.cuda.synchronize()
    return found


def between_events(call: Call, spin: float) -> tuple[float, bool]:
    """Return the seconds between two events around a call, and whether the host was done first."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    held = torch.cuda.Event()
    torch.cuda.synchronize()
    if spin:
        torch.cuda._sleep(int(spin * CYCLES_A_SECOND))
        held.record()
    start.record()
    call()
    end.record()
    queued = bool(spin) and not held.query()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3, queued


def idle_seconds(calls: dict[str, Call]) -> dict[str, list[float]]:
    """Time each call in an idle queue, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(SAMPLES + 1):
        for name, call in calls.items():
            seconds, _ = between_events(call, 0.0)
            if number:  # the first round warms up
                found[name].append(seconds)
    return found


def device_seconds(calls: dict[str, Call]) -> dict[str, list[float]]:
    """Time each call in a filled queue, in turns; RuntimeError for one that waits for the device."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(SAMPLES + 1):
        for name, call in calls.items():
            spin, queued = SPIN_SECONDS, False
            while not queued:
                if spin > SPIN_SECONDS_AT_MOST:
                    raise RuntimeError(f"{name} waits for the device: time it by idle_seconds")
                seconds, queued = between_events(call, spin)
                spin *= 2
            if number:
                found[name].append(seconds)
    return found
