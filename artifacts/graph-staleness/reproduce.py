"""Reproduce every number of the entry on graphs that remember: one GPU, under two minutes.

First what a forgotten parameter does and which check sees it, then where the allocator puts things,
then what every way to launch costs the host and the device.
"""

import contextlib
import functools
from statistics import median

import addresses
import clock
import fault_table
import torch
from cases import Machine, Size
from parts import host_only_ways
from paths import start_by_triton, ways
from shared.dsa import problem, reference
from shared.dsa_lists import uniform
from shared.splitk import Plan, splitk

SAMPLES = 15
PAGES = 2048
NODES = {"last": 1, "kernel": 2}


def reproduce(run):
    machine = the_machine(run)
    full = {name: Plan(block=64, stages=2, splits=8, reduction=name) for name in NODES}
    tiny = {name: Plan(block=16, splits=2, reduction=name) for name in NODES}
    plans = tiny if run.tiny else full
    size = Size(2, 64, 4) if run.tiny else Size(4, 1024, 64)
    fault_table.record(run, machine, plans, size)
    for calls in run.sizes(full=[100], tiny=[6]):
        addresses.forgotten_output(run, machine, plans["kernel"], size, calls)
        if run.on_gpu:
            addresses.two_streams(run, machine, plans["kernel"], size, calls)
        if not run.tiny:
            for tokens in (4, 64):
                addresses.distinct(run, tokens, calls)
    for tokens in run.sizes(full=[1, 4, 16], tiny=[1]):
        for plan in plans.values():
            compare_ways(run, machine, plan, tokens)
    if not run.tiny:
        for plan in plans.values():
            time_ways(run, machine, plan, tokens=4)


def the_machine(run):
    """Return the driver with Triton's compiled kernels, or a simulation of it with their twins."""
    if run.on_gpu:
        from cuda.bindings import driver
        from kernel import load_compiled

        torch.cuda.current_stream().synchronize()  # makes torch's context current
        return Machine(driver, load_compiled, start_by_triton)
    from simulation import Simulation, loader, start_twins

    simulation = Simulation()
    return Machine(simulation, loader(simulation), start_twins)


def drawn(run, tokens, seed):
    """Draw a call with full lists of random rows."""
    pages, width = (4, 64) if run.tiny else (PAGES, 2048)
    lists = uniform(tokens, seed, rows=pages * 64, width=width, device=run.device)
    return problem(lists.indices, seed, pages)


def compare_ways(run, machine, plan, tokens):
    """Check and time every way, with a cold cache."""
    subjects = ways(machine, plan, by_torch=not run.tiny)
    if run.on_gpu:
        subjects["study kernel"] = functools.partial(splitk, plan=plan)
    if not run.on_gpu and plan.reduction == "last":  # the interpreter is slow: once is enough
        subjects = {name: subjects[name] for name in ("dispatcher", "graph, all updated")}
    run.compare(
        subjects=subjects,
        reference=reference,
        inputs=lambda seed: drawn(run, tokens, seed),
        baseline="direct launch" if "direct launch" in subjects else None,
        tolerance=1e-2 if run.tiny else 5e-3,  # Triton's interpreter truncates to bf16
        samples=SAMPLES,
        nodes=NODES[plan.reduction],
        tokens=tokens,
    )


def time_ways(run, machine, plan, tokens):
    """Time the host's part, the device's, and a call in an idle queue; same tensors in every call."""
    given = drawn(run, tokens, run.seed)
    queued = usable(ways(machine, plan, by_torch=True), given)
    host_only = usable(host_only_ways(machine, plan), given)
    where = {"nodes": NODES[plan.reduction], "tokens": tokens, "calls": clock.CALLS}
    host = {name: clock.host_seconds(call) for name, call in (queued | host_only).items()}
    for name, seconds in host.items():
        run.count("host_time", seconds, unit="s", subject=name, **where)
    ratios(run, "host_ratio", host, where)
    ratios(run, "triton_ratio", host, where, base="Triton's launcher")
    once = {"nodes": NODES[plan.reduction], "tokens": tokens, "calls": 1}
    idle = clock.idle_seconds(queued | {"nothing": lambda: None})
    busy = clock.device_seconds(queued)
    ratios(run, "idle_ratio", idle, once)
    for name, seconds in idle.items():
        run.count("idle_time", seconds, unit="s", subject=name, **once)
    for name, seconds in busy.items():
        run.count("device_time", seconds, unit="s", subject=name, **once)
        share = 1.0 - median(seconds) / median(idle[name])
        run.count("host_share", share, unit="fraction", subject=name, **once)


def usable(found, given):
    """Bind ways to a call, without those that fail: `compare` has recorded why they do."""
    calls = {}
    for name, way in found.items():
        with contextlib.suppress(RuntimeError, ValueError):
            way(*given)
            calls[name] = functools.partial(way, *given)
    return calls


def ratios(run, metric, seconds, where, base="direct launch"):
    """Record each way's time over that of `base`."""
    whole = median(seconds[base])
    for name, found in seconds.items():
        if name != base:
            run.count(metric, median(found) / whole, unit="ratio", subject=name, **where)
