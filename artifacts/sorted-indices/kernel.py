"""Sparse attention decode by the study kernel, with a loop that ends at the last row of the split.

What differs from shared/splitk.py is that end alone; formula and ownership are the same. A list whose
padding stands last is cut short by it, one whose padding stands first is not.
"""

import torch
import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, LOG2_E, check
from shared.splitk import OPERAND, SLICE, Plan, _reduce, check_plan
from torch import Tensor

INTERPRETED = triton.knobs.runtime.interpret


@triton.jit
def _split(
    q_nope, q_pe, ckv, kpe, indices, partial, partial_lse, scale,
    WIDTH: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
    HEADS: tl.constexpr, CKV: tl.constexpr, KPE: tl.constexpr,
    OPERAND: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    heads = tl.arange(0, HEADS)
    columns = tl.arange(0, CKV)
    tails = tl.arange(0, KPE)
    head_rows = token * HEADS + heads
    qn = tl.load(q_nope + head_rows[:, None] * CKV + columns[None, :]).to(OPERAND)
    qp = tl.load(q_pe + head_rows[:, None] * KPE + tails[None, :]).to(OPERAND)
    most = tl.full((HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    found = tl.zeros((HEADS, CKV), tl.float32)
    SHARE: tl.constexpr = WIDTH // SPLITS
    # region: end
    mine = indices + token * WIDTH + split * SHARE
    places = tl.arange(0, SHARE)
    end = tl.max(tl.where(tl.load(mine + places) >= 0, places + 1, 0), 0)
    for step in tl.range(0, SHARE if INTERPRETED else end, BLOCK, num_stages=STAGES):
        listed = tl.load(mine + step + tl.arange(0, BLOCK))
        # endregion
        if INTERPRETED:  # whose loops know their end beforehand
            listed = tl.where(step < end, listed, -1)
        valid = listed >= 0
        row = tl.where(valid, listed, 0).to(tl.int64)
        kc = tl.load(ckv + row[:, None] * CKV + columns[None, :], valid[:, None], 0.0).to(OPERAND)
        kp = tl.load(kpe + row[:, None] * KPE + tails[None, :], valid[:, None], 0.0).to(OPERAND)
        logits = tl.dot(qp, kp.T, tl.dot(qn, kc.T)) * scale
        logits = tl.where(valid[None, :], logits, float("-inf"))
        higher = tl.maximum(most, tl.max(logits, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(logits - base[:, None])
        shrink = tl.exp2(most - base)
        total = total * shrink + tl.sum(weights, 1)
        most = higher
        found = tl.dot(weights.to(kc.dtype), kc, found * shrink[:, None])
    safe = tl.where(total > 0.0, total, 1.0)
    slot = (token * SPLITS + split) * HEADS + heads
    tl.store(partial + slot[:, None] * CKV + columns[None, :], found / safe[:, None])
    tl.store(partial_lse + slot, most + tl.log2(safe))


def attend_to_last_row(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan = Plan(),  # noqa: B008 - frozen
) -> tuple[Tensor, Tensor]:
    """Return output bf16 [T, 16, 512] and lse fp32 [T, 16]; ValueError for what it cannot take.

    Of `plan`, block, stages, splits (2 or more) and warps count.
    """
    check(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale=sm_scale)
    tokens, width = sparse_indices.shape
    check_plan(plan, width)
    if plan.splits < 2:
        raise ValueError(f"splits={plan.splits}: use 2 or more")
    options = {"device": q_nope.device, "dtype": torch.float32}
    partial = torch.empty((tokens, plan.splits, HEADS, CKV), **options)
    partial_lse = torch.empty((tokens, plan.splits, HEADS), **options)
    output, lse = torch.empty_like(q_nope), torch.empty((tokens, HEADS), **options)
    _split[tokens, plan.splits](
        q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, partial, partial_lse,
        sm_scale * LOG2_E, width, plan.splits, plan.block, plan.stages,
        HEADS, CKV, KPE, OPERAND, INTERPRETED, num_warps=plan.warps,
    )  # fmt: skip
    _reduce[tokens * HEADS, CKV // SLICE](
        partial, partial_lse, output, lse, plan.splits, HEADS, CKV, SLICE, num_warps=4
    )
    return output, lse
