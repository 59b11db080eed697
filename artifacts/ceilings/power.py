"""What a product's rate hangs on: the numbers in it, the clock and the power that the card holds meanwhile.

The same bf16 product runs without a pause, on numbers that flip many bits and on numbers that flip few,
while NVML is asked every few milliseconds. Hopper's tensor cores do 4096 bf16 operations a cycle on each
multiprocessor: 132 of them at 1830 MHz are the datasheet's 989 TFLOP/s.
"""

import statistics
import time

import torch
from products import floats
from torch import Tensor

OPERATIONS_A_CYCLE = 4096
SECONDS = 1.0
PAUSE = 0.005
WARM_UP = 3


def watch_products(run, size: int = 8192) -> None:
    """Record rate, clock, power and the share of the clock's own peak, for two kinds of numbers."""
    if not run.on_gpu:
        return
    normal = floats(run, size, torch.bfloat16, run.seed)
    ones = tuple(torch.ones_like(each) for each in normal)
    for values, pair in (("normal", normal), ("ones", ones)):
        rate, clock, watts = watched(pair)
        cores = torch.cuda.get_device_properties(run.device).multi_processor_count
        facts = {
            "sustained_rate": (rate, "op/s"),
            "sm_clock": (clock, "Hz"),
            "power": (watts, "W"),
            "share_of_clock_peak": (rate / (clock * cores * OPERATIONS_A_CYCLE), "fraction"),
        }
        for metric, (value, unit) in facts.items():
            sizes = {"values": values, "size": size}
            run.count(metric, value, unit=unit, subject="bf16 matmul without a pause", **sizes)


def watched(pair: tuple[Tensor, Tensor]) -> tuple[float, float, float]:
    """Multiply for a second or more; return operations per second, the median clock in Hz and watts.

    The first half of the readings is left out: the card needs a moment to settle.
    """
    queued(WARM_UP, *pair)[1].synchronize()
    begin, end = queued(1, *pair)
    end.synchronize()
    calls = max(1, int(SECONDS / (begin.elapsed_time(end) / 1e3)))
    begin, end = queued(calls, *pair)
    readings = []
    while not end.query():
        readings.append(asked())
        time.sleep(PAUSE)
    settled = readings[len(readings) // 2 :]
    clock, watts = (float(statistics.median(each)) for each in zip(*settled, strict=True))
    work = 2 * pair[0].shape[0] ** 3 * calls
    return work / (begin.elapsed_time(end) / 1e3), clock, watts


def queued(calls: int, left: Tensor, right: Tensor) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Enqueue products one after the other; return the events before and after them."""
    out = torch.empty_like(left)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        torch.matmul(left, right, out=out)
    end.record()
    return begin, end


def asked() -> tuple[float, float]:
    """Ask NVML for the clock of the multiprocessors in Hz and the power in watts, as they are now."""
    import pynvml

    pynvml.nvmlInit()
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
    megahertz = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
    return megahertz * 1e6, pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3
