"""What is right: the definition of the operation, in float64, and the sums of rows that a gather gives."""

import torch
from shared.dsa import reference as attention
from torch import Tensor

__all__ = ["attention", "row_sums"]


def row_sums(ckv_cache: Tensor, kpe_cache: Tensor, sparse_indices: Tensor) -> Tensor:
    """Return the wrapping 32-bit sum of each listed row's words, and 0 for a padding: int32 [T, width]."""
    rows = sparse_indices.long().clamp(min=0)
    total = torch.zeros_like(rows)
    for cache in (ckv_cache, kpe_cache):
        words = cache.flatten(0, 1).view(torch.int32).sum(dim=1, dtype=torch.int64)
        total += words[rows]
    total = torch.where(sparse_indices >= 0, total, 0)
    return ((total + 2**31) % 2**32 - 2**31).int()
