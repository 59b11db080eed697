"""The linear layer of BitNet b1.58 training, in each way that two reports and torchao write it.

For x of [..., K] after an RMSNorm, and W of [N, K], in float32 and rounding half to even::

    a = 127 / max(absmax of the row, 1e-5)    x_q = clamp(round(x a), -128, 127) / a
    s = max(mean |W|, 1e-5)                   W_q = clamp(round(W / s), -1, 1) s
    y = x_q W_q^T + b

Rounding has no gradient, so each way puts one in its place; how it does that is what they differ in.
Every way is called with the same state: x, weight, the norm's gain, and a bias or None.
"""

# ruff: noqa: ARG004, D102, N812 - forward, backward and their ctx are autograd's, F is torch's custom
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from shared.bitnet_torchao import leaf_of
from torch import Tensor, nn
from torch.autograd import Function

HIGHEST, LOWEST, EPS = 127, -128, 1e-5
Quantiser = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Way:
    """A norm of (x, gain), or None; what becomes of the activation and of the weight; their product."""

    norm: Callable[[Tensor, Tensor], Tensor] | None
    activation: Quantiser
    weight: Quantiser

    def __call__(self, x: Tensor, weight: Tensor, gain: Tensor, bias: Tensor | None = None):
        """Return y of [..., N] for x [..., K], weight [N, K], gain [K], bias [N] or None."""
        if self.norm is not None:
            x = self.norm(x, gain)
        return F.linear(self.activation(x), self.weight(weight), bias)


def same(tensor):
    """Quantise nothing."""
    return tensor


def fused_norm(x, gain):
    """RMSNorm by torch's own function."""
    return F.rms_norm(x, gain.shape, gain, EPS)


# region: naive
def separate_norm(x, gain):
    """RMSNorm as one writes it, an operation at a time, in float32."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
    return wide.to(x.dtype) * gain


def ternary(w):
    """Return the weight's codes and its scale, in the dtype that it comes in."""
    s = w.abs().mean().clamp(min=EPS)
    return (w / s).round().clamp(-1, 1), s


def int8_range(x):
    """Return the codes of each row and its factor, in the dtype that it comes in."""
    a = HIGHEST / x.abs().amax(-1, keepdim=True).clamp(min=EPS)
    return (x * a).round().clamp(LOWEST, HIGHEST), a


def narrow_weight(w):
    """Straight through as `w + (w_q - w).detach()`, in the weight's own dtype."""
    codes, s = ternary(w)
    return w + (codes * s - w).detach()


def narrow_activation(x):
    """Likewise for the activation."""
    codes, a = int8_range(x)
    return x + (codes / a - x).detach()


def naive_weight(w):
    """The same between a cast to float32 and one back."""
    return narrow_weight(w.float()).to(w.dtype)


def naive_activation(x):
    """Likewise for the activation."""
    return narrow_activation(x.float()).to(x.dtype)


# endregion


def exact_weight(w):
    """Straight through as `w_q.detach() + (w - w.detach())`: what is added is zero, so w_q comes out."""
    wide = w.float()
    codes, s = ternary(wide.detach())
    return (codes * s + (wide - wide.detach())).to(w.dtype)


def exact_activation(x):
    """Likewise for the activation."""
    wide = x.float()
    codes, a = int8_range(wide.detach())
    return (codes / a + (wide - wide.detach())).to(x.dtype)


# region: functions
class WeightFunction(Function):
    """The whole quantisation forward, identity backward."""

    @staticmethod
    def forward(ctx, w):
        codes, s = ternary(w.float())
        return (codes * s).to(w.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ActivationFunction(Function):
    """Likewise for the activation."""

    @staticmethod
    def forward(ctx, x):
        codes, a = int8_range(x.float())
        return (codes / a).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


# endregion


# region: round
class Round(Function):
    """Round half to even, with the gradient of the identity."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def round_weight(w, *, detached=False):
    """Everything but the rounding is ordinary: the clamp and, unless `detached`, the scale have gradients."""
    wide = w.float()
    s = wide.abs().mean().clamp(min=EPS)
    s = s.detach() if detached else s
    return (Round.apply(wide / s).clamp(-1, 1) * s).to(w.dtype)


def round_activation(x, *, detached=False):
    """Likewise for the activation."""
    wide = x.float()
    a = HIGHEST / wide.abs().amax(-1, keepdim=True).clamp(min=EPS)
    a = a.detach() if detached else a
    return (Round.apply(wide * a).clamp(LOWEST, HIGHEST) / a).to(x.dtype)


def detached_weight(w):
    """`round_weight` without a gradient of the scale."""
    return round_weight(w, detached=True)


def detached_activation(x):
    """`round_activation` without a gradient of the factor."""
    return round_activation(x, detached=True)


# endregion


# region: whole
class WholeLayer(Function):
    """Codes in int8, their product in int32, then the scales; only codes and scales are kept."""

    @staticmethod
    def forward(ctx, x, w):
        rows = x.reshape(-1, x.shape[-1])
        codes, a = int8_range(rows.float())
        ternary_codes, s = ternary(w.float())
        codes, ternary_codes = codes.to(torch.int8), ternary_codes.to(torch.int8)
        ctx.save_for_backward(codes, a, ternary_codes, s)
        product = torch._int_mm(codes, ternary_codes.t())
        return (product * (s / a)).to(x.dtype).reshape(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, gradient):
        codes, a, ternary_codes, s = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        of_x = (rows @ (ternary_codes * s).to(rows.dtype)).reshape(*gradient.shape[:-1], -1)
        return of_x, rows.t() @ (codes / a).to(rows.dtype)


def whole_layer(x, weight, gain, bias=None):
    y = WholeLayer.apply(fused_norm(x, gain), weight)
    return y if bias is None else y + bias


# endregion


def torchao_layer(x, weight, gain, bias=None):
    """Torchao's layer; `weight` is a leaf as `leaf_of` makes it."""
    return F.linear(fused_norm(x, gain), weight, bias)


LINEAR = Way(None, same, same)
NORMED = Way(fused_norm, same, same)
NAIVE = Way(separate_norm, naive_activation, naive_weight)
NARROW = Way(separate_norm, narrow_activation, narrow_weight)
EXACT = Way(separate_norm, exact_activation, exact_weight)
FUNCTIONS = Way(fused_norm, ActivationFunction.apply, WeightFunction.apply)
ROUND = Way(fused_norm, round_activation, round_weight)
DETACHED = Way(fused_norm, detached_activation, detached_weight)

WAYS: dict[str, Callable[..., Tensor]] = {
    "linear": LINEAR,
    "linear, normed": NORMED,
    "naive": NAIVE,
    "naive, no up-casts": NARROW,
    "functions": FUNCTIONS,
    "whole layer": whole_layer,
    "round only": ROUND,
    "round only, scales detached": DETACHED,
    "torchao": torchao_layer,
}
"""By subject: L, L after the same norm, A, A-, B, B2, C, C' and D of the specification."""


def available() -> dict[str, Callable[..., Tensor]]:
    """Return `WAYS`, without torchao's where that package is not installed."""
    found = dict(WAYS)
    try:
        leaf_of("torchao", torch.zeros(16, 16))
    except ImportError:
        del found["torchao"]
    return found


class BitLinear(nn.Module):
    """A layer with the state that all ways share: weight, an optional bias, input_norm.weight."""

    def __init__(self, way: Way, width: int, out: int, *, bias: bool = False) -> None:
        """Start as `nn.Linear(width, out)` does."""
        super().__init__()
        self.way = way
        start = nn.Linear(width, out, bias=bias)
        self.weight, self.bias = start.weight, start.bias
        self.input_norm = nn.RMSNorm(width, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Return [..., out] for x of [..., width]."""
        return self.way(x, self.weight, self.input_norm.weight, self.bias)


def with_norm(way: Way, norm: Callable[[Tensor, Tensor], Tensor] | None) -> Way:
    """Return a way with another norm, so that two ways differ in nothing else."""
    return replace(way, norm=norm)
