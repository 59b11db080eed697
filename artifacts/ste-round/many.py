"""Many nets at once: the layers of [pairs] nets in one tensor, each with its own scale and its own norm.

Nets that are trained in one tensor cost little more than one, for they are small, and a mean over many
pairs of them tells an effect from chance where a single pair cannot. What is elementwise or by row is
shared with the single layer; a weight's scale is not, since each net has its own.
"""

# ruff: noqa: ARG004, D102, N812 - forward, backward and their ctx are autograd's, F is torch's custom
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from shared.bitnet_variants import (
    EPS,
    ActivationFunction,
    Round,
    Way,
    detached_activation,
    naive_activation,
    round_activation,
    same,
    separate_norm,
)
from torch import nn
from torch.autograd import Function


def ternaries(w):
    """Return the codes of the weights [..., N, K] and each net's scale [..., 1, 1]."""
    s = w.abs().mean((-2, -1), keepdim=True).clamp(min=EPS)
    return (w / s).round().clamp(-1, 1), s


class Whole(Function):
    """The whole quantisation of each net's weight forward, identity backward."""

    @staticmethod
    def forward(ctx, w):
        codes, s = ternaries(w)
        return codes * s

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def naive_weights(w):
    """Straight through as `w + (w_q - w).detach()`."""
    codes, s = ternaries(w)
    return w + (codes * s - w).detach()


def round_weights(w, *, detached=False):
    """Straight through at the rounding alone; the scales have gradients unless `detached`."""
    s = w.abs().mean((-2, -1), keepdim=True).clamp(min=EPS)
    s = s.detach() if detached else s
    return Round.apply(w / s).clamp(-1, 1) * s


def detached_weights(w):
    """`round_weights` without a gradient of the scales."""
    return round_weights(w, detached=True)


def norm(x, gain):
    """RMSNorm by torch's own function; its gain differs from net to net."""
    return F.rms_norm(x, x.shape[-1:], None, EPS) * gain


@dataclass(frozen=True)
class Rule(Way):
    """A way for x [P, T, K], weights [P, N, K] and gains [P, 1, K]."""

    def __call__(self, x, weight, gain):
        """Return y [P, T, N]."""
        x = self.activation(self.norm(x, gain))
        return torch.bmm(x, self.weight(weight).transpose(-2, -1))


LINEAR = Rule(norm, same, same)
RULES = {
    "functions": Rule(norm, ActivationFunction.apply, Whole.apply),
    "naive": Rule(separate_norm, naive_activation, naive_weights),
    "round only": Rule(norm, round_activation, round_weights),
    "round only, scales detached": Rule(norm, detached_activation, detached_weights),
}
"""The naive rule has the Functions' gradient and other last bits: what it differs by is chance."""
HALVES = {
    "round only, weight's scale detached": Rule(norm, round_activation, detached_weights),
    "round only, activation's factor detached": Rule(norm, detached_activation, round_weights),
}
"""Which of the two scales' gradients it is that matters."""


def even(pairs, *shape):
    """Draw parameters as nn.Linear does, from a last dimension of inputs."""
    bound = shape[-1] ** -0.5
    return nn.Parameter(torch.empty(pairs, *shape).uniform_(-bound, bound))


class ManyLinear(nn.Module):
    """The layer of every net: weight [P, N, K] and its norm's gain [P, 1, K], both with the rule."""

    def __init__(self, rule, pairs, width, out):
        super().__init__()
        self.rule = rule
        self.weight = even(pairs, out, width)
        self.gain = nn.Parameter(torch.ones(pairs, 1, width))

    def forward(self, x):
        return self.rule(x, self.weight, self.gain)


def geometric(ratios):
    """Return the mean of ratios [P, ...] over the pairs, by their logarithms.

    A ratio of two numbers that differ by chance alone is as often 1.2 as 1/1.2, whose common mean lies
    above one; the mean of their logarithms does not.
    """
    return ratios.log().mean(0).exp()
