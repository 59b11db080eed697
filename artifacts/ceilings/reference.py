"""What the ceiling kernels must return: rows or their sums, by plain indexing, exactly."""

import torch
from torch import Tensor


def wrap(total: Tensor) -> Tensor:
    """Reduce exact int64 sums to what 32-bit two's complement addition leaves of them."""
    return ((total + 2**31) % 2**32 - 2**31).to(torch.int32)


def rows_of(head: Tensor, index: Tensor, tail: Tensor | None = None) -> Tensor:
    """List the rows of `head` (joined by `tail`) that `index` names: int32 [entries, words]."""
    rows = head[index.long()]
    return rows if tail is None else torch.cat([rows, tail[index.long()]], dim=1)


def row_sums(head: Tensor, index: Tensor, tail: Tensor | None = None) -> Tensor:
    """Sum the words of each listed row, wrapped to 32 bits: int32 [entries]."""
    return wrap(rows_of(head, index, tail).sum(dim=1, dtype=torch.int64))


def table_sums(table: Tensor) -> Tensor:
    """Sum the words of each row of `table`, wrapped to 32 bits: int32 [rows]."""
    return wrap(table.sum(dim=1, dtype=torch.int64))


def product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply two matrices in float64, which is exact for int8: float64 [m, n]."""
    return left.double() @ right.double()
