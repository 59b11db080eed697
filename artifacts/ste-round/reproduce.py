"""Reproduce every number of the entry on the smallest straight-through function: one GPU, three minutes.

Graph breaks, what the compiler makes of each way, the gradient of a weight by its size, trainings in pairs,
steps at seven sizes, and the CPU without a compiler.
"""

import time
from contextlib import contextmanager

import ahead
import breaking
import gradients
import toys
import training
from layers import MAIN, steps
from processor import on_the_cpu, one_thread
from shared.bitnet_torchao import shorten_tuning
from sizes import at_sizes, loaded


def reproduce(run):
    """First what is not timed, while other processes trace and compile; then times; last the CPU."""
    shorten_tuning(6)
    tracer = None if run.tiny else breaking.start()
    processes = {} if run.tiny else ahead.start()
    with stage("gradients"):
        gradients.at_points(run, *run.sizes(full=[(512, 1024, 1024)], tiny=[(128, 128, 128)])[0])
        gradients.cosines(run, run.sizes(full=[1 << 22], tiny=[1 << 20])[0])
    with stage("toys"), one_thread():
        toys.toys(run)
    with stage("language"), one_thread():
        training.language(run)
    with stage("compiled ahead"):
        ahead.finish(processes)
    with stage("loaded"):
        compiled = {} if run.tiny else loaded(run)
    with stage("graph breaks"):
        breaking.graph_breaks(run, tracer)
    with stage("steps"):
        steps(run, compiled, *run.sizes(full=[MAIN], tiny=[(64, 256, 128)])[0])
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
