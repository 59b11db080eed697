"""The ways of the layer that torch.compile makes, and what breaks its graph inside an autograd Function.

Each breaker is the weight's Function with one thing more in its forward.
"""

# ruff: noqa: ARG004, D102 - forward, backward and their ctx are autograd's
from types import FunctionType

import torch
from shared.bitnet_evidence import compiled
from shared.bitnet_variants import EPS, WAYS, ternary
from torch._functorch import config as functorch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

COMPILED = ("linear, normed", "naive", "functions", "whole layer", "round only",
            "round only, scales detached", "torchao")  # fmt: skip


def compiled_ways(names):
    """Return, by name, ways that are compiled whole, anew for each set of sizes.

    Each is a function with code of its own, for dynamo keeps what it compiled with the code. A graph with
    an autograd Function is kept on disk as well: without leave it would be traced anew in every process.
    """
    functorch.autograd_cache_allow_custom_autograd_functions = True
    found = {}
    for name in names:
        code = call_way.__code__.replace(co_name=name.replace(" ", "_").replace(",", ""))
        traced = FunctionType(code, globals(), code.co_name, (WAYS[name],))
        found[f"{name}, compiled"] = compiled(traced, dynamic=False)
    return found


def any_tokens(way):
    """Return a compiled way of which one graph serves all numbers of tokens, for one size of weight."""

    def marked(x, weight, gain):
        torch._dynamo.mark_dynamic(x, 0)
        return way(x, weight, gain)

    return marked


def call_way(x, weight, gain, way=None):
    """Call the way that is given, or that is this function's own default."""
    return way(x, weight, gain)


def fake(w):
    """The weight's whole quantisation."""
    codes, s = ternary(w.float())
    return (codes * s).to(w.dtype)


class Identity(Function):
    """Forward as given, backward the identity."""

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Item(Identity):
    """Reads the scale on the host."""

    @staticmethod
    def forward(ctx, w):
        s = max(w.abs().mean().item(), EPS)
        return (w / s).round().clamp(-1, 1) * s


class Branch(Identity):
    """Asks whether the scale is too small, on the host."""

    @staticmethod
    def forward(ctx, w):
        s = w.abs().mean()
        if s < EPS:
            return torch.zeros_like(w)
        return (w / s).round().clamp(-1, 1) * s


class Printed(Identity):
    """Prints."""

    @staticmethod
    def forward(ctx, w):
        print("scale of", w.shape[0], "rows")  # noqa: T201 - the point
        return fake(w)


@torch.compiler.disable
def hidden(w):
    """What dynamo is told not to look into."""
    return fake(w)


class Hidden(Identity):
    """Calls what is hidden from the compiler."""

    @staticmethod
    def forward(ctx, w):
        return hidden(w)


class Synchronised(Identity):
    """Waits for the GPU, as one does to time something."""

    @staticmethod
    def forward(ctx, w):
        torch.cuda.synchronize() if w.is_cuda else torch.cpu.synchronize()
        return fake(w)


class Attribute(Function):
    """Keeps a tensor as an attribute of ctx."""

    @staticmethod
    def forward(ctx, w):
        ctx.shape_of = w.shape
        return fake(w)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(ctx.shape_of)


class Once(Function):
    """Is differentiable once."""

    @staticmethod
    def forward(ctx, w):
        return fake(w)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient


BREAKERS = {
    "scale read by item()": Item,
    "branch on the scale": Branch,
    "print": Printed,
    "hidden from the compiler": Hidden,
    "synchronisation": Synchronised,
    "attribute of ctx": Attribute,
    "differentiable once": Once,
}
