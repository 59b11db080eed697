"""What is multiplied, and by whom: sizes, inputs drawn by seed, and the subjects of each comparison.

A shape is (tokens, k, n): activations [tokens, k], weight [n, k].
"""

from functools import partial

import torch
from kernel import EPSILON
from layer import BitLinear
from peers import Bf16, Called, Naive, assembled, torchao_int8, torchao_layer, torchao_or_none

LARGE = ((8192, 4096, 4096), (8192, 4096, 14336), (16384, 4096, 4096), (16384, 8192, 8192))
SMALL = ((256, 2048, 2048), (2048, 2048, 2048), (4096, 2048, 2048))


def sizes_of(shape):
    return dict(zip(("tokens", "k", "n"), shape, strict=True))


def drawn(run, shape, seed, dtype=torch.bfloat16):
    """Draw activations, weight, the norm's weight and the gradient of the outputs."""
    tokens, inputs, outputs = shape
    generator = torch.Generator(run.device).manual_seed(seed)
    options = {"device": run.device, "generator": generator}
    x = torch.randn(tokens, inputs, **options)
    weight = torch.randn(outputs, inputs, **options) * 0.02
    norm = torch.rand(inputs, **options) + 0.5
    upstream = torch.randn(tokens, outputs, **options)
    # a norm over one element leaves dx something only where its epsilon counts, and the norm's gradient
    # is one sum: where its terms cancel, nothing but their rounding is left
    if inputs == 1:
        x, weight, upstream = x.abs() * EPSILON**0.5, weight.abs(), upstream.abs()
    return tuple(each.to(dtype) for each in (x, weight, norm, upstream))


def ours(tier, *, forced=False):
    """Return what makes our layer over memory that is there."""
    return partial(assembled, partial(BitLinear, tier=tier, forced=forced))


def tiers(**options):
    return {f"tier {tier}": Called(ours(tier), **options) for tier in (1, 2, 3)}


def bitnets(shape, run, **options):
    """List the peers that do the same operation; those that are slow to compile at two shapes alone."""
    if run.tiny:
        return {"naive": Called(partial(assembled, Naive), **options)}
    found = {}
    torchao = torchao_or_none()
    if torchao:
        make = torchao_layer(torchao.bitnet_training())
        found["torchao, compiled"] = Called(make, compiled=True, **options)
        if shape in LARGE[::2]:
            found["torchao"] = Called(make, **options)
    if shape in LARGE[::2]:
        found["naive, compiled"] = Called(partial(assembled, Naive), compiled=True, **options)
    return found


def plain(shape, run, **options):
    """List bf16, and torchao's int8 training, whose answer is bf16's."""
    found = {"bf16": Called(partial(assembled, Bf16), **options)}
    if run.tiny:
        return found
    found["bf16, compiled"] = Called(partial(assembled, Bf16), compiled=True, **options)
    if shape in LARGE[::2] and torchao_or_none():
        found["torchao int8, compiled"] = Called(torchao_int8, compiled=True, **options)
    return found


def strided(inputs):
    """Lay the rows of x apart, as those of a slice are."""
    x, *others = inputs
    apart = torch.cat([x, x], dim=1)
    return apart[:, : x.shape[1]], *others
