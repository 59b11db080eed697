"""A product of int8 codes: out[i, j] = left[i] · right[j] · factor · rows[i] · scale + bias[j].

A program owns an output tile, small enough that two programs share a multiprocessor: one multiplies while
the other scales and stores. A plan that is persistent has as many programs as multiprocessors instead, each
with tiles in turn: `flatten` makes one loop of tiles and steps, so that the first loads of a tile are under
way while the one before is stored.
Both operands lie along the reduction, which is what the integer matrix instruction takes from shared
memory without going through registers; tiles come and go by tensor descriptors, whose edges read zero.
A sum is exact in int32 as long as REDUCTION_AT_MOST products of the largest codes fit.
"""

import functools
from dataclasses import asdict, dataclass

import torch
import triton
import triton.language as tl
from kernel import INTERPRETED
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

REDUCTION_AT_MOST = 131_072  # 2¹⁷ · 128 · 127 < 2³¹
MULTIPROCESSORS = 132  # of an H200; another device is asked


@dataclass(frozen=True)
class Plan:
    """How a product is cut: tiles of `rows` × `columns`, `depth` codes a step, `stages` steps under way,
    `group` rows of tiles side by side, `parts` pieces in which a tile is stored.
    """

    rows: int = 128
    columns: int = 128
    depth: int = 128
    stages: int = 3
    warps: int = 4
    group: int = 8
    parts: int = 1
    persistent: bool = False


# region: product
@triton.jit
def _store(
    out, bias, sums, scales, row, column, rows, columns, stride,
    BIAS: tl.constexpr, DESCRIBED: tl.constexpr, WIDTH: tl.constexpr, HEIGHT: tl.constexpr,
):  # fmt: skip
    here = column + tl.arange(0, WIDTH)
    found = sums.to(tl.float32) * scales[:, None]
    if BIAS:
        found += tl.load(bias + here, mask=here < columns, other=0.0).to(tl.float32)[None, :]
    if DESCRIBED:
        out.store([row, column], found.to(out.dtype))
    else:
        place = row + tl.arange(0, HEIGHT)
        there = out + place.to(tl.int64)[:, None] * stride + here[None, :]
        kept = (place < rows)[:, None] & (here < columns)[None, :]
        tl.store(there, found.to(out.dtype.element_ty), mask=kept)


@triton.jit
def _tile(
    tile, left, right, out, row_scales, scale, bias, rows, columns, reduction, stride, factor,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
    PARTS: tl.constexpr, SCALE: tl.constexpr, BIAS: tl.constexpr, DESCRIBED: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    down, across = tl.cdiv(rows, ROWS), tl.cdiv(columns, COLUMNS)
    first = tile // (GROUP * across) * GROUP
    high = tl.minimum(down - first, GROUP)
    within = tile % (GROUP * across)
    row, column = (first + within % high) * ROWS, within // high * COLUMNS
    sums = tl.zeros((ROWS, COLUMNS), tl.int32)
    # an interpreter's loop needs a constant
    for step in range(STEPS if STEPS else tl.cdiv(reduction, DEPTH)):  # noqa: FURB110
        one = left.load([row, step * DEPTH])
        other = right.load([column, step * DEPTH])
        sums = tl.dot(one, other.T, sums, out_dtype=tl.int32)
    place = row + tl.arange(0, ROWS)
    scales = tl.load(row_scales + place, mask=place < rows, other=0.0) * factor
    if SCALE:
        scales *= tl.load(scale)
    if PARTS == 1:
        _store(out, bias, sums, scales, row, column, rows, columns, stride,
               BIAS, DESCRIBED, COLUMNS, ROWS)  # fmt: skip
    else:
        half: tl.constexpr = COLUMNS // 2
        one, other = tl.split(tl.permute(tl.reshape(sums, (ROWS, 2, half)), (0, 2, 1)))
        _store(out, bias, one, scales, row, column, rows, columns, stride,
               BIAS, DESCRIBED, half, ROWS)  # fmt: skip
        _store(out, bias, other, scales, row, column + half, rows, columns, stride,
               BIAS, DESCRIBED, half, ROWS)  # fmt: skip


@triton.jit
def _multiply(
    left, right, out, row_scales, scale, bias, rows, columns, reduction, stride, factor,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
    PARTS: tl.constexpr, SCALE: tl.constexpr, BIAS: tl.constexpr, DESCRIBED: tl.constexpr,
    STEPS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    if PROGRAMS:
        tiles = tl.cdiv(rows, ROWS) * tl.cdiv(columns, COLUMNS)
        for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
            _tile(tile, left, right, out, row_scales, scale, bias, rows, columns, reduction, stride,
                  factor, ROWS, COLUMNS, DEPTH, GROUP, PARTS, SCALE, BIAS, DESCRIBED, STEPS)  # fmt: skip
    else:
        _tile(tl.program_id(0), left, right, out, row_scales, scale, bias, rows, columns, reduction,
              stride, factor, ROWS, COLUMNS, DEPTH, GROUP, PARTS, SCALE, BIAS, DESCRIBED, STEPS)  # fmt: skip


# endregion

PLANS = (  # (output elements of at least, plan): the fastest of 38 on an H200, of 2 to 14 shapes each
    (1024 * 2048, Plan()),
    (0, Plan(64, 64, 128, 6)),
)
WIDE = Plan(256, 128, 128, 4, 8, parts=2, persistent=True)  # as fast for the largest products only
INTERPRETED_PLAN = Plan(32, 32, 32, 1, 4, group=2)


def plan_for(rows: int, columns: int, reduction: int) -> Plan:
    """Choose a plan by the size of the product: the same for the same size, whatever was run before."""
    if INTERPRETED:
        return INTERPRETED_PLAN
    del reduction
    return next(plan for least, plan in PLANS if rows * columns >= least)


def constants(plan: Plan, *, scaled: bool, bias: bool, described: bool) -> dict[str, object]:
    """Return what `_multiply` is compiled with, but for its loops."""
    own = {name.upper(): value for name, value in asdict(plan).items()}
    kept = ("ROWS", "COLUMNS", "DEPTH", "GROUP", "PARTS")
    flags = {"SCALE": scaled, "BIAS": bias, "DESCRIBED": described}
    return {name: own[name] for name in kept} | flags


def multiply(
    left: Tensor,
    right: Tensor,
    reduction: int,
    row_scales: Tensor,
    *,
    dtype: torch.dtype,
    factor: float,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    plan: Plan | None = None,
) -> Tensor:
    """Return left · rightᵀ, scaled, in `dtype` [rows, columns].

    left int8 [rows, ≥ reduction] and right int8 [columns, ≥ reduction], each row a multiple of 16 bytes;
    row_scales float32 [rows]; scale float32 [1]; bias [columns].
    Raises ValueError where a sum of products might not fit 32 bits.
    """
    if reduction > REDUCTION_AT_MOST:
        problem = f"a reduction over {reduction} products of int8 codes may overflow int32"
        raise ValueError(f"{problem}: use up to {REDUCTION_AT_MOST}")
    rows, columns = len(left), len(right)
    out = torch.empty((rows, columns), dtype=dtype, device=left.device)
    described = columns * out.element_size() % 16 == 0
    plan = plan or plan_for(rows, columns, reduction)
    block = [plan.rows, plan.columns // plan.parts]
    target = TensorDescriptor.from_tensor(out, block) if described else out
    tiles = triton.cdiv(rows, plan.rows) * triton.cdiv(columns, plan.columns)
    resident = multiprocessors(left.device) if plan.persistent and not INTERPRETED else 0
    _multiply[(min(tiles, resident) if resident else tiles,)](
        operand(left, reduction, [plan.rows, plan.depth]),
        operand(right, reduction, [plan.columns, plan.depth]),
        target,
        row_scales, row_scales if scale is None else scale, row_scales if bias is None else bias,
        rows, columns, reduction, out.stride(0), factor,
        **constants(plan, scaled=scale is not None, bias=bias is not None, described=described),
        PROGRAMS=resident, STEPS=triton.cdiv(reduction, plan.depth) if INTERPRETED else 0,
        num_warps=plan.warps, num_stages=plan.stages,
    )  # fmt: skip
    return out


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors a device has."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def operand(codes: Tensor, reduction: int, block: list[int]) -> TensorDescriptor:
    """Describe codes [rows, pitch] of which the first `reduction` of each row count."""
    return TensorDescriptor(codes, [len(codes), reduction], list(codes.stride()), block)
