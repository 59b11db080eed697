"""Reproduce every number of the entry on the fused BitNet layer: one GPU, about three minutes.

First what is right, then steps and forward passes beside the peers, the bare products, memory, and a
small character language model.
"""

from functools import partial

import kernel
import product
import reference
import torch
from characters import Size, train
from facts import generated_code, launched
from layer import BitLinear, ternarise, tier_for
from memory import peak_bytes, saved_bytes
from peers import (
    Bf16,
    Called,
    Naive,
    RoundOnly,
    assembled,
    torchao_layer,
    torchao_or_none,
)
from workloads import LARGE, SMALL, bitnets, drawn, ours, plain, sizes_of, strided, tiers

EDGES = ((257, 1000, 513), (64, 1, 48), (1, 129, 8))
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
BF16 = (("bf16", torch.bfloat16),)
LIKE = 3e-2  # gates what is timed: int8 gradients and peers whose scales are bf16 are off by a hundredth
OUTPUTS = ("y", "dx", "dnorm", "dW")


def reproduce(run):
    torch._dynamo.config.recompile_limit = 64
    what_is_right(run)
    gradients(run)
    same_scale(run)
    for shape in run.sizes(full=(*SMALL, *LARGE), tiny=((18, 35, 17),)):
        steps(run, shape)
        if shape not in SMALL:
            forwards(run, shape)
        torch._dynamo.reset()
    for shape in run.sizes(full=(LARGE[0], LARGE[3]), tiny=((18, 35, 17),)):
        products(run, shape)
    for shape in run.sizes(full=(LARGE[2],), tiny=((18, 35, 17),)):
        memory(run, shape)
    characters(run)
    if run.on_gpu and not run.tiny:
        generated_code(run)
        launched(run, LARGE[0])


def what_is_right(run):
    """Check odd shapes in three types, and rows that do not lie side by side."""
    for shape in run.sizes(full=EDGES, tiny=((17, 33, 19), (3, 1, 5))):
        for name, dtype in DTYPES.items() if shape[1] > 200 or run.tiny else BF16:
            given = partial(drawn, run, shape, dtype=dtype)
            run.compare(
                subjects={f"tier {tier}": Called(ours(tier, forced=True)) for tier in (1, 2, 3)},
                reference=reference.step,
                inputs=lambda seed, given=given: strided(given(seed)),
                tolerance=LIKE,
                time=False,
                operation="step",
                dtype=name,
                **sizes_of(shape),
            )


def gradients(run):
    """Record the error of each output of each tier against float64 on the same codes."""
    for shape in run.sizes(full=((2048, 2048, 2048), LARGE[1]), tiny=((18, 35, 17),)):
        given = drawn(run, shape, run.seed)
        expected = reference.step(*given)
        for tier in (1, 2, 3):
            found = Called(ours(tier, forced=True))(*given)
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


# region: steps
def steps(run, shape):
    """Time a training step: the layer that is replaced, then all that do the same operation."""
    tokens, inputs, outputs = shape
    what = {"operation": "step", **sizes_of(shape)}
    common = {
        "inputs": lambda seed: drawn(run, shape, seed),
        "tolerance": LIKE,
        "work": 6 * tokens * inputs * outputs,
        "samples": 4 if tokens * inputs > 2**26 else 6,
    }
    subjects = {**tiers(), **bitnets(shape, run)}
    if shape in SMALL:
        subjects["tier 3, forced"] = Called(ours(3, forced=True))
    run.compare(plain(shape, run), reference.plain_step, baseline="bf16", **common, **what)
    run.compare(subjects, reference.step, baseline="tier 1", **common, **what)
    if run.tiny or shape in LARGE[::2]:
        rounding = Called(partial(assembled, RoundOnly), compiled=not run.tiny)
        own = {"round only, compiled": rounding}
        run.compare(own, reference.round_only_step, **common, **what)
    taken = tier_for(3, tokens, outputs, inputs)
    run.count("tier", taken, unit="", subject="tier 3", **sizes_of(shape))


# endregion


def forwards(run, shape):
    """Time a forward pass that keeps what a backward pass needs."""
    tokens, inputs, outputs = shape
    what = {"operation": "forward", **sizes_of(shape)}
    common = {
        "inputs": lambda seed: drawn(run, shape, seed),
        "work": 2 * tokens * inputs * outputs,
        "samples": 6,
    }
    subjects = {"fused": Called(ours(1), step=False), **bitnets(shape, run, step=False)}
    run.compare(
        plain(shape, run, step=False), lambda *given: reference.plain_forward(*given[:3]),
        tolerance=LIKE, **common, **what,
    )  # fmt: skip
    run.compare(
        subjects, lambda *given: reference.forward(*given[:3]), tolerance=LIKE, **common, **what
    )


def products(run, shape):
    """Time the product alone on real codes, the same codes in bf16, and fp8 as the ceiling."""
    tokens, inputs, outputs = shape
    what = {"operation": "product", **sizes_of(shape)}
    common = {"work": 2 * tokens * inputs * outputs, "samples": 7}
    one = torch.ones(tokens, device=run.device)
    int8 = partial(product.multiply, dtype=torch.bfloat16, factor=1.0)

    def codes(seed):
        x, weight, norm, _ = drawn(run, shape, seed)
        return kernel.rows_to_codes(x, norm, reference.EPSILON)[0], ternarise(weight)[0]

    subjects = {"int8 product": lambda left, right: int8(left, right, inputs, one)}
    if run.tiny:
        subjects["bf16 product"] = lambda left, right: left.bfloat16() @ right.bfloat16().t()
    else:
        wide = partial(int8, plan=product.WIDE)
        subjects["int8 product, wide"] = lambda left, right: wide(left, right, inputs, one)
    run.compare(
        subjects, lambda left, right: left.double() @ right.double().t(), codes, **common, **what
    )
    if run.on_gpu and not run.tiny:
        size = torch.ones((), device=run.device)
        eight = partial(torch._scaled_mm, scale_a=size, scale_b=size, out_dtype=torch.bfloat16)
        run.compare(
            {"fp8 product": lambda left, right: eight(left, right.t(), use_fast_accum=True)},
            lambda left, right: left.double() @ right.double().t(),
            lambda seed: tuple(each.to(torch.float8_e4m3fn) for each in drawn(run, shape, seed)[:2]),
            tolerance=LIKE, **common, **what,
        )  # fmt: skip
        made = codes(run.seed)
        run.profile(
            "int8 product", lambda: int8(*made, inputs, one),
            counters=["sm__throughput.avg.pct_of_peak_sustained_elapsed",
                      "l1tex__throughput.avg.pct_of_peak_sustained_active",
                      "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"],
            **what,
        )  # fmt: skip


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
