"""The parts of a forward pass, each timed alone: the product, and the quantisers before it."""

from functools import partial

import kernel
import product
import reference
import torch
from ternary import weight_to_codes
from workloads import LARGE, LIKE, drawn, sizes_of


def products(run, shape):
    """Time the product alone on real codes, with another plan too, and fp8 as the ceiling."""
    tokens, inputs, outputs = shape
    what = {"operation": "product", **sizes_of(shape)}
    common = {"work": 2 * tokens * inputs * outputs, "samples": 5}
    one = torch.ones(tokens, device=run.device)
    int8 = partial(product.multiply, dtype=torch.bfloat16, factor=1.0)
    subjects = {"int8 product": lambda left, right: int8(left, right, inputs, one)}
    if run.tiny:
        subjects["bf16 product"] = lambda left, right: left.bfloat16() @ right.bfloat16().t()
    elif shape != LARGE[1]:
        wide = partial(int8, plan=product.WIDE)
        subjects["int8 product, wide"] = lambda left, right: wide(left, right, inputs, one)
    run.compare(subjects, in_float64, lambda seed: operands(run, shape, seed), **common, **what)
    if run.on_gpu and not run.tiny:
        size = torch.ones((), device=run.device)
        eight = partial(torch._scaled_mm, scale_a=size, scale_b=size, out_dtype=torch.bfloat16)
        run.compare(
            {"fp8 product": lambda left, right: eight(left, right.t(), use_fast_accum=True)},
            in_float64,
            lambda seed: tuple(each.to(torch.float8_e4m3fn) for each in drawn(run, shape, seed)[:2]),
            tolerance=LIKE, **common, **what,
        )  # fmt: skip


def operands(run, shape, seed):
    """Return codes of activations and of a weight."""
    x, weight, norm, _ = drawn(run, shape, seed)
    return kernel.rows_to_codes(x, norm, reference.EPSILON)[0], weight_to_codes(weight)[0]


def in_float64(left, right):
    return left.double() @ right.double().t()


def counted(run, shape):
    """Ask Nsight Compute how busy the product keeps the multiprocessors and the memory."""
    left, right = operands(run, shape, run.seed)
    one = torch.ones(shape[0], device=run.device)
    int8 = partial(product.multiply, dtype=torch.bfloat16, factor=1.0)
    run.profile(
        "int8 product", lambda: int8(left, right, shape[1], one),
        counters=["sm__throughput.avg.pct_of_peak_sustained_elapsed",
                  "l1tex__throughput.avg.pct_of_peak_sustained_active",
                  "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"],
        operation="product", **sizes_of(shape),
    )  # fmt: skip


def quantisers(run, shape):
    """Time what a forward pass does before its product. What is compared are the scales: the codes, which
    another order of adding may flip, are compared as part of the forward pass.
    """
    tokens, inputs, outputs = shape
    what = {"operation": "quantise", **sizes_of(shape)}
    epsilon = reference.EPSILON
    run.compare(
        {"quantise x": lambda x, norm: kernel.rows_to_codes(x, norm, epsilon)[1:]},
        reference.row_scales,
        lambda seed: drawn(run, shape, seed)[:3:2],
        traffic=3 * tokens * inputs, tolerance=1e-5, samples=7, **what,
    )  # fmt: skip
    run.compare(
        {"quantise W": lambda weight: weight_to_codes(weight)[1]},
        lambda weight: reference.weight_codes(weight)[1].reshape(1),
        lambda seed: drawn(run, shape, seed)[1:2],
        traffic=3 * outputs * inputs, tolerance=1e-5, samples=7, **what,
    )  # fmt: skip
