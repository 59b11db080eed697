"""A step of the layer, checked and timed on the device, and what it is made of."""

from functools import partial

import torch
from shared.bitnet_cases import draw
from shared.bitnet_evidence import (
    forward,
    held_bytes,
    peak_bytes,
    ratio,
    usable,
    wall_seconds,
)
from shared.bitnet_reference import step as exact_step
from shared.bitnet_torchao import leaf_of
from shared.bitnet_variants import WAYS, available

MAIN = (8192, 4096, 4096)  # tokens, width, out of the comparison
EAGER = ("linear, normed", "naive", "functions", "whole layer", "round only",
         "round only, scales detached", "torchao")  # fmt: skip
LOOPED = ("linear, normed", "round only", "round only, compiled", "functions, compiled")
TOLERANCE, TOLERANCE_TINY = 0.3, 0.4  # nn.Linear rounds nothing: so far may it lie from the others
_COMPILED = ", compiled"


class Leaves:
    """The leaf of each weight by its way, made when the weight is first seen and not in a timed step.

    torchao's is a subclass, whose making takes longer than the step's own launches. A leaf holds its
    weight's memory, so that no other weight can have the address while it is kept.
    """

    def __init__(self):
        self.kept = {}

    def of(self, name, weight):
        """Return the leaf of a weight, over the same memory."""
        own = name.removesuffix(_COMPILED)
        if own != "torchao":
            return weight.detach().requires_grad_()
        key = weight.data_ptr(), weight.shape, weight.dtype
        if key not in self.kept:
            self.kept[key] = leaf_of(own, weight)
        return self.kept[key]


def step(way, name, leaves, case, every=1):
    """Return y and the gradients of x and of the weight; all are computed, every so manieth row returned."""
    x, weight, gain, gradient = case
    with torch.enable_grad():
        given = x.detach().requires_grad_(), leaves.of(name, weight), gain.detach().requires_grad_()
        y = way(*given)
        of_x, of_weight, _ = torch.autograd.grad(y, given, gradient, allow_unused=True)
    return y.detach()[::every], of_x[::every], of_weight[::every]


def compare_steps(run, ways, tokens, width, out, *, samples):
    """Time a step of each way on the device, and compare y and the gradients with the float64 ones."""
    every, leaves = 16 if tokens >= 8192 else 1, Leaves()

    def bound(name, way):
        return lambda *case: step(way, name, leaves, case, every)

    run.compare(
        subjects={name: bound(name, way) for name, way in ways.items()},
        reference=lambda *case: exact_step(*case, every),
        inputs=lambda seed: draw(tokens, width, out, seed, run.device),
        tolerance=TOLERANCE_TINY if run.tiny else TOLERANCE,
        work=6 * tokens * width * out,
        samples=samples,
        part="step",
        tokens=tokens,
        width=width,
        out=out,
    )


def steps(run, compiled, tokens, width, out):
    """Time a step of each way, eager and compiled; count what it is made of."""
    here = available()
    ways = {name: WAYS[name] for name in EAGER if name in here} | compiled
    compare_steps(run, ways, tokens, width, out, samples=5)
    if not run.tiny:
        case = draw(tokens, width, out, run.seed, run.device)
        ways = usable(ways, case)  # why another is not stands in the record of the comparison
        for name, way in ways.items():
            count_bytes(run, name, way, case)
        count_launches(run, ways, case)
        looped = {name: ways[name] for name in LOOPED if name in ways}
        wall(run, looped, case, {"tokens": tokens, "width": width, "out": out})


def count_bytes(run, name, way, case):
    """Count the memory that a forward keeps and a step needs."""
    own, leaves = name.removesuffix(_COMPILED), Leaves()
    run.count("held_bytes", held_bytes(lambda: forward(way, own, *case)), unit="B", subject=name)
    peak = peak_bytes(lambda: step(way, name, leaves, case))
    run.count("peak_bytes", peak, unit="B", subject=name)


def count_launches(run, ways, case):
    """Count the kernels of a forward and of a step of each compiled way; the entry on overhead has the
    eager ones.

    The profiler looks once, for to start it takes longer than all calls: before each call stands a
    kernel that only waits.
    """
    calls, leaves = {}, Leaves()
    for name, way in ways.items():
        own = name.removesuffix(_COMPILED)
        if own != name:
            calls[name, "forward"] = partial(forward, way, own, *case)
            calls[name, "step"] = partial(step, way, name, leaves, case)

    def apart():
        for call in calls.values():
            torch.cuda._sleep(1)
            call()

    found = pieces([launch.name for launch in run.launches(apart)])
    if len(found) != len(calls):  # the rest of the entry does not hang on it
        print(f"{len(found)} waiting kernels seen of {len(calls)}: no launches are kept")  # noqa: T201
        return
    for (name, part), number in zip(calls, found, strict=True):
        run.count("launches", number, unit="launches", subject=name, part=part)


def pieces(names):
    """Return how many kernels follow each appearance of the first one's name."""
    found = []
    for name in names:
        if name == names[0]:
            found.append(0)
        else:
            found[-1] += 1
    return found


def wall(run, ways, case, where):
    """Time steps as a training loop sees them, and divide by `nn.Linear`'s after the same norm."""
    leaves = Leaves()
    calls = {name: partial(step, way, name, leaves, case) for name, way in ways.items()}
    found = wall_seconds(calls, run.device, rounds=7, each=2)
    for name, seconds in found.items():
        run.count("wall_time", seconds, unit="s", subject=name, **where)
        over = ratio(found, name, "linear, normed")
        run.count("wall_ratio", over, unit="ratio", subject=name, **where)
