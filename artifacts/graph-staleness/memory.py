"""Tensors as addresses, and as bits."""

from collections.abc import Sequence

import torch
from torch import Tensor

ALIGNMENT = 16
WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def addresses_of(tensors: Sequence[Tensor]) -> list[int]:
    """Return where each tensor's data starts."""
    return list(map(Tensor.data_ptr, tensors))


def bits(tensor: Tensor) -> Tensor:
    """Return a tensor's elements as whole numbers, so that NaN equals itself; two for 16 bytes."""
    if tensor.itemsize not in WHOLE:
        tensor = torch.view_as_real(tensor)
    return tensor.view(WHOLE[tensor.itemsize])


def differing(ours: Tensor, theirs: Tensor) -> int:
    """Count the elements whose bits differ."""
    unequal = bits(ours) != bits(theirs)
    return int((unequal if unequal.ndim == ours.ndim else unequal.any(-1)).sum())


def unwritten(tensor: Tensor) -> Tensor:
    """Allocate another tensor like this one, with all bits set: NaN, or -1."""
    made = torch.empty_like(tensor)
    bits(made).fill_(-1)
    return made
