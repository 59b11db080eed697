"""The study kernel cut short, and a gather without attention in the forms that a compiler may treat apart.

`parts` starts `_split` of shared/splitk.py alone, without the reduction. With a plan that stops early it
gives what the kernel holds at that point, per token, split and head; reference.py says what that is.

`gather_sum` adds up rows: out[p] = sum of rows[indices[p]]. One program owns one list of 64 rows.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, LOG2_E, check
from shared.splitk import OPERAND, SLICE, STOPS, Plan, _reduce, _split, check_plan
from torch import Tensor

LIST = 64
PIECE = 16
STAGES = 3
WAYS = ("no loop", "range", "tl.range", "range with a dot")


def parts(*problem: object, plan: Plan) -> tuple[Tensor, Tensor]:
    """Return what each split holds: fp32 [T, splits, 16, 512] and [T, splits, 16].

    `problem` is that of the study kernel, and so are the errors.
    """
    return start(*problem, plan=plan)[1:]


def start(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan,
    registers: int | None = None,
) -> tuple[Any, Tensor, Tensor]:
    """Start the study kernel without its reduction, compiled for at most `registers` a thread; return
    the compiled kernel and both its outputs.

    Raises ValueError for tensors that the study kernel cannot take, and for a single split, whose
    program would write the answer itself.
    """
    check(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale=sm_scale)
    tokens, width = sparse_indices.shape
    check_plan(plan, width)
    if plan.splits < 2:
        raise ValueError(f"splits={plan.splits} leaves no parts: use two or more")
    options = {"device": q_nope.device, "dtype": torch.float32}
    partial = torch.empty((tokens, plan.splits, HEADS, CKV), **options)
    partial_lse = torch.empty((tokens, plan.splits, HEADS), **options)
    last, unused = False, partial_lse  # with these constants no program looks behind the last three
    limit = {} if registers is None else {"maxnreg": registers}
    kernel = _split[tokens, plan.splits](
        q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices,
        partial, partial_lse, q_nope, unused, unused, sm_scale * LOG2_E,
        width, plan.splits, plan.block, plan.stages, plan.masks, last, STOPS.index(plan.stop),
        HEADS, CKV, KPE, OPERAND, num_warps=plan.warps, **limit,
    )  # fmt: skip
    return kernel, partial, partial_lse


def capped(*problem: Any, plan: Plan, registers: int) -> tuple[Tensor, Tensor]:
    """Do as `splitk` of shared/splitk.py does, compiled for at most `registers` a thread."""
    partial, partial_lse = start(*problem, plan=plan, registers=registers)[1:]
    output = torch.empty_like(problem[0])
    lse = partial_lse.new_empty((len(output), HEADS))
    _reduce[len(output) * HEADS, CKV // SLICE](
        partial, partial_lse, output, lse, plan.splits, HEADS, CKV, SLICE, num_warps=4
    )
    return output, lse


@triton.jit
def _gather_sum(
    rows, indices, out,
    WAY: tl.constexpr, LIST: tl.constexpr, PIECE: tl.constexpr, COLUMNS: tl.constexpr,
    STAGES: tl.constexpr, OPERAND: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    found = tl.zeros((COLUMNS,), tl.float32)
    listed = indices + program * LIST
    if WAY == 0:
        row = tl.load(listed + tl.arange(0, LIST)).to(tl.int64)
        tile = tl.load(rows + row[:, None] * COLUMNS + columns[None, :])
        found = tl.sum(tile.to(tl.float32), 0)
    # region: loops
    if WAY == 1:
        for step in range(0, LIST, PIECE):
            row = tl.load(listed + step + tl.arange(0, PIECE)).to(tl.int64)
            tile = tl.load(rows + row[:, None] * COLUMNS + columns[None, :])
            found += tl.sum(tile.to(tl.float32), 0)
    if WAY == 2:
        for step in tl.range(0, LIST, PIECE, num_stages=STAGES):
            row = tl.load(listed + step + tl.arange(0, PIECE)).to(tl.int64)
            tile = tl.load(rows + row[:, None] * COLUMNS + columns[None, :])
            found += tl.sum(tile.to(tl.float32), 0)
    if WAY == 3:
        ones = tl.full((16, PIECE), 1.0, OPERAND)
        sums = tl.zeros((16, COLUMNS), tl.float32)
        for step in range(0, LIST, PIECE):
            row = tl.load(listed + step + tl.arange(0, PIECE)).to(tl.int64)
            tile = tl.load(rows + row[:, None] * COLUMNS + columns[None, :])
            sums = tl.dot(ones, tile.to(OPERAND), sums)
        found = tl.max(sums, 0)  # sixteen equal rows
    # endregion
    tl.store(out + program * COLUMNS + columns, found)


def gather_sum(rows: Tensor, indices: Tensor, *, way: str) -> Tensor:
    """Return fp32 [lists, columns]: the sum of the rows of each list.

    `rows` is bf16 [n, columns], columns a power of two; `indices` int32 [lists, 64], each a row.
    Every way is launched with num_stages=3. Raises ValueError for another shape or dtype.
    """
    return start_gather(rows, indices, way)[1]


def start_gather(rows: Tensor, indices: Tensor, way: str) -> tuple[Any, Tensor]:
    """Start a gather; return the compiled kernel and the sums."""
    if rows.dtype != torch.bfloat16 or indices.dtype != torch.int32:
        raise ValueError(f"rows {rows.dtype}, indices {indices.dtype}: use bfloat16 and int32")
    if indices.dim() != 2 or indices.shape[1] != LIST:
        raise ValueError(f"indices has shape {list(indices.shape)}: use [lists, {LIST}]")
    out = torch.empty((len(indices), rows.shape[1]), dtype=torch.float32, device=rows.device)
    kernel = _gather_sum[len(indices),](
        rows, indices, out, WAYS.index(way), LIST, PIECE, rows.shape[1], STAGES, OPERAND,
        num_warps=4, num_stages=STAGES,
    )  # fmt: skip
    return kernel, out
