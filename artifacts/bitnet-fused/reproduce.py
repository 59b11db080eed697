"""Reproduce every number of the entry on the fused BitNet layer: one GPU, about three minutes.

First what is right, then steps and forward passes beside the peers, their parts, memory, and a small
character language model.
"""

import gc
from functools import partial

import kernel
import reference
import torch
from ahead import compile_ahead
from characters import Size, train
from facts import generated_code, launched
from layer import BitLinear, ternarise, tier_for
from memory import peak_bytes, saved_bytes
from parts import counted, products, quantisers
from peers import (
    Bf16,
    Called,
    Naive,
    RoundOnly,
    assembled,
    torchao_layer,
    torchao_or_none,
)
from workloads import (
    EDGES,
    LARGE,
    LIKE,
    SMALL,
    TINY_EDGES,
    Cases,
    Known,
    bitnets,
    drawn,
    ours,
    plain,
    sizes_of,
    strided,
    tiers,
)

# Where only the rounding is straight through, a row's scale has a gradient: (1/127) Σ g · (n · a − code) goes
# to the row's largest element, which is √(K / 12) / 127 of a usual g, a seventh for 4096 columns. Of bf16
# inputs, two elements of a row are sometimes equally large, and the last bit of float32 or of float64 says
# which of them it goes to. Four deviations of it, against a largest gradient of five, are:
TIED = 0.12
OUTPUTS = ("y", "dx", "dnorm", "dW")


def reproduce(run):
    if run.counting:  # which keeps nothing else
        counted(run, LARGE[3])
        return
    torch._dynamo.config.recompile_limit = 64
    if run.on_gpu and not run.tiny:
        compile_ahead(run)
    what_is_right(run)
    gradients(run)
    same_scale(run)
    for shape in run.sizes(full=(*SMALL, *LARGE), tiny=((18, 35, 17),)):
        layers(run, shape)
    for shape in run.sizes(full=(LARGE[0], LARGE[1], LARGE[3]), tiny=((18, 35, 17),)):
        products(run, shape)
    for shape in run.sizes(full=LARGE[:2], tiny=((18, 35, 17),)):
        quantisers(run, shape)
    for shape in run.sizes(full=(LARGE[2],), tiny=((18, 35, 17),)):
        memory(run, shape)
    characters(run)
    if run.on_gpu and not run.tiny:
        counted(run, LARGE[3])
        generated_code(run)
        launched(run, LARGE[0])


def what_is_right(run):
    """Check odd shapes in three types, and rows that do not lie side by side."""
    for shape, kinds in run.sizes(full=list(EDGES.items()), tiny=list(TINY_EDGES.items())):
        for dtype, asked in kinds.items():
            given = partial(drawn, run, shape, dtype=dtype)
            run.compare(
                subjects={f"tier {tier}": Called(ours(tier, forced=True)) for tier in asked},
                reference=reference.step,
                inputs=lambda seed, given=given: strided(given(seed)),
                tolerance=LIKE,
                time=False,
                operation="step",
                dtype=str(dtype).removeprefix("torch."),
                **sizes_of(shape),
            )


def gradients(run):
    """Record the error of each output of each tier against float64 on the same codes."""
    for shape in run.sizes(full=((2048, 2048, 2048), LARGE[1]), tiny=((18, 35, 17),)):
        given = drawn(run, shape, run.seed)
        expected = reference.step(*given)
        for tier in (1, 2, 3):
            found = Called(ours(tier, forced=True)).prepared(*given)()
            for output, one, other in zip(OUTPUTS, found, expected, strict=True):
                error = (one.double() - other).norm() / other.norm()
                sizes = {"output": output, **sizes_of(shape)}
                run.count("relative_error", error, unit="fraction", subject=f"tier {tier}", **sizes)
        codes = kernel.rows_to_codes(given[0], given[2], reference.EPSILON)[0][:, : shape[1]]
        defined, _ = reference.activation_codes(given[0], given[2])
        flipped = (codes.double() != defined).double().mean()
        run.count("flipped_codes", flipped, unit="fraction", subject="kernel", **sizes_of(shape))


def same_scale(run):
    """Count calls whose scale or codes differ in a bit from the first."""
    for shape in run.sizes(full=(LARGE[0],), tiny=((18, 35, 17),)):
        weight = drawn(run, shape, run.seed)[1]
        codes, scale = ternarise(weight)
        again = [ternarise(weight) for _ in range(20 if run.on_gpu else 2)]
        differ = sum(not torch.equal(a, codes) or not torch.equal(b, scale) for a, b in again)
        run.count("differing_calls", differ, unit="calls", subject="ternarise", **sizes_of(shape))
        zeros = (codes[:, : shape[1]] == 0).double().mean()
        run.count("zero_codes", zeros, unit="fraction", subject="ternarise", **sizes_of(shape))


def layers(run, shape):
    """Time steps, and forward passes of the large sizes, on the same inputs."""
    cases = Cases(run, shape)
    steps(run, shape, cases)
    if shape not in SMALL:
        forwards(run, shape, cases)
    if shape == SMALL[0]:  # what has been imported by now stays: no collection need pass it again
        gc.collect()
        gc.freeze()


# region: steps
def steps(run, shape, cases):
    """Time a training step: the layer that is replaced, then all that do the same operation."""
    tokens, inputs, outputs = shape
    what = {"operation": "step", **sizes_of(shape)}
    common = {
        "inputs": cases.inputs,
        "work": 6 * tokens * inputs * outputs,
        "samples": samples_of(shape),
    }
    subjects = {**tiers(), **bitnets(shape, run)}
    if shape in SMALL:
        subjects["tier 3, forced"] = Called(ours(3, forced=True))
    bf16, bits = cases.stepping(reference.plain_step), cases.stepping(reference.step)
    run.compare(plain(shape, run), bf16, tolerance=LIKE, **common, **what)
    run.compare(subjects, bits, baseline="tier 1", tolerance=LIKE, **common, **what)
    if run.tiny or shape == LARGE[0]:
        rounding = Called(partial(assembled, RoundOnly), compiled=not run.tiny)
        own = {"round only, compiled": rounding}
        run.compare(own, reference.round_only_step, tolerance=TIED, **common, **what)
    taken = tier_for(3, tokens, outputs, inputs)
    run.count("tier", taken, unit="", subject="tier 3", **sizes_of(shape))


# endregion


def samples_of(shape):
    """Every timed output is compared in float64, which takes longer than the call itself."""
    tokens, _, outputs = shape
    return 3 if tokens * outputs > 2**25 else 5


def forwards(run, shape, cases):
    """Time a forward pass that keeps what a backward pass needs; with the weight's codes at hand, too."""
    tokens, inputs, outputs = shape
    what = {"operation": "forward", **sizes_of(shape)}
    common = {
        "tolerance": LIKE,
        "work": 2 * tokens * inputs * outputs,
        "samples": samples_of(shape),
    }
    bf16, bits = cases.passing(reference.plain_step), cases.passing(reference.step)
    run.compare(plain(shape, run, step=False), bf16, cases.inputs, **common, **what)
    subjects = {"fused": Called(ours(1), step=False), **bitnets(shape, run, step=False)}
    given = cases.inputs
    if run.tiny or shape in LARGE[:2]:
        subjects["fused, codes known"] = Known()
        given = cases.with_codes
    run.compare(subjects, bits, given, **common, **what)


def memory(run, shape):
    """Record what each layer keeps for its backward pass, as bytes and as a share of bf16's."""
    x, weight, norm, upstream = drawn(run, shape, run.seed)
    makers = {"bf16": partial(assembled, Bf16), "naive": partial(assembled, Naive)}
    makers |= {"round only": partial(assembled, RoundOnly), "tier 1": ours(1), "tier 3": ours(3)}
    torchao = None if run.tiny else torchao_or_none()
    if torchao:
        makers["torchao"] = torchao_layer(torchao.bitnet_training())
    kept = {}
    for name, make in makers.items():
        layer = make(weight, norm)
        kept[name] = saved_bytes(layer, layer, x)
        run.count("saved_bytes", kept[name], unit="B", subject=name, **sizes_of(shape))
        share = kept[name] / kept["bf16"]
        run.count("saved_share", share, unit="fraction", subject=name, **sizes_of(shape))
        if run.on_gpu and not run.tiny:
            peak = peak_bytes(layer, layer, x, upstream)
            run.count("peak_bytes", peak, unit="B", subject=name, **sizes_of(shape))


def characters(run):
    """Train the same small model with each kind of layer from the same weights on the same batches."""
    tiny = Size(layers=1, width=16, heads=1, context=8, batch=1, steps=2, every=1, letters=2000)
    size = tiny if run.tiny else Size()
    layers = {
        "bf16": Bf16,
        "naive": Naive,
        "tier 1": partial(BitLinear, tier=1),
        "tier 3": partial(BitLinear, tier=3, forced=True),
    }
    found = {}
    for name, layer in layers.items():
        curve, found[name] = train(layer, size, run.device, run.seed)
        for step, loss in curve.items():
            run.count("loss", loss, unit="nats", subject=name, step=step)
    _, found["naive, other seed"] = train(Naive, size, run.device, run.seed + 1000)
    for name, loss in found.items():
        run.count("validation_loss", loss, unit="nats", subject=name, model="characters")
        if name != "naive":
            gap = loss - found["naive"]
            run.count("loss_over_naive", gap, unit="nats", subject=name, model="characters")
