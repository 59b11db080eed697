"""The study kernel with its arithmetic changed: another exponential, or without the 64-wide part of a key.

A copy of `_split` of shared/splitk.py without its stops; one program owns one split of one token. EXP is
how a weight comes from a score: 0 as 2^x by the special function unit, 1 as e^x, 2 as 2^x by a polynomial
on the multiply-add units,

    2^x = 2^n · p(x - n),  n = floor(x),  p a cubic with p(0) = 1 and p(1) = 2   (fitted, error about 1e-4)

TAIL says what becomes of the 64-wide part of the keys: 0, it is neither loaded nor multiplied; 1, all as it
should be; 2, it is loaded and multiplied, but from row mod 64, so that hardly any of it comes from memory.
"""

import torch
import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, LOG2_E, check
from shared.splitk import OPERAND, SLICE, Plan, _reduce, _split, check_plan
from torch import Tensor

EXPONENTIALS = ("exp2", "exp", "polynomial")
TAILS = ("none", "whole", "near")


# region: polynomial
@triton.jit
def _exp2_polynomial(x):
    """Return 2^x for x of 0 and less, by multiply-adds; 0 below 2^-126."""
    clamped = tl.maximum(x, -126.0)
    whole = tl.floor(clamped)
    part = clamped - whole
    curve = ((0.07826 * part + 0.22632) * part + 0.69542) * part + 1.0
    power = ((whole.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return tl.where(x < -126.0, 0.0, curve * power)


# endregion


@triton.jit
def _exponential(x, EXP: tl.constexpr):
    if EXP == 0:
        found = tl.exp2(x)
    elif EXP == 1:
        found = tl.exp(x)
    else:
        found = _exp2_polynomial(x)
    return found


@triton.jit
def _split_arithmetic(
    q_nope, q_pe, ckv, kpe, indices, partial, partial_lse, scale,
    WIDTH: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
    EXP: tl.constexpr, TAIL: tl.constexpr,
    HEADS: tl.constexpr, CKV: tl.constexpr, KPE: tl.constexpr, OPERAND: tl.constexpr,
    LOG2_E: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    heads = tl.arange(0, HEADS)
    columns = tl.arange(0, CKV)
    tails = tl.arange(0, KPE)
    head_rows = token * HEADS + heads
    qn = tl.load(q_nope + head_rows[:, None] * CKV + columns[None, :]).to(OPERAND)
    if TAIL:
        qp = tl.load(q_pe + head_rows[:, None] * KPE + tails[None, :]).to(OPERAND)
    most = tl.full((HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    found = tl.zeros((HEADS, CKV), tl.float32)
    SHARE: tl.constexpr = WIDTH // SPLITS
    for step in tl.range(0, SHARE, BLOCK, num_stages=STAGES):
        places = split * SHARE + step + tl.arange(0, BLOCK)
        listed = tl.load(indices + token * WIDTH + places)
        valid = listed >= 0
        row = tl.where(valid, listed, 0).to(tl.int64)
        kc = tl.load(ckv + row[:, None] * CKV + columns[None, :], valid[:, None], 0.0).to(OPERAND)
        tail_row = row & 63 if TAIL == 2 else row
        if TAIL:
            kp = tl.load(kpe + tail_row[:, None] * KPE + tails[None, :], valid[:, None], 0.0)
            kp = kp.to(OPERAND)
        logits = tl.dot(qn, kc.T)
        if TAIL:
            logits = tl.dot(qp, kp.T, logits)
        logits = tl.where(valid[None, :], logits * scale, float("-inf"))
        higher = tl.maximum(most, tl.max(logits, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weights = _exponential(logits - base[:, None], EXP)
        shrink = _exponential(most - base, EXP)
        total = total * shrink + tl.sum(weights, 1)
        most = higher
        found = tl.dot(weights.to(kc.dtype), kc, found * shrink[:, None])
    safe = tl.where(total > 0.0, total, 1.0)
    if EXP == 1:
        most *= LOG2_E
    slot = (token * SPLITS + split) * HEADS + heads
    tl.store(partial + slot[:, None] * CKV + columns[None, :], found / safe[:, None])
    tl.store(partial_lse + slot, most + tl.log2(safe))


def attend(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan,
    exponential: str = "exp2",
    tail: str = "whole",
) -> tuple[Tensor, Tensor]:
    """Return output bf16 [T, 16, 512] and lse fp32 [T, 16]; ValueError for what it cannot take."""
    check(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale=sm_scale)
    tokens, width = sparse_indices.shape
    check_plan(plan, width)
    options = {"device": q_nope.device, "dtype": torch.float32}
    partial = torch.empty((tokens, plan.splits, HEADS, CKV), **options)
    partial_lse = torch.empty((tokens, plan.splits, HEADS), **options)
    output, lse = torch.empty_like(q_nope), torch.empty((tokens, HEADS), **options)
    kind = EXPONENTIALS.index(exponential)
    _split_arithmetic[tokens, plan.splits](
        q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, partial, partial_lse,
        sm_scale if exponential == "exp" else sm_scale * LOG2_E,
        width, plan.splits, plan.block, plan.stages, kind, TAILS.index(tail),
        HEADS, CKV, KPE, OPERAND, LOG2_E, num_warps=plan.warps,
    )  # fmt: skip
    _reduce[tokens * HEADS, CKV // SLICE](
        partial, partial_lse, output, lse, plan.splits, HEADS, CKV, SLICE, num_warps=4
    )
    return output, lse


def split_alone(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan,
) -> tuple[Tensor, Tensor]:
    """Start the study kernel without its reduction, for counters: fp32 [T, splits, 16, 512] and
    [T, splits, 16]. `plan` has two splits or more.
    """
    check(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale=sm_scale)
    tokens, width = sparse_indices.shape
    check_plan(plan, width)
    options = {"device": q_nope.device, "dtype": torch.float32}
    partial = torch.empty((tokens, plan.splits, HEADS, CKV), **options)
    partial_lse = torch.empty((tokens, plan.splits, HEADS), **options)
    last, unused = False, partial_lse  # with these constants no program looks behind the last three
    _split[tokens, plan.splits](
        q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices,
        partial, partial_lse, q_nope, unused, unused, sm_scale * LOG2_E,
        width, plan.splits, plan.block, plan.stages, plan.masks, last, 3,
        HEADS, CKV, KPE, OPERAND, num_warps=plan.warps,
    )  # fmt: skip
    return partial, partial_lse


def weigh(partial: Tensor, partial_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Start the study kernel's reduction alone: fp32 [T, splits, 16, 512] and [T, splits, 16] to bf16
    [T, 16, 512] and fp32 [T, 16].
    """
    tokens, splits = partial.shape[:2]
    output = partial.new_empty((tokens, HEADS, CKV), dtype=torch.bfloat16)
    lse = partial.new_empty((tokens, HEADS))
    _reduce[tokens * HEADS, CKV // SLICE](
        partial, partial_lse, output, lse, splits, HEADS, CKV, SLICE, num_warps=4
    )
    return output, lse
