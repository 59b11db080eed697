"""Sparse attention decode by the study kernel, with an early exit for blocks that hold only padding.

What differs from shared/splitk.py is EXIT, in one place each; formula and ownership are the same, but
that splits are always weighed by a second kernel, which does not read a split without rows.

| exit | what is left out |
| --- | --- |
| none | nothing: a block of padding is loaded as zeros and multiplied |
| branch | the body of the loop, loads included, where the block holds no row |
| branch after loads | the mathematics, where the block holds no row; the loads stay outside the branch |
| bound | the blocks after the last row of the split: the loop ends there |
| late bound | as bound, but the queries are loaded while the list is on its way |
| return | the whole split, if it holds no row: the program writes its lse, -inf, and is done |
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, LOG2_E, check
from shared.splitk import OPERAND, SLICE
from torch import Tensor

EXITS = ("none", "branch", "branch after loads", "return", "bound", "late bound")
NONE, BRANCH, AFTER_LOADS, RETURN, BOUND, LATE_BOUND = (tl.constexpr(each) for each in range(6))
INTERPRETED = triton.knobs.runtime.interpret


@dataclass(frozen=True)
class Plan:
    """One of `EXITS`, and how the work is cut: `block` places at a time, in `stages` stages of
    Triton's pipeline (1: none); `splits` programs a token, of `warps` warps.
    """

    exit: str = "none"
    block: int = 64
    stages: int = 3
    splits: int = 8
    warps: int = 4


@triton.jit
def _before(listed, step, last, EXIT: tl.constexpr, INTERPRETED: tl.constexpr):
    """Stand in for the bound of the loop in the interpreter, whose loops know theirs beforehand."""
    if EXIT >= BOUND and INTERPRETED:
        listed = tl.where(step < last, listed, -1)
    return listed


@triton.jit
def _rows(ckv, kpe, listed, columns, tails, CKV: tl.constexpr, KPE: tl.constexpr):
    """Load the rows of one block; a padding is zeros."""
    valid = listed >= 0
    row = tl.where(valid, listed, 0).to(tl.int64)
    kc = tl.load(ckv + row[:, None] * CKV + columns[None, :], valid[:, None], 0.0)
    kp = tl.load(kpe + row[:, None] * KPE + tails[None, :], valid[:, None], 0.0)
    return kc, kp


@triton.jit
def _attend(qn, qp, kc, kp, valid, most, total, found, scale):
    """Add one block to the running maximum, sum and output."""
    kc, kp = kc.to(qn.dtype), kp.to(qn.dtype)
    logits = tl.dot(qp, kp.T, tl.dot(qn, kc.T)) * scale
    logits = tl.where(valid[None, :], logits, float("-inf"))
    higher = tl.maximum(most, tl.max(logits, 1))
    base = tl.where(higher == float("-inf"), 0.0, higher)
    weights = tl.exp2(logits - base[:, None])
    shrink = tl.exp2(most - base)
    total = total * shrink + tl.sum(weights, 1)
    found = tl.dot(weights.to(kc.dtype), kc, found * shrink[:, None])
    return higher, total, found


@triton.jit
def _split(
    q_nope, q_pe, ckv, kpe, indices, partial, partial_lse, scale,
    EXIT: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr, HEADS: tl.constexpr, CKV: tl.constexpr, KPE: tl.constexpr,
    OPERAND: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    heads = tl.arange(0, HEADS)
    columns = tl.arange(0, CKV)
    tails = tl.arange(0, KPE)
    slot = (token * SPLITS + split) * HEADS + heads
    SHARE: tl.constexpr = WIDTH // SPLITS
    mine = indices + token * WIDTH + split * SHARE
    CUT: tl.constexpr = EXIT >= BOUND and not INTERPRETED
    # region: exits before the loop
    last = SHARE
    if EXIT >= RETURN:
        places = tl.arange(0, SHARE)
        part = tl.load(mine + places)
        if EXIT != LATE_BOUND:
            last = tl.max(tl.where(part >= 0, places + 1, 0), 0)
    if EXIT == RETURN and last == 0:
        tl.store(partial_lse + slot, tl.full((HEADS,), float("-inf"), tl.float32))
        return
    head_rows = token * HEADS + heads
    qn = tl.load(q_nope + head_rows[:, None] * CKV + columns[None, :]).to(OPERAND)
    qp = tl.load(q_pe + head_rows[:, None] * KPE + tails[None, :]).to(OPERAND)
    if EXIT == LATE_BOUND:
        last = tl.max(tl.where(part >= 0, places + 1, 0), 0)
    # endregion
    most = tl.full((HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    found = tl.zeros((HEADS, CKV), tl.float32)
    # region: exits inside the loop
    for step in tl.range(0, last if CUT else SHARE, BLOCK, num_stages=STAGES):
        listed = tl.load(mine + step + tl.arange(0, BLOCK))
        listed = _before(listed, step, last, EXIT, INTERPRETED)
        valid = listed >= 0
        if EXIT == BRANCH:
            if tl.max(listed, 0) >= 0:
                kc, kp = _rows(ckv, kpe, listed, columns, tails, CKV, KPE)
                most, total, found = _attend(qn, qp, kc, kp, valid, most, total, found, scale)
        else:
            kc, kp = _rows(ckv, kpe, listed, columns, tails, CKV, KPE)
            if EXIT == AFTER_LOADS:
                if tl.max(listed, 0) >= 0:
                    most, total, found = _attend(qn, qp, kc, kp, valid, most, total, found, scale)
            else:
                most, total, found = _attend(qn, qp, kc, kp, valid, most, total, found, scale)
    # endregion
    safe = tl.where(total > 0.0, total, 1.0)
    tl.store(partial + slot[:, None] * CKV + columns[None, :], found / safe[:, None])
    tl.store(partial_lse + slot, most + tl.log2(safe))


@triton.jit
def _reduce(
    partial, partial_lse, output, lse,
    SPLITS: tl.constexpr, HEADS: tl.constexpr, CKV: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """One program owns SLICE columns of one head of one token; weighs the splits that hold a row."""
    pair = tl.program_id(0).to(tl.int64)
    token, head = pair // HEADS, pair % HEADS
    columns = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    slots = (token * SPLITS + tl.arange(0, SPLITS)) * HEADS + head
    sums = tl.load(partial_lse + slots)
    most = tl.max(sums, 0)
    weights = tl.exp2(sums - tl.where(most == float("-inf"), 0.0, most))
    total = tl.sum(weights, 0)
    safe = tl.where(total > 0.0, total, 1.0)
    some = sums > float("-inf")
    parts = tl.load(partial + slots[:, None] * CKV + columns[None, :], some[:, None], 0.0)
    answer = tl.sum(parts * weights[:, None], 0) / safe
    tl.store(output + pair * CKV + columns, answer.to(tl.bfloat16))
    tl.store(lse + pair, most + tl.log2(safe))


def attend(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan = Plan(),
    compiled: list | None = None,
) -> tuple[Tensor, Tensor]:
    """Return output bf16 [T, 16, 512] and lse fp32 [T, 16]; ValueError for what it cannot take.

    The compiled kernel of the splits is put into `compiled`, where it is given.
    """
    check(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale=sm_scale)
    tokens, width = sparse_indices.shape
    check_plan(plan, width)
    options = {"device": q_nope.device, "dtype": torch.float32}
    partial = torch.empty((tokens, plan.splits, HEADS, CKV), **options)
    partial_lse = torch.empty((tokens, plan.splits, HEADS), **options)
    output, lse = torch.empty_like(q_nope), torch.empty((tokens, HEADS), **options)
    kernel = _split[tokens, plan.splits](
        q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, partial, partial_lse,
        sm_scale * LOG2_E, EXITS.index(plan.exit), width, plan.splits, plan.block, plan.stages,
        HEADS, CKV, KPE, OPERAND, INTERPRETED, num_warps=plan.warps,
    )  # fmt: skip
    if compiled is not None:
        compiled.append(kernel)
    _reduce[tokens * HEADS, CKV // SLICE](
        partial, partial_lse, output, lse, plan.splits, HEADS, CKV, SLICE, num_warps=4
    )
    return output, lse


def check_plan(plan: Plan, width: int) -> None:
    """Raise ValueError unless `plan` names an exit and cuts a list of `width` places into blocks."""
    if plan.exit not in EXITS:
        raise ValueError(f"exit={plan.exit!r}: use one of {', '.join(EXITS)}")
    numbers = {"block": plan.block, "splits": plan.splits, "warps": plan.warps}
    for name, value in numbers.items():
        if value < 1 or value & (value - 1):
            raise ValueError(f"{name}={value}: use a power of two")
    if plan.block < 16:
        raise ValueError(f"block={plan.block}: a matrix instruction needs 16 rows or more")
    if width % (plan.splits * plan.block):
        problem = f"splits={plan.splits} of block={plan.block} do not divide a list of {width}"
        raise ValueError(f"{problem}: use up to {width // plan.block} splits")
