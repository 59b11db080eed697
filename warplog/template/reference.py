"""What the norm is, slowly and in float64."""

import torch
from kernel import EPSILON


def rms_norm_of(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Norm of the rows of `x` `[rows, length]` times `weight` `[length]`, in float64."""
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + EPSILON).sqrt() * weight.double()
