"""What is right: the definition of the operation, in float64, and the rows of a table that a list names."""

from shared.dsa import reference as attention
from torch import Tensor

__all__ = ["attention", "listed_rows"]


def listed_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Return the listed rows of `table`, and zeros where `rows` is -1: [n, 512], of the table's dtype."""
    found = table[rows.long().clamp(min=0)]
    return found.masked_fill((rows < 0)[:, None], 0.0)
