"""The gradient of the outputs as int8 codes.

    by row:      code[t, n] = round(g[t, n] · 127 / r[t])      r[t] = max |g[t, :]|
    by column:   code[n, t] = round(h[t, n] · 127 / c[n])      h[t, n] = g[t, n] · m[t],  c[n] = max |h[:, n]|

m is the row's maximum of the activations' codes: within a sum over rows their scales cannot be taken out,
so they are taken in before h is quantised.
A program of `_extents` owns ROWS · STEPS rows of a block of columns and writes r of the block and c of the
rows; `_fold` makes them r and c; a program of `_code_gradient` owns a tile and reads it once for both codes.
"""

import torch
import triton
import triton.language as tl
from kernel import (
    EXACT,
    _greater,
    _largest,
    _limited,
    _put,
    _rounded,
    _store_turned,
    _wide,
    check_width,
    padded,
    row_options,
    tiles,
)
from torch import Tensor

SMALLEST = tl.constexpr(1e-30)
EXTENT = {"ROWS": 8, "COLUMNS": 1024, "STEPS": 2, "UNROLL": 2, "num_warps": 4}
FOLD = {"BLOCK": 32, "BANDS": 128, "num_warps": 8}
SHARE = 512  # elements of a row to a warp
TURNED = {"ROWS": 64, "COLUMNS": 128, "num_warps": 4}


@triton.jit
def _code_rows(gradient, codes, most, width, stride, pitch, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    here = gradient + row * stride + columns
    values = _wide(tl.load(here, mask=columns < width, other=0.0))
    largest = _limited(_largest(values, 0), SMALLEST)
    found = _rounded(values, tl.div_rn(127.0, largest)).to(tl.int8)
    tl.store(codes + row * pitch + columns, found, mask=columns < pitch)
    tl.store(most + row, largest)


# region: extents
@triton.jit
def _extents(
    gradient, weights, blocks, bands, rows, width, stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    block, band = tl.program_id(0), tl.program_id(1).to(tl.int64)
    columns = block * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    tall = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in tl.range(0, STEPS, loop_unroll_factor=UNROLL):
        place = (band * STEPS + step) * ROWS + tl.arange(0, ROWS)
        known = place < rows
        weight = tl.load(weights + place, mask=known, other=0.0)
        here = gradient + place[:, None] * stride + columns[None, :]
        values = _wide(tl.load(here, mask=known[:, None] & inside[None, :], other=0.0))
        tl.store(blocks + block.to(tl.int64) * rows + place, _largest(values, 1), mask=known)
        tall = _greater(tall, tl.abs(values * weight[:, None]))
    tl.store(bands + band * width + columns, _largest(tall, 0), mask=inside)


@triton.jit
def _folded(bands, most, first, count, width, BLOCK: tl.constexpr, BANDS: tl.constexpr):
    columns = first * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    largest = tl.zeros((BANDS, BLOCK), tl.float32)
    start = 0
    while start < count:
        band = start + tl.arange(0, BANDS)
        here = bands + band.to(tl.int64)[:, None] * width + columns[None, :]
        found = tl.load(here, mask=(band < count)[:, None] & inside[None, :], other=0.0)
        largest = _greater(largest, found)
        start += BANDS
    tl.store(most + columns, _limited(_largest(largest, 0), SMALLEST), mask=inside)


@triton.jit
def _fold(
    bands, blocks, column_most, row_most, count, across, width, rows,
    BLOCK: tl.constexpr, BANDS: tl.constexpr,
):  # fmt: skip
    program, wide = tl.program_id(0), tl.cdiv(width, BLOCK)
    if program < wide:
        _folded(bands, column_most, program, count, width, BLOCK, BANDS)
    else:
        _folded(blocks, row_most, program - wide, across, rows, BLOCK * BANDS // 4, 4)


# endregion


@triton.jit
def _code_gradient(
    gradient, weights, row_most, column_most, by_row, words,
    rows, width, stride, row_pitch, pitch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    last = tl.num_programs(1) - 1  # what was looked at last may still lie in the cache
    row = (last - tl.program_id(1)).to(tl.int64) * ROWS
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    across = tl.div_rn(127.0, tl.load(column_most + columns, mask=inside, other=1.0))
    packed = tl.zeros((ROWS // 4, COLUMNS), tl.int32)
    for part in tl.static_range(4):
        place = row + 4 * tl.arange(0, ROWS // 4) + part
        known = place < rows
        here = gradient + place[:, None] * stride + columns[None, :]
        values = _wide(tl.load(here, mask=known[:, None] & inside[None, :], other=0.0))
        down = tl.div_rn(127.0, tl.load(row_most + place, mask=known, other=1.0))
        there = by_row + place[:, None] * row_pitch + columns[None, :]
        kept = known[:, None] & (columns < row_pitch)[None, :]
        tl.store(there, _rounded(values, down[:, None]).to(tl.int8), mask=kept)
        weight = tl.load(weights + place, mask=known, other=0.0)
        packed = _put(packed, _rounded(values * weight[:, None], across[None, :]), part)
    _store_turned(words, packed, row // 4, columns, width, pitch, ROWS // 4)


def rows_of_gradient(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise g [T, N] by row; return codes int8 [T, padded N] and r float32 [T]."""
    rows, width = gradient.shape
    check_width(width)
    codes = gradient.new_empty((rows, padded(width)), dtype=torch.int8)
    most = gradient.new_empty(rows, dtype=torch.float32)
    _code_rows[(rows,)](
        gradient, codes, most, width, gradient.stride(0), codes.stride(0),
        **row_options(width, SHARE), **EXACT,
    )  # fmt: skip
    return codes, most


def both_of_gradient(gradient: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Quantise g [T, N] by row, and g times its row's weight by column.

    Return codes int8 [T, padded N], r float32 [T], codes int8 [N, padded T], c float32 [N].
    """
    rows, width = gradient.shape
    row_most, column_most = extents(gradient, weights)
    by_row = gradient.new_empty((rows, padded(width)), dtype=torch.int8)
    by_column = gradient.new_empty((width, padded(rows)), dtype=torch.int8)
    words = by_column.view(torch.int32)
    _code_gradient[tiles(rows, width, TURNED)](
        gradient, weights, row_most, column_most, by_row, words, rows, width,
        gradient.stride(0), by_row.stride(0), words.stride(0), **TURNED, **EXACT,
    )  # fmt: skip
    return by_row, row_most, by_column, column_most


def extents(gradient: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return r float32 [T] and c float32 [N] of g [T, N]."""
    rows, width = gradient.shape
    across = triton.cdiv(width, EXTENT["COLUMNS"])
    count = triton.cdiv(rows, EXTENT["ROWS"] * EXTENT["STEPS"])
    options = {"device": gradient.device, "dtype": torch.float32}
    blocks, row_most = torch.empty((across, rows), **options), torch.empty(rows, **options)
    bands, column_most = torch.empty((count, width), **options), torch.empty(width, **options)
    _extents[(across, count)](
        gradient, weights, blocks, bands, rows, width, gradient.stride(0), **EXTENT
    )
    long = FOLD["BLOCK"] * FOLD["BANDS"] // 4
    programs = triton.cdiv(width, FOLD["BLOCK"]) + triton.cdiv(rows, long)
    _fold[(programs,)](bands, blocks, column_most, row_most, count, across, width, rows, **FOLD)
    return row_most, column_most
