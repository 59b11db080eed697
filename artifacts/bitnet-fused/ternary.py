"""Codes of the weight for BitNet b1.58: -1, 0, 1 by one scale.

    s = max(mean |W|, 1e-5)         ternary = clamp(round(W / s), -1, 1)

Half to even, W / s rounds to zero up to a half: so the code is the sign of W where |W| > s / 2, which in
binary is exact, and nothing is divided.
A program of `_sum_parts` owns one of PARTS pieces of the weight: it adds in a fixed order, and every program
of `_ternarise`, which owns a tile, adds the parts in the same tree, so the scale has the same bits every
time; no atomics.
"""

import torch
import triton
import triton.language as tl
from kernel import (
    EXACT,
    INTERPRETED,
    LEAST,
    _put,
    _store_turned,
    _wide,
    check_device,
    padded,
    tiles,
)
from torch import Tensor

PARTS = 4 if INTERPRETED else 1024
SUM = {"BLOCK": 4096, "num_warps": 4}
STRIP = {"ROWS": 8, "COLUMNS": 1024, "num_warps": 8}
TURNED = {"ROWS": 64, "COLUMNS": 128, "num_warps": 8}


@triton.jit
def _sum_parts(weight, parts, count, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    start = part.to(tl.int64) * STEPS * BLOCK
    for step in range(STEPS):
        place = start + step * BLOCK + tl.arange(0, BLOCK)
        values = _wide(tl.load(weight + place, mask=place < count, other=0.0))
        total += tl.abs(values)
    tl.store(parts + part, tl.sum(total, axis=0))


@triton.jit
def _code(values, half, one):
    return tl.where(values > half, one, tl.where(values < -half, -one, one - one))


@triton.jit
def _ternarise(
    weight, parts, scale, out,
    rows, width, pitch, count,
    PARTS: tl.constexpr, SCALED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    known = place < rows
    here = weight + place[:, None] * width + columns[None, :]
    inside = known[:, None] & (columns < width)[None, :]
    values = _wide(tl.load(here, mask=inside, other=0.0))  # on its way while the parts are added
    if PARTS:
        mean = tl.div_rn(tl.sum(tl.load(parts + tl.arange(0, PARTS)), axis=0), count)
        size = tl.where(mean < LEAST, LEAST, mean)  # what is no number stays visible
        if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
            tl.store(scale, size)
    else:
        size = tl.load(scale)
    kind = out.dtype.element_ty
    one = size if SCALED else (1 if kind == tl.int8 else 1.0)
    there = out + place[:, None] * pitch + columns[None, :]
    kept = known[:, None] & (columns < pitch)[None, :]
    tl.store(there, _code(values, 0.5 * size, one).to(kind), mask=kept)


@triton.jit
def _ternarise_turned(
    weight, scale, words,
    rows, width, pitch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64) * ROWS
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    half = 0.5 * tl.load(scale)
    packed = tl.zeros((ROWS // 4, COLUMNS), tl.int32)
    for part in tl.static_range(4):
        place = row + 4 * tl.arange(0, ROWS // 4) + part
        inside = (place < rows)[:, None] & (columns < width)[None, :]
        here = weight + place[:, None] * width + columns[None, :]
        values = _wide(tl.load(here, mask=inside, other=0.0))
        packed = _put(packed, _code(values, half, 1), part)
    _store_turned(words, packed, row // 4, columns, width, pitch, ROWS // 4)


def weight_to_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ternary codes of W, int8 [N, padded K], and its scale, float32 [1]."""
    check_device(weight)
    rows, width = weight.shape
    parts = torch.empty(PARTS, dtype=torch.float32, device=weight.device)
    scale = torch.empty(1, dtype=torch.float32, device=weight.device)
    codes = torch.empty((rows, padded(width)), dtype=torch.int8, device=weight.device)
    steps = triton.cdiv(weight.numel(), PARTS * SUM["BLOCK"])
    _sum_parts[(PARTS,)](weight, parts, weight.numel(), STEPS=steps, **SUM)
    _ternarise[tiles(rows, width, STRIP)](
        weight, parts, scale, codes, rows, width, codes.stride(0), float(weight.numel()),
        PARTS=PARTS, SCALED=False, **STRIP, **EXACT,
    )  # fmt: skip
    return codes, scale


def weight_again(weight: Tensor, scale: Tensor, dtype: torch.dtype, *, scaled: bool) -> Tensor:
    """Return W's codes with a scale that is known: int8 [K, padded N], or [N, K] in `dtype`, times the
    scale if `scaled`.
    """
    rows, width = weight.shape
    if dtype == torch.int8:
        out = torch.empty((width, padded(rows)), dtype=dtype, device=weight.device)
        words = out.view(torch.int32)
        _ternarise_turned[tiles(rows, width, TURNED)](
            weight, scale, words, rows, width, words.stride(0), **TURNED, **EXACT
        )
        return out
    out = torch.empty((rows, width), dtype=dtype, device=weight.device)
    _ternarise[tiles(rows, width, STRIP)](
        weight, scale, scale, out, rows, width, width, float(weight.numel()),
        PARTS=0, SCALED=scaled, **STRIP, **EXACT,
    )  # fmt: skip
    return out
