"""The layer in float64: forward, and straight-through gradients on the same codes."""

import torch
from torch import Tensor

EPSILON = 1e-5


def normalised(x: Tensor, norm: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return the RMSNorm of x [T, K] in float64."""
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * norm.double()


def activation_codes(x: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
    """Return codes and the scale of each row, float64 [T, K] and [T, 1]: x_q = codes · scale.

    The codes are those of float32, as the operation is defined; a code at the edge of rounding may
    differ by one from a kernel that adds a row in another order.
    """
    x, norm = x.float(), norm.float()
    n = x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * norm
    most = n.abs().amax(-1, keepdim=True).clamp(min=EPSILON)
    step = torch.full_like(most, 127) / most  # `127 / most` would multiply by a rounded 1 / most
    codes = (n * step).round().clamp(-128, 127)
    return codes.double(), most.double() / 127


def row_scales(x: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
    """Return of each row the largest of its normalised values and 1 / rms, float64 [T]."""
    x = x.double()
    root = (x.square().mean(-1) + EPSILON).rsqrt()
    return (x * root[:, None] * norm.double()).abs().amax(-1).clamp(min=EPSILON), root


def weight_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return ternary codes float64 [N, K] and their scale float64."""
    scale = weight.double().abs().mean().float().clamp(min=EPSILON)
    return (weight.float() / scale).round().clamp(-1, 1).double(), scale.double()


def forward(x: Tensor, weight: Tensor, norm: Tensor) -> Tensor:
    """Return y [T, N] in float64."""
    codes, step = activation_codes(x, norm)
    ternary, scale = weight_codes(weight)
    return exact_product(codes, ternary.T) * (step * scale)


def step(x: Tensor, weight: Tensor, norm: Tensor, upstream: Tensor) -> tuple[Tensor, ...]:
    """Return y, dx, dnorm and dW in float64 for the gradient `upstream` [T, N] of y."""
    codes, row = activation_codes(x, norm)
    ternary, scale = weight_codes(weight)
    given = upstream.double()
    y = exact_product(codes, ternary.T) * (row * scale)
    through = given @ ternary * scale
    dweight = given.T @ (codes * row)
    return y, *norm_gradients(through, x, norm), dweight


def norm_gradients(through: Tensor, x: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
    """Return dx and dnorm of a gradient `through` the normalised activations."""
    x, norm = x.double(), norm.double()
    root = (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    unit, inner = x * root, through * norm
    return root * (inner - unit * (inner * unit).mean(-1, keepdim=True)), (through * unit).sum(0)


def exact_product(codes: Tensor, other: Tensor) -> Tensor:
    """Multiply whole numbers that are small: exact in float64."""
    return codes @ other


def plain_step(x: Tensor, weight: Tensor, norm: Tensor, upstream: Tensor) -> tuple[Tensor, ...]:
    """Return y, dx, dnorm and dW of the same layer without quantisers, in float64."""
    n, given = normalised(x, norm), upstream.double()
    through = given @ weight.double()
    return n @ weight.double().T, *norm_gradients(through, x, norm), given.T @ n


def round_only_step(
    x: Tensor, weight: Tensor, norm: Tensor, upstream: Tensor
) -> tuple[Tensor, ...]:
    """Return y, dx, dnorm and dW in float64 where only the rounding is straight through."""
    leaves = [each.detach().double().requires_grad_() for each in (x, norm, weight)]
    n = normalised(leaves[0], leaves[1])
    a = 127 / n.abs().amax(-1, keepdim=True).clamp(min=EPSILON)
    scale = leaves[2].abs().mean().clamp(min=EPSILON)
    x_q = rounded(n * a).clamp(-128, 127) / a
    y = x_q @ (rounded(leaves[2] / scale).clamp(-1, 1) * scale).T
    return y.detach(), *torch.autograd.grad(y, leaves, upstream.double())


def rounded(values: Tensor) -> Tensor:
    """Round, with the gradient of doing nothing."""
    return values + (values.round() - values).detach()
