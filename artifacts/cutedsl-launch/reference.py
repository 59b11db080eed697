"""What is right: the parts of a split-K attention, weighed in float64."""

import torch
from torch import Tensor


def weighed(given: Tensor, given_sums: Tensor) -> Tensor:
    """Return float64 [T, 16, 512]: zeros where no split has a row.

    `given` is float32 [T, splits, 16, 512], not divided; `given_sums` [T, splits, 2, 16] are
    maxima (base 2) and sums.
    """
    most, total = (each.double() for each in given_sums.unbind(dim=2))
    base = most.amax(dim=1, keepdim=True)
    base = torch.where(base.isinf(), 0.0, base)
    weights = torch.exp2(most - base)
    sums = (weights * total).sum(dim=1)[..., None]
    found = (weights[..., None] * given.double()).sum(dim=1)
    return torch.where(sums > 0, found / sums.clamp(min=torch.finfo(torch.float64).tiny), 0.0)
