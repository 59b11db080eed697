"""Reproduce every number of the entry on the smallest straight-through function: one GPU, three minutes.

Graph breaks, what the compiler makes of each way, the gradient of a weight by its size, the CPU without
a compiler, and training in pairs.
"""

import io
from contextlib import redirect_stdout
from functools import partial

import gradients
import torch
import training
from kernel import BREAKERS, COMPILED, compiled_ways
from shared.bitnet_cases import draw
from shared.bitnet_evidence import (
    bound_step,
    breaks,
    compare_steps,
    forward,
    held_bytes,
    operations,
    peak_bytes,
    ratio,
    step,
    usable,
    wall_seconds,
)
from shared.bitnet_torchao import leaf_of, shorten_tuning
from shared.bitnet_variants import (
    NAIVE,
    WAYS,
    ActivationFunction,
    WeightFunction,
    available,
    detached_activation,
    detached_weight,
    naive_activation,
    naive_weight,
    round_activation,
    round_weight,
    separate_norm,
    with_norm,
)

SIZES = (8192, 4096, 4096)
EAGER = ("linear, normed", "naive", "functions", "whole layer", "round only",
         "round only, scales detached", "torchao")  # fmt: skip
LOOPED = ("linear, normed", "round only", "round only, compiled", "functions, compiled")
ON_CPU = ((64, 256, 256), (256, 1024, 1024))
TOLERANCE, TOLERANCE_TINY = 0.3, 0.4  # nn.Linear rounds nothing: so far may it lie from the others


def reproduce(run):
    """Graphs first, then times, gradients and training."""
    shorten_tuning(6)
    graph_breaks(run)
    gradients.at_points(run, *run.sizes(full=[(512, 1024, 1024)], tiny=[(128, 128, 128)])[0])
    gradients.cosines(run, run.sizes(full=[1 << 22], tiny=[1 << 20])[0])
    steps(run, *run.sizes(full=[SIZES], tiny=[(64, 256, 128)])[0])
    with training.one_thread():
        training.toys(run)
        training.without_adam(run)
    training.language(run)
    if not run.tiny or not run.on_gpu:  # under a sanitizer nothing is timed
        for sizes in ON_CPU:
            on_cpu(run, *sizes)
        on_one_thread(run, *ON_CPU[0])


# region: breaks
def graph_breaks(run):
    """Count dynamo's graph breaks in every way, and in a Function that does one thing more."""
    x, weight, gain, _ = draw(64, 64, 64, 1, run.device)
    ways = available()
    ways.pop("linear", None)  # after the norm it is there as well
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


def steps(run, tokens, width, out):
    """Time a step of each way, eager and compiled, on the device; then count what it is made of."""
    here = available()
    ways = {name: WAYS[name] for name in EAGER if name in here}
    if not run.tiny:
        ways |= compiled_ways([name for name in COMPILED if name in here])
    tolerance = TOLERANCE_TINY if run.tiny else TOLERANCE
    compare_steps(run, ways, tokens, width, out, tolerance=tolerance, samples=5)
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
    own = name.removesuffix(", compiled")
    run.count("held_bytes", held_bytes(lambda: forward(way, own, *case)), unit="B", subject=name)
    run.count("peak_bytes", peak_bytes(lambda: step(way, own, *case)), unit="B", subject=name)


def count_launches(run, ways, case):
    """Count the kernels of a forward and of a step of each compiled way; the entry on overhead has the
    eager ones.

    The profiler looks once, for to start it takes longer than all calls: before each call stands a
    kernel that only waits.
    """
    calls = {}
    for name, way in ways.items():
        own = name.removesuffix(", compiled")
        if own != name:
            calls[name, "forward"] = partial(forward, way, own, *case)
            calls[name, "step"] = partial(step, way, own, *case)

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
    calls = {
        name: bound_step(way, name.removesuffix(", compiled"), case) for name, way in ways.items()
    }
    found = wall_seconds(calls, run.device, rounds=7, each=2)
    for name, seconds in found.items():
        run.count("wall_time", seconds, unit="s", subject=name, **where)
        run.count(
            "wall_ratio", ratio(found, name, "linear, normed"), unit="ratio", subject=name, **where
        )


def on_one_thread(run, *sizes):
    """Time the same with one thread, to see what the number of threads has to do with it."""
    run.count("threads", torch.get_num_threads(), unit="threads", subject="cpu")
    with training.one_thread():
        on_cpu(run, *sizes, place="cpu on one thread")


def on_cpu(run, tokens, width, out, place="cpu"):
    """Time steps and quantisers alone on the CPU in float32, without a compiler, the norm being the same.

    Beside the time stands how many operations it is made of.
    """
    device = torch.device("cpu")
    case = draw(tokens, width, out, run.seed, device, dtype=torch.float32, weights="uniform")
    ways = {"naive": NAIVE}
    for name in ("functions", "round only", "round only, scales detached"):
        ways[name] = with_norm(WAYS[name], separate_norm)
    layers = {name: bound_step(way, name, case) for name, way in ways.items()}
    pairs = {
        "naive": (naive_weight, naive_activation),
        "functions": (WeightFunction.apply, ActivationFunction.apply),
        "round only": (round_weight, round_activation),
        "round only, scales detached": (detached_weight, detached_activation),
    }
    alone = {name: partial(quantise, *pair, case[1], case[0]) for name, pair in pairs.items()}
    where = {"place": place, "tokens": tokens, "width": width, "out": out}
    for part, calls in (("step", layers), ("quantisers", alone)):
        found = wall_seconds(calls, device, rounds=9, each=2)
        for name, seconds in found.items():
            number = len(operations(calls[name]))
            run.count("operations", number, unit="operations", subject=name, part=part, **where)
            run.count("cpu_time", seconds, unit="s", subject=name, part=part, **where)
            if name != "naive":
                fast = ratio(found, "naive", name)
                run.count("cpu_speed", fast, unit="ratio", subject=name, part=part, **where)


def quantise(of_weight, of_activation, weight, x):
    """Quantise both, and take the gradients."""
    for quantiser, tensor in ((of_weight, weight), (of_activation, x)):
        leaf = tensor.detach().requires_grad_()
        torch.autograd.grad(quantiser(leaf), leaf, tensor)
