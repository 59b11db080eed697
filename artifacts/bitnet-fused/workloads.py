"""What is multiplied, and by whom: sizes, inputs drawn by seed, and the subjects of each comparison.

A shape is (tokens, k, n): activations [tokens, k], weight [n, k].
"""

from functools import partial

import torch
from kernel import EPSILON
from layer import BitLinear, linear
from peers import Bf16, Called, Naive, assembled, torchao_int8, torchao_layer, torchao_or_none
from ternary import weight_to_codes

LARGE = ((8192, 4096, 4096), (8192, 4096, 14336), (16384, 4096, 4096), (16384, 8192, 8192))
SMALL = ((256, 2048, 2048), (2048, 2048, 2048), (4096, 2048, 2048))
LIKE = 3e-2  # gates what is timed: int8 gradients and peers whose scales are bf16 are off by a hundredth
EDGES = {  # by shape: types, and the tiers that are checked in them
    (257, 1000, 513): {torch.bfloat16: (1, 2, 3), torch.float16: (1,), torch.float32: (3,)},
    (1, 129, 8): {torch.bfloat16: (3,)},
}
TINY_EDGES = {
    (17, 33, 19): EDGES[257, 1000, 513],
    (3, 1, 5): {torch.bfloat16: (1, 2, 3)},
}


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


class Cases:
    """The inputs of a shape by seed, and what a step's reference says of y, kept for the forward pass.

    A comparison asks its reference right after it has drawn the inputs, so that the seed is known.
    """

    def __init__(self, run, shape):
        """Nothing is drawn until it is asked for."""
        self._run, self._shape, self._seed = run, shape, 0
        self._known = {}

    def inputs(self, seed):
        """Draw them."""
        self._seed = seed
        return drawn(self._run, self._shape, seed)

    def with_codes(self, seed):
        """Return the inputs, and the weight's codes and scale."""
        given = self.inputs(seed)
        return *given, *weight_to_codes(given[1])

    def stepping(self, reference):
        """Return the reference of a step."""

        def step(*given):
            found = reference(*given)
            self._known[reference, self._seed] = found[0]
            return found

        return step

    def passing(self, reference):
        """Return the reference of a forward pass: y of a step's `reference`."""

        def forward(*given):
            if (reference, self._seed) not in self._known:
                return reference(*given[:4])[0]
            return self._known[reference, self._seed]

        return forward


class Known(Called):
    """Our forward pass where the weight's codes are there already: inputs end with codes and scale."""

    def __init__(self):
        """It makes no layer."""
        super().__init__(BitLinear, step=False)

    def _prepare(self, inputs):
        x, weight, norm, _, codes, scale = (each.detach() for each in inputs)
        self.plain = lambda: linear(x, weight, norm, None, codes, scale, 1, EPSILON)[0]


def ours(tier, *, forced=False):
    """Return what makes our layer over memory that is there."""
    return partial(assembled, partial(BitLinear, tier=tier, forced=forced))


def tiers(**options):
    return {f"tier {tier}": Called(ours(tier), **options) for tier in (1, 2, 3)}


def bitnets(shape, run, **options):
    """List the peers that do the same operation: torchao's, compiled, and in a step of the first large size
    what else people have.
    """
    if run.tiny:
        return {"naive": Called(partial(assembled, Naive), **options)}
    found = {}
    torchao = torchao_or_none()
    if torchao:
        make = torchao_layer(torchao.bitnet_training())
        found["torchao, compiled"] = Called(make, compiled=True, **options)
        if shape == LARGE[0] and not options:
            found["torchao"] = Called(make)
    if shape == LARGE[0] and not options:
        found["naive, compiled"] = Called(partial(assembled, Naive), compiled=True)
    return found


def plain(shape, run, **options):
    """List bf16, and in a step of the first large size torchao's int8 training, whose answer is bf16's."""
    if run.tiny:
        return {"bf16": Called(partial(assembled, Bf16), **options)}
    found = {"bf16, compiled": Called(partial(assembled, Bf16), compiled=True, **options)}
    if shape == LARGE[0] and not options:
        found["bf16"] = Called(partial(assembled, Bf16))
        if torchao_or_none():
            found["torchao int8, compiled"] = Called(torchao_int8, compiled=True)
    return found


def strided(inputs):
    """Lay the rows of x apart, as those of a slice are."""
    x, *others = inputs
    apart = torch.cat([x, x], dim=1)
    return apart[:, : x.shape[1]], *others
