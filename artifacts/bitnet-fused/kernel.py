"""Codes for BitNet b1.58: activations to int8 by row, weights to -1, 0, 1 by one scale.

    n = x · (1 / sqrt(mean x² + eps)) · norm        m = max(max |n| of the row, 1e-5)
    code = clamp(round(n · (127 / m)), -128, 127)   x_q = code · m / 127
    s = max(mean |W|, 1e-5)                         ternary = clamp(round(W / s), -1, 1)

A program of `_normalise_rows` owns a row and reads it once. `_sum_parts` owns one of PARTS pieces of the
weight: it adds in a fixed order, and every program of `_ternarise`, which owns a tile, adds the parts in
the same tree, so the scale has the same bits every time; no atomics. `_recode_rows` owns a tile of the
activations and makes their codes again for the backward pass from the two numbers that were kept of each
row: the same operations in the same order, and no fused multiply-add, so the same codes.
"""

import os

import torch
import triton
import triton.language as tl
from torch import Tensor

EPSILON = 1e-5  # of the quantisers, as published with BitNet b1.58
WIDEST = 65536
PITCH = 16  # bytes that a tensor descriptor's rows must be a multiple of
ROUND = tl.constexpr(12582912.0)  # 1.5 · 2²³: adding and taking it away rounds half to even
LEAST = tl.constexpr(1e-5)
TURNED = {"ROWS": 128, "COLUMNS": 64, "num_warps": 8}  # a line of 128 bytes in and out
STRIP = {"ROWS": 16, "COLUMNS": 512, "num_warps": 8}
EXACT = {"enable_fp_fusion": False}
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
PARTS = 4 if INTERPRETED else 1024


# region: rows
@triton.jit
def _magnitude(values):
    """Take the absolute value; what is no number counts as infinite, so that it stays visible."""
    return tl.where(values == values, tl.abs(values), float("inf"))  # noqa: PLR0124


@triton.jit
def _code(values, step):
    near = tl.clamp((values * step + ROUND) - ROUND, -128.0, 127.0)
    return tl.where(near == near, near, 0.0)  # noqa: PLR0124


@triton.jit
def _normalise_rows(
    x, norm, codes, most, inverse,
    width, x_stride, pitch, count, epsilon,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    values = tl.load(x + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    weights = tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.div_rn(tl.sum(values * values, axis=0), count)
    root = tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon))
    values = values * root * weights
    largest = tl.maximum(tl.max(_magnitude(values), axis=0), LEAST)
    found = _code(values, tl.div_rn(127.0, largest))
    tl.store(codes + row * pitch + columns, found.to(tl.int8), mask=columns < pitch)
    tl.store(most + row, largest)
    tl.store(inverse + row, root)


# endregion


@triton.jit
def _recode_rows(
    x, norm, most, inverse, out,
    rows, width, x_stride, out_pitch,
    TRANSPOSED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known, inside = place < rows, columns < width
    largest = tl.load(most + place, mask=known, other=1.0)
    root = tl.load(inverse + place, mask=known, other=0.0)
    weights = tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
    here = x + place[:, None] * x_stride + columns[None, :]
    values = tl.load(here, mask=known[:, None] & inside[None, :], other=0.0).to(tl.float32)
    values = values * root[:, None] * weights[None, :]
    found = _code(values, tl.div_rn(127.0, largest)[:, None])
    if TRANSPOSED:
        turned = tl.trans(found.to(tl.int8))
        there = out + columns.to(tl.int64)[:, None] * out_pitch + place[None, :]
        tl.store(there, turned, mask=inside[:, None] & (place < out_pitch)[None, :])
    else:
        scaled = found * tl.div_rn(largest, 127.0)[:, None]
        there = out + place[:, None] * out_pitch + columns[None, :]
        tl.store(there, scaled.to(out.dtype.element_ty), mask=known[:, None] & inside[None, :])


@triton.jit
def _sum_parts(weight, parts, count, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    start = part.to(tl.int64) * STEPS * BLOCK
    for step in range(STEPS):
        place = start + step * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(weight + place, mask=place < count, other=0.0).to(tl.float32)
        total += tl.abs(values)
    tl.store(parts + part, tl.sum(total, axis=0))


@triton.jit
def _ternarise(
    weight, parts, scale, out,
    rows, width, out_pitch, count,
    PARTS: tl.constexpr, TRANSPOSED: tl.constexpr, SCALED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    if PARTS:
        mean = tl.div_rn(tl.sum(tl.load(parts + tl.arange(0, PARTS)), axis=0), count)
        size = tl.maximum(mean, LEAST)
        if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
            tl.store(scale, size)
    else:
        size = tl.load(scale)
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (place < rows)[:, None] & (columns < width)[None, :]
    here = weight + place[:, None] * width + columns[None, :]
    ratio = tl.div_rn(tl.load(here, mask=inside, other=0.0).to(tl.float32), size)
    found = (ratio > 0.5).to(tl.float32) - (ratio < -0.5).to(tl.float32)
    if SCALED:
        found = found * size
    kind = out.dtype.element_ty
    if TRANSPOSED:
        there = out + columns.to(tl.int64)[:, None] * out_pitch + place[None, :]
        kept = (columns < width)[:, None] & (place < out_pitch)[None, :]
        tl.store(there, tl.trans(found.to(kind)), mask=kept)
    else:
        there = out + place[:, None] * out_pitch + columns[None, :]
        kept = (place < rows)[:, None] & (columns < out_pitch)[None, :]
        tl.store(there, found.to(kind), mask=kept)


def padded(length: int) -> int:
    """Return the bytes of a row of `length` codes: a multiple of PITCH."""
    return -(-length // PITCH) * PITCH


def check_device(x: Tensor) -> None:
    """Raise ValueError where no kernel can run."""
    if x.device.type != "cuda" and not INTERPRETED:
        problem = f"x is on {x.device}: the layer's kernels need a GPU"
        raise ValueError(f"{problem}, or TRITON_INTERPRET=1 in the environment for a slow test")


def row_options(width: int, share: int = 1024) -> dict[str, int]:
    """Return the block of a row of `width` elements, with a warp for each `share` of them."""
    block = max(triton.next_power_of_2(width), 128)
    return {"BLOCK": block, "num_warps": min(max(block // share, 4), 32)}


def rows_to_codes(x: Tensor, norm: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise and quantise x [T, K]; return codes int8 [T, padded K], m and 1 / rms, float32 [T].

    Rows must lie closely in themselves (last stride 1). Raises ValueError beyond 65536 columns.
    """
    check_device(x)
    rows, width = x.shape
    if width > WIDEST:
        raise ValueError(f"x has {width} columns: a program owns a row of up to {WIDEST}")
    codes = torch.empty((rows, padded(width)), dtype=torch.int8, device=x.device)
    most, inverse = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
    if rows:
        _normalise_rows[(rows,)](
            x, norm, codes, most, inverse,
            width, x.stride(0), codes.stride(0), float(width), epsilon,
            **row_options(width), **EXACT,
        )  # fmt: skip
    return codes, most, inverse


def recoded(x: Tensor, norm: Tensor, most: Tensor, inverse: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the activations again: x_q [T, K] in `dtype`, or for int8 the codes [K, padded T]."""
    rows, width = x.shape
    turned = dtype == torch.int8
    shape = (width, padded(rows)) if turned else (rows, width)
    out = torch.empty(shape, dtype=dtype, device=x.device)
    tile = TURNED if turned else STRIP
    grid = (triton.cdiv(rows, tile["ROWS"]), triton.cdiv(width, tile["COLUMNS"]))
    _recode_rows[grid](
        x, norm, most, inverse, out, rows, width, x.stride(0), out.stride(0),
        TRANSPOSED=turned, **tile, **EXACT,
    )  # fmt: skip
    return out


def weight_to_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ternary codes of W, int8 [N, padded K], and its scale, float32 [1]."""
    check_device(weight)
    parts = torch.empty(PARTS, dtype=torch.float32, device=weight.device)
    scale = torch.empty(1, dtype=torch.float32, device=weight.device)
    block = 2048
    steps = triton.cdiv(weight.numel(), PARTS * block)
    _sum_parts[(PARTS,)](weight, parts, weight.numel(), STEPS=steps, BLOCK=block)
    return _ternary(weight, scale, torch.int8, parts=parts), scale


def weight_again(weight: Tensor, scale: Tensor, dtype: torch.dtype, *, scaled: bool) -> Tensor:
    """Return W's codes with a scale that is known: int8 [K, padded N], or [N, K] in `dtype`, times the
    scale if `scaled`.
    """
    return _ternary(weight, scale, dtype, turned=dtype == torch.int8, scaled=scaled)


def _ternary(
    weight: Tensor, scale: Tensor, dtype: torch.dtype, *, parts: Tensor | None = None,
    turned: bool = False, scaled: bool = False,
) -> Tensor:  # fmt: skip
    rows, width = weight.shape
    length = rows if turned else width
    pitch = padded(length) if dtype == torch.int8 else length
    shape = (width if turned else rows, pitch)
    out = torch.empty(shape, dtype=dtype, device=weight.device)
    tile = TURNED if turned else STRIP
    grid = (triton.cdiv(rows, tile["ROWS"]), triton.cdiv(width, tile["COLUMNS"]))
    _ternarise[grid](
        weight, scale if parts is None else parts, scale, out,
        rows, width, pitch, float(weight.numel()),
        PARTS=0 if parts is None else PARTS, TRANSPOSED=turned, SCALED=scaled, **tile, **EXACT,
    )  # fmt: skip
    return out
