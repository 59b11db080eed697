"""The reduction of split-K attention in float64: out = Σ 2^l · part / Σ 2^l over a head's splits."""

import math

import torch
from torch import Tensor


def weighed(partial: Tensor, partial_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Return float64 [T, 16, 512] and [T, 16] of parts [T, splits, 16, 512] and sums [T, splits, 16]."""
    natural = partial_lse.double() * math.log(2)
    weights = torch.softmax(natural, dim=1)
    output = (partial.double() * weights[..., None]).sum(1)
    return output, torch.logsumexp(natural, dim=1) / math.log(2)
