"""What a column sum and a stable top-k are, slowly and in plain terms."""

from collections.abc import Sequence

import numpy as np
import torch


def column_sum(matrices: torch.Tensor) -> torch.Tensor:
    """Sum `[..., rows, columns]` over rows in float64."""
    return matrices.double().sum(-2)


def top_indices(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Indices `[..., k]` of the k first in descending order; of equal scores, the lower index first.

    NaN of any sign and payload comes first, all NaN are equal, and -0 equals +0: so does
    `torch.sort` on a CPU. Exact.
    """
    values = scores.detach().cpu().to(torch.float64).numpy()
    missing = np.isnan(values)
    falling = np.where(missing, 0.0, -values)
    index = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    order = np.lexsort((index, falling, ~missing), axis=-1)[..., :k]
    return torch.from_numpy(order.copy()).to(scores.device)


def top_of_rows(flat: torch.Tensor, lengths: Sequence[int], k: int) -> torch.Tensor:
    """Indices `[batch, k]`: `top_indices` of each of the ragged rows that `flat` holds."""
    return torch.stack([top_indices(row, k) for row in flat.split(list(lengths))])
