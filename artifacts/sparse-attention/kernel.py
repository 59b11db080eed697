"""What only this story needs: the kernel before ours, to be timed, and the gather that is the ceiling.

The kernel itself, `decode`, lies in `artifacts/shared/dsa_decode`, for others measure it, too.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import torch
from shared.cuda_module import Arguments, function, launch
from shared.dsa import HEADS, ROW_BYTES, WIDTH
from shared.dsa_decode.attend import check_device
from shared.dsa_decode.plan import Plan
from torch import Tensor

EARLIER = Path(__file__).parent / "mma.cu"
GATHER = Path(__file__).parent / "gather.cu"


@dataclass(frozen=True)
class EarlierPlan(Plan):
    """How the work is cut for `mma.cu`, the design before: `mma.cu` says what each number means."""

    tile: int = 16
    stages: int = 5
    resident: int = 2
    warps: int = 4
    bulk: bool = False
    compact: bool = True
    last: bool = True
    each: bool = False

    source = EARLIER

    @property
    def threads(self) -> int:
        """Those that compute, and a warp that fetches."""
        return 32 * self.warps + 32

    @property
    def second(self) -> bool:
        """Whether another kernel weighs the partial outputs."""
        return self.groups > 1 and not self.last

    @functools.cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block: ring, logits, sums, rows, counters, barriers."""
        scores = 2 * (self.warps * 8 // self.tile) * HEADS * (self.tile + 8) * 4
        sums = self.cluster * HEADS * 8
        small = sums + WIDTH // self.splits * 4 + self.warps * 4 + 16 + self.stages * 16
        pitch = ROW_BYTES + 16
        return -(-(self.stages * self.tile * pitch + scores + small) // 128) * 128


def check_gather(ckv_cache: Tensor, kpe_cache: Tensor, sparse_indices: Tensor) -> None:
    """Raise ValueError unless `gather` can take these tensors."""
    rules = [("ckv_cache", ckv_cache, torch.bfloat16), ("kpe_cache", kpe_cache, torch.bfloat16)]
    for name, tensor, dtype in [*rules, ("sparse_indices", sparse_indices, torch.int32)]:
        if tensor.dtype != dtype or not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous {dtype}, not {tensor.dtype}")


def gather(ckv_cache: Tensor, kpe_cache: Tensor, sparse_indices: Tensor) -> Tensor:
    """Fetch the listed rows; return the wrapping sum of each one's 32-bit words, int32 [T, width].

    Raises ValueError for other dtypes or strides; a row number is not checked.
    """
    check_gather(ckv_cache, kpe_cache, sparse_indices)
    check_device(ckv_cache.device)
    sums = torch.empty_like(sparse_indices)
    entries = sparse_indices.numel()
    if entries:
        arguments = Arguments(ckv_cache, kpe_cache, sparse_indices, entries, sums)
        launch(function(GATHER, "gather"), (-(-entries // 8), 1), 64, 0, arguments)
    return sums
