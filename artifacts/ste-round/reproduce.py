"""Reproduce every number of the entry on the smallest straight-through function: one GPU, three minutes.

Graph breaks, what the compiler makes of each way, the gradient of a weight by its size, trainings in pairs,
steps at seven sizes, and the CPU without a compiler.
"""

import io
import time
from contextlib import contextmanager, redirect_stdout
from functools import partial

import ahead
import gradients
import torch
import toys
import training
from kernel import BREAKERS
from layers import MAIN, steps
from processor import on_the_cpu, one_thread
from shared.bitnet_cases import draw
from shared.bitnet_evidence import breaks
from shared.bitnet_torchao import leaf_of, shorten_tuning
from shared.bitnet_variants import available
from sizes import at_sizes


def reproduce(run):
    """First what is not timed, while the compiler works ahead; then times; last the CPU."""
    shorten_tuning(6)
    processes = {} if run.tiny else ahead.start()
    with stage("graph breaks"):
        graph_breaks(run)
    with stage("gradients"):
        gradients.at_points(run, *run.sizes(full=[(512, 1024, 1024)], tiny=[(128, 128, 128)])[0])
        gradients.cosines(run, run.sizes(full=[1 << 22], tiny=[1 << 20])[0])
    with stage("toys"), one_thread():
        toys.toys(run)
    with stage("language"), one_thread():
        training.language(run)
    with stage("compiled ahead"):
        ahead.finish(processes)
    with stage("steps"):
        compiled = steps(run, *run.sizes(full=[MAIN], tiny=[(64, 256, 128)])[0])
    if not run.tiny:
        with stage("sizes"):
            at_sizes(run, compiled)
    if not run.tiny or not run.on_gpu:  # under a sanitizer nothing is timed
        with stage("cpu"):
            on_the_cpu(run)


@contextmanager
def stage(name):
    """Print how long what is within took."""
    begin = time.perf_counter()
    yield
    print(f"{name}: {time.perf_counter() - begin:.1f} s")  # noqa: T201 - for who shortens it


# region: breaks
def graph_breaks(run):
    """Count dynamo's graph breaks in every way, and in a Function that does one thing more."""
    x, weight, gain, _ = draw(64, 64, 64, 1, run.device)
    ways = available()
    for name in ("linear", "naive, no up-casts"):  # after the norm the first is there as well
        ways.pop(name, None)
    for name, way in ways.items():
        leaves = x.requires_grad_(), leaf_of(name, weight), gain.requires_grad_()
        record_breaks(run, name, partial(call_way, way), leaves)
    for name, function in BREAKERS.items():
        record_breaks(run, name, function.apply, (weight.detach().requires_grad_(),), alone=True)
    torch._dynamo.reset()


# endregion


def call_way(way, *leaves):
    """Call a way: a plain function, for dynamo."""
    return way(*leaves)


def record_breaks(run, name, call, leaves, *, alone=False):
    """Record the breaks of a call; 0 means one graph forward and one backward."""

    def traced(*arguments):
        return call(*arguments) * 1.0

    part = {"part": "Function" if alone else "layer"}
    with redirect_stdout(io.StringIO()):  # one of the breakers prints
        found = breaks(traced, *leaves)
    run.count("graph_breaks", found, unit="breaks", subject=name, **part)
