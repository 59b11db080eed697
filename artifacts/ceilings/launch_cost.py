"""Seconds that a launch costs: on the device in a full queue, on the host, and there and back.

`device_time` is what two CUDA events around the launches say, with nothing subtracted: the events'
own distance is inside, and it is listed by itself as the subject "two events".
"""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from kernel import triton_gather
from shared.cuda_module import Arguments, launch
from torch import Tensor
from touch import BLOCK, TouchGraph, touch, touch_kernel

Call = Callable[[], object]
Queued = tuple[Call, int, Call | None]

SAMPLES = 21
NO_SPIN = 0.0
CYCLES_A_SECOND = 2.0e9
SPIN_SECONDS = 1e-3
SPIN_SECONDS_AT_MOST = 0.05


class Timed(NamedTuple):
    """Seconds of each sample, and how many samples may hold a gap, because the queue ran empty."""

    seconds: list[float]
    gaps: int


# region: device time
def device_sample(call: Call, count: int, before: Call | None, spin: float) -> tuple[float, bool]:
    """Time `count` calls between two events, behind a kernel that spins while the host enqueues.

    Returns seconds, and whether the host was done before the spin was: if not, gaps may be inside.
    """
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    held = torch.cuda.Event()
    torch.cuda.synchronize()
    torch.cuda._sleep(int(spin * CYCLES_A_SECOND))
    held.record()
    if before is not None:
        before()
    start.record()
    for _ in range(count):
        call()
    stop.record()
    queued = not held.query()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) * 1e-3, queued


# endregion


def device_seconds(subjects: dict[str, Queued], samples: int = SAMPLES) -> dict[str, Timed]:
    """Time subjects in turns; each is a call, how often to make it, and what to do just before.

    The spin lengthens until the queue stays filled, and a sample with a gap is then taken again.
    Where no spin is long enough, it is not tried again, and the samples count as gaps.
    """
    found = {name: Timed([], 0) for name in subjects}
    spins = dict.fromkeys(subjects, SPIN_SECONDS)
    for number in range(samples + 1):
        for name, queued in subjects.items():
            seconds, filled = device_sample(*queued, spins[name])
            while not filled and SPIN_SECONDS <= spins[name] < SPIN_SECONDS_AT_MOST:
                spins[name] *= 2
                seconds, filled = device_sample(*queued, spins[name])
            spins[name] = spins[name] if filled else NO_SPIN
            if number > 0:  # the first round warms up
                taken = found[name]
                found[name] = Timed([*taken.seconds, seconds], taken.gaps + (not filled))
    return found


def host_seconds(call: Call, count: int = 50, samples: int = SAMPLES) -> list[float]:
    """Time the host's part of a call: a loop of `count` calls into an idle queue, by its clock."""
    call()
    found = []
    for _ in range(samples):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        found.append((time.perf_counter() - begin) / count)
    torch.cuda.synchronize()
    return found


def round_trip_seconds(call: Call, samples: int = SAMPLES) -> list[float]:
    """Time a call and the wait for its end, by the host's clock."""
    call()
    found = []
    for _ in range(samples):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return found


def launches(run):
    """Time what it takes to start nothing, one kernel, a graph, and a graph with a changed node."""
    if not run.on_gpu:
        return
    out = torch.zeros(1024, dtype=torch.int32, device=run.device)
    packed = partial(launch, touch_kernel(), *BLOCK, Arguments(out, 0, 5))
    device_times(run, packed)
    table = torch.ones(2, 32, dtype=torch.int32, device=run.device)
    ways = {
        "launch, arguments ready": packed,
        "launch, arguments packed": partial(touch, out, 0, 5),
        "torch fill_": partial(out[:1].fill_, 3),
        "triton, with its output": partial(triton_gather, table),
    }
    for subject, call in ways.items():
        run.count("host_time", host_seconds(call), unit="s", subject=subject, kernels=1)
        run.count("round_trip", round_trip_seconds(call), unit="s", subject=subject, kernels=1)
    for count in (1, 10, 100, 1000):
        graph_launches(run, out, count)


def device_times(run, single: Call):
    """Time nothing, one kernel, and a queue of kernels that follow each other."""
    found = device_seconds(
        {"two events": (lambda: None, 1, None)}
        | {f"launch {count}": (single, count, None) for count in (1, 10, 50)}
    )
    record_device_time(run, found.pop("two events"), "two events", kernels=0)
    for name, timed in found.items():
        subject, count = name.split()
        record_device_time(run, timed, subject, kernels=int(count))


def record_device_time(run, timed: Timed, subject: str, **workload):
    """Record a device time, how many of its samples may hold a gap, and the share of each kernel."""
    run.count("device_time", timed.seconds, unit="s", subject=subject, **workload)
    run.count("gaps", timed.gaps, unit="samples", subject=subject, **workload)
    if count := workload.get("kernels"):
        each = [seconds / count for seconds in timed.seconds]
        run.count("device_time_each", each, unit="s", subject=subject, **workload)


def graph_launches(run, out: Tensor, count: int):
    """Time a graph of `count` chained kernels, and the same with its last node changed each time."""
    values = [run.seed % 2**16 + place for place in range(count)]
    graph = TouchGraph(out.fill_(-1), values)
    graph.launch()
    wrong = (out[:count].cpu() != torch.tensor(values)).sum().item()
    graph.change(count - 1, 7)
    graph.launch()
    wrong += int(out[count - 1].item() != 7)
    run.count("mismatches", wrong, unit="words", subject="graph", kernels=count)

    def changed():
        graph.change(count - 1, 9)
        graph.launch()

    subjects = {"graph": graph.launch, "changed graph": changed}
    found = device_seconds({name: (call, 1, None) for name, call in subjects.items()})
    for subject, call in subjects.items():
        record_device_time(run, found[subject], subject, kernels=count)
        run.count("host_time", host_seconds(call, 5), unit="s", subject=subject, kernels=count)
        run.count("round_trip", round_trip_seconds(call), unit="s", subject=subject, kernels=count)
    change = host_seconds(partial(graph.change, count - 1, 9))
    run.count("host_time", change, unit="s", subject="change of a node", kernels=count)
    graph.close()
