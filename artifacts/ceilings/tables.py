"""What the memory experiments read: random tables, and lists of the rows to fetch from them."""

from functools import partial

import torch
from kernel import gather
from torch import Tensor

CACHE_ROWS = 8462 * 64  # the pages of the sparse-attention workloads, 64 rows each
HEAD_WORDS, TAIL_WORDS = 256, 32  # 1024 + 128 bytes a row
ROW_BYTES = 4 * (HEAD_WORDS + TAIL_WORDS)


def cuda(run, plans, **options) -> dict:
    """Make the CUDA subjects of `plans`, where there is a GPU to run them."""
    return {name: partial(gather, plan, **options) for name, plan in plans.items() if run.on_gpu}


def words(run, seed: int, *shape: int) -> Tensor:
    """Draw random int32, all 32 bits of each."""
    generator = torch.Generator(run.device).manual_seed(seed)
    return torch.randint(
        -(2**31), 2**31, shape, dtype=torch.int32, device=run.device, generator=generator
    )


def distinct(run, seed: int, rows: int, entries: int) -> Tensor:
    """Draw `entries` of the numbers below `rows`, in random order, none twice: int32."""
    generator = torch.Generator(run.device).manual_seed(seed + 1)
    return torch.randperm(rows, device=run.device, generator=generator)[:entries].int()


def caches(run, seed: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Make two tables of row heads and tails, and 2048 distinct rows a token to fetch from both.

    Returns int32 heads [rows, 256], int32 numbers of rows [entries], int32 tails [rows, 32].
    """
    rows = run.sizes(full=[CACHE_ROWS], tiny=[4096])[0]
    entries = tokens * rows_per_token(run)
    index = distinct(run, seed, rows, entries)
    return words(run, seed, rows, HEAD_WORDS), index, words(run, seed + 2, rows, TAIL_WORDS)


def rows_per_token(run) -> int:
    """Return how many rows a token fetches."""
    return run.sizes(full=[2048], tiny=[64])[0]
