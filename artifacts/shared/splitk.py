"""Sparse attention decode by a plain split-K Triton kernel: the one that the study entries take apart.

A program owns one split of one token's list: its 16 heads, and `width / splits` places of the list,
BLOCK at a time. It keeps a running maximum and sum a head (base 2), and 16 x 512 outputs in float32.
What it found goes to `partial` [T, splits, 16, 512] and `partial_lse` [T, splits, 16], both float32;
then a second kernel (REDUCTION "kernel"), or the program of a token that comes last ("last"), weighs
the splits by 2^lse and writes the output. One split needs no reduction.

    logits = (q_nope · Kcᵀ + q_pe · Kpᵀ) · sm_scale · log2(e)      shared/dsa.py has the definition
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, LOG2_E, check
from torch import Tensor

REDUCTIONS = ("kernel", "last")
STOPS = ("load", "scores", "softmax", "output")


@dataclass(frozen=True)
class Plan:
    """How the work is cut and compiled.

    `block` places of the list at a time, in `stages` stages of Triton's pipeline; `splits` programs a
    token; `warps` a program; `masks`: load no row for a padding (True), or row 0 (False);
    `stop`: leave out what comes after loading, scores or softmax, for a time that is not an answer.
    """

    block: int = 64
    stages: int = 2
    splits: int = 8
    warps: int = 4
    masks: bool = True
    reduction: str = "kernel"
    stop: str = "output"


@triton.jit
def _split(
    q_nope, q_pe, ckv, kpe, indices, partial, partial_lse, output, lse, arrived,
    scale,
    WIDTH: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
    MASKS: tl.constexpr, LAST: tl.constexpr, STOP: tl.constexpr,
    HEADS: tl.constexpr, CKV: tl.constexpr, KPE: tl.constexpr, OPERAND: tl.constexpr,
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
    # region: loop
    for step in tl.range(0, SHARE, BLOCK, num_stages=STAGES):
        places = split * SHARE + step + tl.arange(0, BLOCK)
        listed = tl.load(indices + token * WIDTH + places)
        valid = listed >= 0
        row = tl.where(valid, listed, 0).to(tl.int64)
        if MASKS:
            kc = tl.load(ckv + row[:, None] * CKV + columns[None, :], valid[:, None], 0.0)
            kp = tl.load(kpe + row[:, None] * KPE + tails[None, :], valid[:, None], 0.0)
        else:
            kc = tl.load(ckv + row[:, None] * CKV + columns[None, :])
            kp = tl.load(kpe + row[:, None] * KPE + tails[None, :])
        # endregion
        kc, kp = kc.to(OPERAND), kp.to(OPERAND)
        if STOP == 0:
            found += tl.sum(kc.to(tl.float32), 0)[None, :] + tl.sum(kp.to(tl.float32))
        else:
            logits = tl.dot(qn, kc.T)
            logits = tl.dot(qp, kp.T, logits) * scale
            logits = tl.where(valid[None, :], logits, float("-inf"))
            if STOP == 1:
                total += tl.sum(tl.where(valid[None, :], logits, 0.0), 1)
            else:
                higher = tl.maximum(most, tl.max(logits, 1))
                base = tl.where(higher == float("-inf"), 0.0, higher)
                weights = tl.exp2(logits - base[:, None])
                shrink = tl.exp2(most - base)
                total = total * shrink + tl.sum(weights, 1)
                most = higher
                if STOP == 3:
                    found = tl.dot(weights.to(kc.dtype), kc, found * shrink[:, None])
    safe = tl.where(total > 0.0, total, 1.0) if STOP == 3 else 1.0 + total
    answer = found / safe[:, None] if STOP == 3 else found + total[:, None]
    base2 = most + tl.log2(safe) if STOP == 3 else most
    if SPLITS == 1:
        tl.store(output + head_rows[:, None] * CKV + columns[None, :], answer.to(tl.bfloat16))
        tl.store(lse + head_rows, base2)
    else:
        slot = (token * SPLITS + split) * HEADS + heads
        tl.store(partial + slot[:, None] * CKV + columns[None, :], answer)
        tl.store(partial_lse + slot, base2)
        if LAST:
            tl.debug_barrier()
            before = tl.atomic_add(arrived + token, 1, sem="acq_rel")
            if before == SPLITS - 1:
                for head in range(HEADS):
                    _weigh(
                        partial, partial_lse, output, lse, token, head, 0, SPLITS, HEADS, CKV, CKV
                    )
                tl.atomic_xchg(arrived + token, 0)


@triton.jit
def _weigh(
    partial, partial_lse, output, lse, token, head, first,
    SPLITS: tl.constexpr, HEADS: tl.constexpr, CKV: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """Weigh the splits of one head by their sums, and write SLICE columns of it from `first` on."""
    splits = tl.arange(0, SPLITS)
    columns = first + tl.arange(0, SLICE)
    slots = (token * SPLITS + splits) * HEADS + head
    sums = tl.load(partial_lse + slots)
    most = tl.max(sums, 0)
    base = tl.where(most == float("-inf"), 0.0, most)
    weights = tl.exp2(sums - base)
    total = tl.sum(weights, 0)
    parts = tl.load(partial + slots[:, None] * CKV + columns[None, :])
    answer = tl.sum(parts * weights[:, None], 0) / tl.where(total > 0.0, total, 1.0)
    tl.store(output + (token * HEADS + head) * CKV + columns, answer.to(tl.bfloat16))
    tl.store(lse + token * HEADS + head, most + tl.log2(tl.where(total > 0.0, total, 1.0)))


@triton.jit
def _reduce(
    partial, partial_lse, output, lse,
    SPLITS: tl.constexpr, HEADS: tl.constexpr, CKV: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """One program owns SLICE columns of one head of one token."""
    pair = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * SLICE
    token, head = pair // HEADS, pair % HEADS
    _weigh(partial, partial_lse, output, lse, token, head, first, SPLITS, HEADS, CKV, SLICE)


SLICE = 128
# Triton's interpreter multiplies the bit patterns of bf16; what it multiplies is float32 instead.
OPERAND = tl.float32 if triton.knobs.runtime.interpret else tl.bfloat16


def splitk(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan = Plan(),
) -> tuple[Tensor, Tensor]:
    """Return output bf16 [T, 16, 512] and lse fp32 [T, 16]; ValueError for what it cannot take."""
    check(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale=sm_scale)
    tokens, width = sparse_indices.shape
    check_plan(plan, width)
    options = {"device": q_nope.device, "dtype": torch.float32}
    parts = plan.splits if plan.splits > 1 else 0
    partial = torch.empty((tokens, parts, HEADS, CKV), **options)
    partial_lse = torch.empty((tokens, parts, HEADS), **options)
    output, lse = torch.empty_like(q_nope), torch.empty((tokens, HEADS), **options)
    last = plan.reduction == "last" and plan.splits > 1
    arrived = torch.zeros(tokens, dtype=torch.int32, device=q_nope.device) if last else lse
    _split[tokens, plan.splits](
        q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices,
        partial, partial_lse, output, lse, arrived, sm_scale * LOG2_E,
        width, plan.splits, plan.block, plan.stages, plan.masks, last, STOPS.index(plan.stop),
        HEADS, CKV, KPE, OPERAND, num_warps=plan.warps,
    )  # fmt: skip
    if plan.splits > 1 and not last:
        _reduce[tokens * HEADS, CKV // SLICE](
            partial, partial_lse, output, lse, plan.splits, HEADS, CKV, SLICE, num_warps=4
        )
    return output, lse


def check_plan(plan: Plan, width: int) -> None:
    """Raise ValueError unless `plan` cuts a list of `width` places into whole blocks."""
    for name, value in (("block", plan.block), ("splits", plan.splits), ("warps", plan.warps)):
        if value < 1 or value & (value - 1):
            raise ValueError(f"{name}={value}: use a power of two")
    if plan.stages < 1:
        raise ValueError(f"stages={plan.stages}: use 1 for no pipeline, or more")
    if plan.block < 16:
        raise ValueError(f"block={plan.block}: a matrix instruction needs 16 rows or more")
    if width % (plan.splits * plan.block):
        at_most = width // plan.block
        raise ValueError(
            f"splits={plan.splits} of block={plan.block} do not divide a list of {width}: "
            f"use up to {at_most} splits"
        )
    for name, value, known in (
        ("reduction", plan.reduction, REDUCTIONS),
        ("stop", plan.stop, STOPS),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r}: use one of {', '.join(known)}")
