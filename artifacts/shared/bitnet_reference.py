"""What a BitNet b1.58 layer must give: exact integer products of the codes, scaled in float64.

The codes are those of the input after its norm *as the layers normalise it*, rounded to their dtype: an
error of the norm is none of a quantiser's.
"""

import torch
from shared.bitnet_variants import EPS, HIGHEST, LOWEST, fused_norm


def codes_of(x):
    """Return the int8 codes of each row of x as float64, and its factor, [..., 1]."""
    wide = x.double()
    a = HIGHEST / wide.abs().amax(-1, keepdim=True).clamp(min=EPS)
    return (wide * a).round().clamp(LOWEST, HIGHEST), a


def ternary_of(weight):
    """Return the codes of a weight as float64, and its scale."""
    wide = weight.double()
    s = wide.abs().mean().clamp(min=EPS)
    return (wide / s).round().clamp(-1, 1), s


def layer(x, weight, gain, every=1):
    """Return y in float64, of every so manieth row of x: [T, K], [N, K], [K] -> [T / every, N]."""
    codes, a = codes_of(fused_norm(x, gain)[::every])
    ternary, s = ternary_of(weight)
    return codes @ ternary.T * (s / a)


def step(x, weight, gain, gradient, every=1):
    """Return y and the gradients of x and of the weight in float64, each of every so manieth row.

    The gradients are those of the straight-through rule, identity through both quantisers.
    """
    codes, a = codes_of(fused_norm(x, gain))
    ternary, s = ternary_of(weight)
    y = codes[::every] @ ternary.T * (s / a[::every])
    of_normed = gradient[::every].double() @ (ternary * s)
    of_weight = gradient.double()[:, ::every].T @ (codes / a)
    return y, through_norm(x[::every], gain, of_normed), of_weight


def through_norm(x, gain, of_normed):
    """Return the gradient of x, in float64, for that of its RMSNorm."""
    with torch.enable_grad():
        leaf = x.double().requires_grad_()
        y = leaf * torch.rsqrt(leaf.pow(2).mean(-1, keepdim=True) + EPS) * gain.double()
        return torch.autograd.grad(y, leaf, of_normed)[0]
