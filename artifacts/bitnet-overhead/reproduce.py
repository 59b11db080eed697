"""Reproduce every number of the entry on BitNet's overhead: one GPU, about two minutes.

What a forward is made of, how long a step takes beside `nn.Linear`, how right the output is, and when two
ways that should agree do so. The CPU's figures are measured on the CPU of whichever machine this is.
"""

import accuracy
import counts
import equality
import parts
import torch
from kernel import compiled_naive, compiled_quantisers
from shared.bitnet_cases import draw
from shared.bitnet_evidence import bound_step, compare_steps, ratio, usable, wall_seconds
from shared.bitnet_torchao import shorten_tuning
from shared.bitnet_variants import NAIVE, WAYS, available, separate_norm, with_norm
from shared.graph_replay import replays

FULL = [(256, 2048, 2048), (2048, 2048, 2048), (4096, 2048, 2048), (8192, 4096, 4096),
        (8192, 4096, 14336), (16384, 4096, 4096), (16384, 8192, 8192)]  # fmt: skip
TORCHAO = {(2048, 2048, 2048), (8192, 4096, 4096), (16384, 8192, 8192)}
WALL = [(256, 2048, 2048), (4096, 2048, 2048), (8192, 4096, 4096)]
APART = {(4096, 2048, 2048), (16384, 8192, 8192)}
PARTS = [(256, 2048, 2048), (16384, 8192, 8192)]
COMPILED_AT = 4096  # tokens: one set of sizes is compiled, for each costs seconds
ON_CPU = ((64, 256, 256), (256, 1024, 1024))
COMPARED = ("linear", "linear, normed", "naive", "naive, no up-casts", "functions")
REPLAYED = ("linear", "naive", "functions", "functions, compiled quantisers", "naive, compiled")
TOLERANCE = 0.2  # nn.Linear rounds nothing: so far may it lie from the others on these weights
TOLERANCE_TINY = 0.4  # and further with few numbers


def reproduce(run):
    """Counts first, then times, then bits."""
    shorten_tuning(6)
    for sizes in run.sizes(full=[(4096, 2048, 2048)], tiny=[(64, 256, 128)]):
        counts.layers(run, *sizes)
    for sizes in run.sizes(full=[(2048, 2048)], tiny=[(48, 64)]):
        counts.quantisers(run, *sizes)
    counts.idiom(run)
    accuracy.errors(run, *run.sizes(full=[(2048, 4096, 4096)], tiny=[(64, 256, 128)])[0], samples=1)
    accuracy.flips(run, *run.sizes(full=[(4096, 4096, 4096)], tiny=[(64, 256, 256)])[0])
    accuracy.scales(run, run.sizes(full=[1 << 20], tiny=[1 << 14])[0])
    bits = run.sizes(full=[(512, 2048, 2048)], tiny=[(32, 256, 64)])[0]
    equality.forwards(run, *bits)
    equality.draws(run, *bits)
    equality.weights_apart(run, run.sizes(full=[1 << 20], tiny=[1 << 14])[0])
    equality.drift(run)
    quantisers = None if run.tiny else compiled_quantisers()
    for sizes in run.sizes(full=FULL, tiny=[(64, 256, 128)]):
        steps(run, quantisers, *sizes)
    if not run.tiny:
        for sizes in PARTS:
            parts.times(run, *sizes)
        for sizes in WALL:
            wall(run, quantisers, *sizes)
    if not run.tiny or not run.on_gpu:  # under a sanitizer nothing is timed
        for sizes in ON_CPU:
            on_cpu(run, *sizes)


# region: steps
def steps(run, quantisers, tokens, width, out):
    """Time a step, forward and backward, of each way beside `nn.Linear`, from start to end on the device."""
    ways = {name: WAYS[name] for name in COMPARED}
    if "torchao" in available() and (run.tiny or (tokens, width, out) in TORCHAO):
        ways["torchao"] = WAYS["torchao"]
    if (tokens, width, out) in APART:
        ways["functions, separate norm"] = equality.OTHER
    if quantisers is not None:
        ways["functions, compiled quantisers"] = quantisers
        if tokens == COMPILED_AT:
            ways["naive, compiled"] = compiled_naive()
    tolerance = TOLERANCE_TINY if run.tiny else TOLERANCE
    compare_steps(run, ways, tokens, width, out, tolerance=tolerance, samples=7)


# endregion


def wall(run, quantisers, tokens, width, out):
    """Time steps as a training loop sees them, host and device together: eager, replayed, compiled."""
    case = draw(tokens, width, out, run.seed, run.device)
    ways = {name: WAYS[name] for name in (*COMPARED, "whole layer")}
    ways["functions, compiled quantisers"] = quantisers
    if tokens == COMPILED_AT:
        ways["naive, compiled"] = compiled_naive()
    calls = {name: bound_step(way, name, case) for name, way in usable(ways, case).items()}
    replayed = replays({name: calls[name] for name in REPLAYED if name in calls})
    where = {"tokens": tokens, "width": width, "out": out}
    rounds = 9 if tokens > COMPILED_AT else 17  # a short step is the host's, whose time spreads
    found = wall_seconds(calls | replayed, run.device, rounds=rounds, each=3)
    for name, seconds in found.items():
        run.count("wall_time", seconds, unit="s", subject=name, **where)
        over = "linear, graph" if name.endswith("graph") and "linear, graph" in found else "linear"
        run.count("wall_ratio", ratio(found, name, over), unit="ratio", subject=name, **where)


def on_cpu(run, tokens, width, out):
    """Time a step on the CPU in float32, the quantisers alone being different."""
    device = torch.device("cpu")
    case = draw(tokens, width, out, run.seed, device, dtype=torch.float32, weights="uniform")
    ways = {
        "linear": WAYS["linear"],
        "naive": NAIVE,
        "functions": with_norm(WAYS["functions"], separate_norm),
    }
    calls = {name: bound_step(way, name, case) for name, way in ways.items()}
    found = wall_seconds(calls, device, rounds=9 if run.tiny else 31, each=2)
    where = {"place": "cpu", "tokens": tokens, "width": width, "out": out}
    for name, seconds in found.items():
        run.count("cpu_time", seconds, unit="s", subject=name, **where)
    for name, over in (("functions", "naive"), ("naive", "linear")):
        run.count(
            "cpu_ratio", ratio(found, name, over), unit="ratio", subject=name, against=over, **where
        )
