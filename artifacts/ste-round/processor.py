"""The ways on the CPU, without a compiler, and what the memory of their tensors has to do with it."""

import ctypes
import resource
from collections import defaultdict
from contextlib import contextmanager
from functools import partial

import torch
from shared.bitnet_cases import draw
from shared.bitnet_evidence import bound_step, operations, ratio, wall_seconds
from shared.bitnet_variants import (
    NAIVE,
    WAYS,
    ActivationFunction,
    WeightFunction,
    detached_activation,
    detached_weight,
    naive_activation,
    naive_weight,
    round_activation,
    round_weight,
    separate_norm,
    with_norm,
)

CPU = torch.device("cpu")
SMALL, LARGE = (64, 256, 256), (256, 1024, 1024)
QUANTISERS = {
    "naive": (naive_weight, naive_activation),
    "functions": (WeightFunction.apply, ActivationFunction.apply),
    "round only": (round_weight, round_activation),
    "round only, scales detached": (detached_weight, detached_activation),
}
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
GIVEN_BACK, KEPT = (1 << 17, 1 << 17), (1 << 30, 1 << 25)
"""glibc's own thresholds at its start, and the highest: what lies above the second is asked of the system."""


@contextmanager
def one_thread():
    """Within it the CPU works with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def on_the_cpu(run):
    """Time steps and quantisers, with all threads and with one, and with memory given back and kept."""
    run.count("threads", torch.get_num_threads(), unit="threads", subject="cpu")
    small, large = run.sizes(full=[SMALL, LARGE], tiny=[(16, 64, 64), (64, 256, 256)])
    for sizes in (small, large):
        both(run, "cpu", sizes)
    with one_thread():
        both(run, "cpu on one thread", small)
        timed(run, alone(run, large), "quantisers", "cpu on one thread", large)
    in_both_states(run, large)


def both(run, place, sizes):
    """Time the steps and the quantisers alone, and return the seconds by part."""
    parts = {"step": steps(run, sizes), "quantisers": alone(run, sizes)}
    return {part: timed(run, calls, part, place, sizes) for part, calls in parts.items()}


# region: memory
def in_both_states(run, sizes):
    """Time a size again with free memory given back to the system at once, then with it kept.

    Left alone, glibc chooses between the two by what was freed before, another time in every process. The
    state that is set last remains: nothing is timed after it.
    """
    found = defaultdict(dict)
    for state, thresholds in (("given back", GIVEN_BACK), ("kept", KEPT)):
        if set_thresholds(*thresholds):
            for part, seconds in both(run, f"cpu, memory {state}", sizes).items():
                for name, each in seconds.items():
                    found[part, name][state] = each
    for (part, name), each in found.items():
        gain = ratio(each, "given back", "kept")
        run.count("kept_gain", gain, unit="ratio", subject=name, part=part, place="cpu")


def set_thresholds(trim, mmap):
    """Set from which size free memory goes back to the system, and from which it is asked of it.

    Return whether this C library has such thresholds.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(
        mallopt(TRIM_THRESHOLD, trim) and mallopt(MMAP_THRESHOLD, mmap)
    )


def faults(call):
    """Return how many pages the system gave for a call after the first."""
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


# endregion


def drawn(run, sizes):
    """Draw a case."""
    return draw(*sizes, run.seed, CPU, dtype=torch.float32, weights="uniform")


def steps(run, sizes):
    """Return a step of each way, the norm being the same."""
    case, ways = drawn(run, sizes), {"naive": NAIVE}
    for name in ("functions", "round only", "round only, scales detached"):
        ways[name] = with_norm(WAYS[name], separate_norm)
    return {name: bound_step(way, name, case) for name, way in ways.items()}


def alone(run, sizes):
    """Return the quantisers of each way, forward and backward."""
    x, weight, _, _ = drawn(run, sizes)
    return {name: partial(quantise, *pair, weight, x) for name, pair in QUANTISERS.items()}


def quantise(of_weight, of_activation, weight, x):
    """Quantise both, and take the gradients."""
    for quantiser, tensor in ((of_weight, weight), (of_activation, x)):
        leaf = tensor.detach().requires_grad_()
        torch.autograd.grad(quantiser(leaf), leaf, tensor)


def timed(run, calls, part, place, sizes):
    """Time calls in turns, and return the seconds; beside them stand the operations and pages of a call."""
    where = dict(zip(("tokens", "width", "out"), sizes, strict=True), place=place, part=part)
    rounds, each = (7, 1) if sizes == LARGE else (9, 2)
    found = wall_seconds(calls, CPU, rounds=rounds, each=each)
    for name, seconds in found.items():
        number = len(operations(calls[name]))
        run.count("operations", number, unit="operations", subject=name, **where)
        run.count("page_faults", faults(calls[name]), unit="pages", subject=name, **where)
        run.count("cpu_time", seconds, unit="s", subject=name, **where)
        if name != "naive":
            fast = ratio(found, "naive", name)
            run.count("cpu_speed", fast, unit="ratio", subject=name, **where)
    return found
