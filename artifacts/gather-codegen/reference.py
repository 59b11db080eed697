"""What the study kernel holds where it is stopped, and sums of rows, both in float64.

With the rows of one split of a token's list (those that are not -1), the scores in base 2 and their
maximum m, a part is, for every head and column,

    load      Σ kc[column] + Σ kp over all of its 64 numbers     and -inf
    scores    Σ scores                                           and -inf
    softmax   Σ 2^(scores - m)                                   and m
    output    Σ 2^(scores - m) kc[column] / Σ 2^(scores - m)     and m + log2 Σ 2^(scores - m)
"""

import math

import torch
from shared.dsa import CKV, HEADS, LOG2_E
from torch import Tensor

TOKENS_AT_ONCE = 16


def stopped_parts(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    stop: str,
    splits: int,
) -> tuple[Tensor, Tensor]:
    """Return float64 [T, splits, 16, 512] and [T, splits, 16]; every split must list some row."""
    found = [
        _parts(
            (q_nope[first:][:TOKENS_AT_ONCE], q_pe[first:][:TOKENS_AT_ONCE], ckv_cache, kpe_cache),
            sparse_indices[first:][:TOKENS_AT_ONCE],
            sm_scale,
            stop,
            splits,
        )
        for first in range(0, len(sparse_indices), TOKENS_AT_ONCE)
    ]
    values, sums = zip(*found, strict=True)
    return torch.cat(values), torch.cat(sums)


def _parts(
    tensors: tuple[Tensor, ...], indices: Tensor, sm_scale: float, stop: str, splits: int
) -> tuple[Tensor, Tensor]:
    q_nope, q_pe, ckv, kpe = tensors
    tokens = len(indices)
    listed = indices.view(tokens, splits, -1).long()
    valid = listed >= 0
    kc = ckv.flatten(0, 1)[listed.clamp(min=0)].double() * valid[..., None]
    kp = kpe.flatten(0, 1)[listed.clamp(min=0)].double() * valid[..., None]
    nothing = torch.full((tokens, splits, HEADS), -math.inf, dtype=torch.float64, device=kc.device)
    if stop == "load":
        sums = kc.sum(2) + kp.sum((2, 3))[..., None]
        return sums[:, :, None, :].expand(-1, -1, HEADS, -1), nothing
    queries = (q_nope[:, None].double(), q_pe[:, None].double())
    scores = (queries[0] @ kc.mT + queries[1] @ kp.mT) * (sm_scale * LOG2_E)
    if stop == "scores":
        return _wide((scores * valid[:, :, None, :]).sum(-1)), nothing
    scores = scores.masked_fill(~valid[:, :, None, :], -math.inf)
    most = scores.amax(-1)
    weights = torch.exp2(scores - most[..., None])
    total = weights.sum(-1)
    if stop == "softmax":
        return _wide(total), most
    return weights @ kc / total[..., None], most + torch.log2(total)


def _wide(sums: Tensor) -> Tensor:
    return sums[..., None].expand(*sums.shape, CKV)


def sums_of_rows(rows: Tensor, indices: Tensor) -> Tensor:
    """Return float64 [lists, columns]: the sum of the rows of each list."""
    return torch.cat([rows[part.long()].double().sum(1) for part in indices.split(256)])
