"""Codes of the activations for BitNet b1.58: int8 by row, after an RMSNorm.

    n = x · (1 / sqrt(mean x² + eps)) · norm        m = max(max |n| of the row, 1e-5)
    code = clamp(round(n · (127 / m)), -128, 127)   x_q = code · m / 127

A program of `_normalise_rows` owns a row and reads it once. `_recode_rows` and `_recode_turned` own a tile
of the activations and make their codes again for the backward pass from the two numbers that were kept of
each row: the same operations in the same order, and no fused multiply-add, so the same codes.
Added to 1.5 · 2²³, a number is rounded half to even into the lowest bits of the sum: its lowest byte is the
code, and no conversion is needed. Nor is the clamp: |n| · (127 / m) rounds to 127 at most.
Codes that go out turned are packed by four rows into words first: a turn moves a quarter as many things.
"""

import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

EPSILON = 1e-5  # of the quantisers, as published with BitNet b1.58
WIDEST = 65536
PITCH = 16  # bytes that a tensor descriptor's rows must be a multiple of
ROUND = tl.constexpr(12582912.0)  # 1.5 · 2²³
LEAST = tl.constexpr(1e-5)
EXACT = {"enable_fp_fusion": False}
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
SIMULATED = tl.constexpr(INTERPRETED)
SHARE = 2048  # elements of a row to a warp
TURNED = {"ROWS": 64, "COLUMNS": 128, "num_warps": 4}  # the fastest of eight on an H200
STRIP = {"ROWS": 8, "COLUMNS": 512, "num_warps": 4}


# region: rows
@triton.jit
def _greater(one, other):
    return tl.maximum(one, other, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _largest(values, axis: tl.constexpr):
    if SIMULATED:  # which takes any reduction but its own for element after element
        known = tl.where(values == values, tl.abs(values), float("inf"))  # noqa: PLR0124
        return tl.max(known, axis=axis)
    return tl.reduce(tl.abs(values), axis, _greater)


@triton.jit
def _limited(largest, least):
    """Keep a largest value from zero; what is no number counts as infinite, so that it stays visible."""
    return tl.where(largest == largest, tl.maximum(largest, least), float("inf"))  # noqa: PLR0124


@triton.jit
def _rounded(values, step):
    """Return a word whose lowest byte is the code."""
    return (values * step + ROUND).to(tl.int32, bitcast=True)


@triton.jit
def _wide(values):
    """Return float32; for bf16 in one instruction an element, where the compiler takes one and a half."""
    if SIMULATED or values.dtype != tl.bfloat16:
        found = values.to(tl.float32)
    else:
        found = tl.inline_asm_elementwise(
            "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;", "=r,=r,r", [values],
            dtype=tl.float32, is_pure=True, pack=2,
        )  # fmt: skip
    return found


@triton.jit
def _put(packed, word, part: tl.constexpr):
    """Return `packed` with the lowest byte of a word as its byte number `part`, the bytes below kept."""
    if SIMULATED:
        found = (packed & ((1 << (8 * part)) - 1)) | ((word & 255) << (8 * part))
    elif part == 0:
        found = word
    else:
        order: tl.constexpr = 0x3210 - (part << (4 * part)) + (4 << (4 * part))
        found = tl.inline_asm_elementwise(
            "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", [packed, word, order],
            dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip
    return found


@triton.jit
def _normalise_rows(
    x, norm, codes, most, inverse,
    width, x_stride, pitch, count, epsilon,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    values = _wide(tl.load(x + row * x_stride + columns, mask=inside, other=0.0))
    weights = _wide(tl.load(norm + columns, mask=inside, other=0.0))
    mean = tl.div_rn(tl.sum(values * values, axis=0), count)
    root = tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon))
    values = values * root * weights
    largest = _limited(_largest(values, 0), LEAST)
    found = _rounded(values, tl.div_rn(127.0, largest)).to(tl.int8)
    tl.store(codes + row * pitch + columns, found, mask=columns < pitch)
    tl.store(most + row, largest)
    tl.store(inverse + row, root)


# endregion


@triton.jit
def _normalised(x, weights, inverse, place, columns, rows, width, x_stride):
    known, inside = place < rows, columns < width
    root = tl.load(inverse + place, mask=known, other=0.0)
    here = x + place[:, None] * x_stride + columns[None, :]
    values = _wide(tl.load(here, mask=known[:, None] & inside[None, :], other=0.0))
    return values * root[:, None] * weights[None, :]


@triton.jit
def _recode_rows(
    x, norm, most, inverse, out,
    rows, width, x_stride, out_pitch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    known, inside = place < rows, columns < width
    weights = _wide(tl.load(norm + columns, mask=inside, other=0.0))
    values = _normalised(x, weights, inverse, place, columns, rows, width, x_stride)
    largest = tl.load(most + place, mask=known, other=1.0)
    found = values * tl.div_rn(127.0, largest)[:, None] + ROUND
    scaled = (found - ROUND) * tl.div_rn(largest, 127.0)[:, None]
    there = out + place[:, None] * out_pitch + columns[None, :]
    tl.store(there, scaled.to(out.dtype.element_ty), mask=known[:, None] & inside[None, :])


# region: turned
@triton.jit
def _recode_turned(
    x, norm, most, inverse, words,
    rows, width, x_stride, pitch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64) * ROWS
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    weights = _wide(tl.load(norm + columns, mask=columns < width, other=0.0))
    packed = tl.zeros((ROWS // 4, COLUMNS), tl.int32)
    for part in tl.static_range(4):
        place = row + 4 * tl.arange(0, ROWS // 4) + part
        values = _normalised(x, weights, inverse, place, columns, rows, width, x_stride)
        step = tl.div_rn(127.0, tl.load(most + place, mask=place < rows, other=1.0))
        packed = _put(packed, _rounded(values, step[:, None]), part)
    _store_turned(words, packed, row // 4, columns, width, pitch, ROWS // 4)


@triton.jit
def _store_turned(words, packed, first, columns, width, pitch, COUNT: tl.constexpr):
    place = first + tl.arange(0, COUNT)
    there = words + columns.to(tl.int64)[:, None] * pitch + place[None, :]
    kept = (columns < width)[:, None] & (place < pitch)[None, :]
    tl.store(there, tl.trans(packed), mask=kept)


# endregion


def padded(length: int) -> int:
    """Return the bytes of a row of `length` codes: a multiple of PITCH."""
    return -(-length // PITCH) * PITCH


def check_width(width: int) -> None:
    """Raise ValueError beyond what one program may own."""
    if width > WIDEST:
        raise ValueError(f"a row of {width} elements: a program owns up to {WIDEST}")


def check_device(x: Tensor) -> None:
    """Raise ValueError where no kernel can run."""
    if x.device.type != "cuda" and not INTERPRETED:
        problem = f"x is on {x.device}: the layer's kernels need a GPU"
        raise ValueError(f"{problem}, or TRITON_INTERPRET=1 in the environment for a slow test")


def row_options(width: int, share: int) -> dict[str, int]:
    """Return the block of a row of `width` elements, with a warp for each `share` of them."""
    block = max(triton.next_power_of_2(width), 128)
    return {"BLOCK": block, "num_warps": min(max(block // share, 1), 32)}


def tiles(rows: int, width: int, tile: dict[str, Any]) -> tuple[int, int]:
    """Return how many tiles lie across and down; those across a row run side by side."""
    return triton.cdiv(width, tile["COLUMNS"]), triton.cdiv(rows, tile["ROWS"])


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
            **row_options(width, SHARE), **EXACT,
        )  # fmt: skip
    return codes, most, inverse


def recoded(x: Tensor, norm: Tensor, most: Tensor, inverse: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the activations again: x_q [T, K] in `dtype`, or for int8 the codes [K, padded T]."""
    rows, width = x.shape
    turned = dtype == torch.int8
    shape = (width, padded(rows)) if turned else (rows, width)
    out = torch.empty(shape, dtype=dtype, device=x.device)
    target = out.view(torch.int32) if turned else out
    function, tile = (_recode_turned, TURNED) if turned else (_recode_rows, STRIP)
    function[tiles(rows, width, tile)](
        x, norm, most, inverse, target, rows, width, x.stride(0), target.stride(0), **tile, **EXACT
    )
    return out
