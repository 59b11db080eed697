"""The control for the study kernel's one buffer: the same loop, its row numbers computed and not loaded.

A copy of `_split` of shared/splitk.py with masks, without its stops and its last program, that differs
in one line: the number of a row comes from its place by arithmetic, and the list is never read. What is
counted is the code alone; it is not run.
"""

import functools
from typing import Any

import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, WIDTH
from shared.splitk import Plan
from shared.splitk_code import H200, LANES, TYPES
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def _split_computed(
    q_nope, q_pe, ckv, kpe, partial, partial_lse, scale,
    WIDTH: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
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
    for step in tl.range(0, SHARE, BLOCK, num_stages=STAGES):
        places = split * SHARE + step + tl.arange(0, BLOCK)
        # region: computed
        listed = ((token * WIDTH + places) * 40503 & 0x7FFFF).to(tl.int32) - 1  # -1 is padding
        # endregion
        valid = listed >= 0
        row = tl.where(valid, listed, 0).to(tl.int64)
        kc = tl.load(ckv + row[:, None] * CKV + columns[None, :], valid[:, None], 0.0).to(OPERAND)
        kp = tl.load(kpe + row[:, None] * KPE + tails[None, :], valid[:, None], 0.0).to(OPERAND)
        logits = tl.dot(qn, kc.T)
        logits = tl.dot(qp, kp.T, logits) * scale
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


@functools.cache
def compile_computed(plan: Plan) -> Any:
    """Return Triton's compiled kernel of `plan` with computed rows, as a launch on an H200 would get it."""
    names = list(_split_computed.arg_names)
    constants = {
        "WIDTH": WIDTH, "SPLITS": plan.splits, "BLOCK": plan.block, "STAGES": plan.stages,
        "HEADS": HEADS, "CKV": CKV, "KPE": KPE, "OPERAND": tl.bfloat16,
    }  # fmt: skip
    signature = {name: TYPES.get(name, "constexpr") for name in names}
    given = {(names.index(name),): value for name, value in constants.items()}
    pointers = [name for name in names if signature[name].startswith("*")]
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in pointers}
    source = ASTSource(_split_computed, signature, given, aligned)
    target = GPUTarget("cuda", H200, LANES)
    return triton.compile(source, target=target, options={"num_warps": plan.warps})
