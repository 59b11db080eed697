"""Seconds that a launch costs: on the device in a full queue, on the host, and there and back."""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from touch import TouchGraph, touch

Call = Callable[[], object]


def device_seconds(call: Call, count: int = 1, samples: int = 25) -> list[float]:
    """Time `count` calls between two events, in a queue that a spinning kernel holds back."""
    call()
    torch.cuda.synchronize()
    torch.cuda._sleep(10_000_000)  # about 5 ms: longer than the host takes to fill the queue
    pairs = []
    for _ in range(samples):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            call()
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) * 1e-3 for start, stop in pairs]


def host_seconds(call: Call, count: int = 100, samples: int = 25) -> list[float]:
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


def round_trip_seconds(call: Call, samples: int = 25) -> list[float]:
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
    out = torch.zeros(4096, dtype=torch.int32, device=run.device)
    single = partial(touch, out, 0, 5)
    run.count("device_time", device_seconds(lambda: None), unit="s", subject="two events")
    for count in (1, 50):
        values = device_seconds(single, count)
        run.count("device_time", values, unit="s", subject="launch", kernels=count)
    run.count("host_time", host_seconds(single), unit="s", subject="launch", kernels=1)
    run.count("round_trip", round_trip_seconds(single), unit="s", subject="launch", kernels=1)
    for count in (1, 10, 100, 1000):
        graph_launches(run, out, count)


def graph_launches(run, out: Tensor, count: int):
    """Time a graph of `count` chained kernels, and the change of its last node."""
    values = [run.seed % 2**16 + place for place in range(count)]
    graph = TouchGraph(out.fill_(-1), values)
    graph.launch()
    wrong = (out[:count].cpu() != torch.tensor(values)).sum().item()
    graph.change(count - 1, 7)
    graph.launch()
    wrong += out[count - 1].item() != 7
    run.count("mismatches", wrong, unit="words", subject="graph", kernels=count)

    def changed():
        graph.change(count - 1, 9)
        graph.launch()

    for subject, call in {"graph": graph.launch, "changed graph": changed}.items():
        for metric, seconds in {
            "device_time": device_seconds(call),
            "host_time": host_seconds(call, 10),
            "round_trip": round_trip_seconds(call),
        }.items():
            run.count(metric, seconds, unit="s", subject=subject, kernels=count)
    change = host_seconds(partial(graph.change, count - 1, 9))
    run.count("host_time", change, unit="s", subject="change of a node", kernels=count)
