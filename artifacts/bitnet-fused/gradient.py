"""The backward pass around its products: the gradient as int8 codes, and the gradient of the norm.

    by row:      code[t, n] = round(g[t, n] · 127 / r[t])      r[t] = max |g[t, :]|
    by column:   code[n, t] = round(h[t, n] · 127 / c[n])      h[t, n] = g[t, n] · m[t],  c[n] = max |h[:, n]|
    dx = root · (w · d) − x · root³ / K · Σ (w · d · x)         dw = Σ over rows of d · x · root

m is the row's maximum of the activations' codes: within a sum over rows their scales cannot be taken out,
so they are taken in before h is quantised. `d` is the gradient of the normalised activations.
A program of `_extents` owns a band of rows and writes r and, for its band, c; `_fold` folds the bands in
order; a program of `_code_gradient` owns a tile. A program of `_norm_backward` owns every `programs`-th row
and adds its share of dw in that order: no atomics, the same bits every time.
"""

import torch
import triton
import triton.language as tl
from kernel import EXACT, INTERPRETED, TURNED, WIDEST, _code, _magnitude, padded, row_options
from product import multiprocessors
from torch import Tensor

SMALLEST = tl.constexpr(1e-30)
BAND = 32


@triton.jit
def _code_rows(gradient, codes, most, width, stride, pitch, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    here = gradient + row * stride + columns
    values = tl.load(here, mask=columns < width, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(_magnitude(values), axis=0), SMALLEST)
    found = _code_of(values, tl.div_rn(127.0, largest))
    tl.store(codes + row * pitch + columns, found, mask=columns < pitch)
    tl.store(most + row, largest)


@triton.jit
def _code_of(values, step):
    return _code(values, step).to(tl.int8)


@triton.jit
def _extents(
    gradient, weights, most, bands, rows, width, stride, steps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    band = tl.program_id(0).to(tl.int64)
    place = band * ROWS + tl.arange(0, ROWS)
    known = place < rows
    weight = tl.load(weights + place, mask=known, other=0.0)
    largest = tl.full((ROWS,), SMALLEST, tl.float32)
    for step in range(STEPS if STEPS else steps):  # noqa: FURB110 - an interpreter needs a constant
        columns = step * COLUMNS + tl.arange(0, COLUMNS)
        inside = columns < width
        here = gradient + place[:, None] * stride + columns[None, :]
        values = tl.load(here, mask=known[:, None] & inside[None, :], other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.max(_magnitude(values), axis=1))
        weighed = tl.max(_magnitude(values * weight[:, None]), axis=0)
        tl.store(bands + band * width + columns, weighed, mask=inside)
    tl.store(most + place, largest, mask=known)


@triton.jit
def _fold(bands, most, count, width, BLOCK: tl.constexpr, BANDS: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    largest = tl.full((BLOCK,), SMALLEST, tl.float32)
    first = 0
    while first < count:
        band = first + tl.arange(0, BANDS)
        here = bands + band.to(tl.int64)[:, None] * width + columns[None, :]
        found = tl.load(here, mask=(band < count)[:, None] & inside[None, :], other=0.0)
        largest = tl.maximum(largest, tl.max(found, axis=0))
        first += BANDS
    tl.store(most + columns, largest, mask=inside)


@triton.jit
def _code_gradient(
    gradient, weights, row_most, column_most, by_row, by_column,
    rows, width, stride, row_pitch, column_pitch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known, inside = place < rows, columns < width
    here = gradient + place[:, None] * stride + columns[None, :]
    values = tl.load(here, mask=known[:, None] & inside[None, :], other=0.0).to(tl.float32)
    step = tl.div_rn(127.0, tl.load(row_most + place, mask=known, other=1.0))
    there = by_row + place[:, None] * row_pitch + columns[None, :]
    kept = known[:, None] & (columns < row_pitch)[None, :]
    tl.store(there, _code_of(values, step[:, None]), mask=kept)
    weight = tl.load(weights + place, mask=known, other=0.0)
    step = tl.div_rn(127.0, tl.load(column_most + columns, mask=inside, other=1.0))
    found = _code_of(values * weight[:, None], step[None, :])
    there = by_column + columns.to(tl.int64)[:, None] * column_pitch + place[None, :]
    kept = inside[:, None] & (place < column_pitch)[None, :]
    tl.store(there, tl.trans(found), mask=kept)


# region: norm
@triton.jit
def _norm_backward(
    upstream, scale, x, norm, inverse, dx, sums,
    rows, width, x_stride,
    SCALE: tl.constexpr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    size = 1.0
    if SCALE:
        size = tl.load(scale)
    total = tl.zeros((BLOCK,), tl.float32)
    row = tl.program_id(0)
    while row < rows:
        place = row.to(tl.int64)
        given = tl.load(upstream + place * width + columns, mask=inside, other=0.0).to(tl.float32)
        values = tl.load(x + place * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        given *= size
        root = tl.load(inverse + place)
        values *= root
        total += given * values
        given *= tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(given * values, axis=0) / width
        found = (given - values * mean) * root
        tl.store(dx + place * width + columns, found.to(dx.dtype.element_ty), mask=inside)
        row += PROGRAMS
    tl.store(sums + tl.program_id(0).to(tl.int64) * width + columns, total, mask=inside)


# endregion


def rows_of_gradient(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise g [T, N] by row; return codes int8 [T, padded N] and r float32 [T]."""
    rows, width = gradient.shape
    check_width(width)
    codes = gradient.new_empty((rows, padded(width)), dtype=torch.int8)
    most = gradient.new_empty(rows, dtype=torch.float32)
    _code_rows[(rows,)](
        gradient, codes, most, width, gradient.stride(0), codes.stride(0),
        **row_options(width), **EXACT,
    )  # fmt: skip
    return codes, most


def both_of_gradient(gradient: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Quantise g [T, N] by row, and g times its row's weight by column.

    Return codes int8 [T, padded N], r float32 [T], codes int8 [N, padded T], c float32 [N].
    """
    rows, width = gradient.shape
    options = {"device": gradient.device, "dtype": torch.float32}
    count, across = triton.cdiv(rows, BAND), triton.cdiv(width, 256)
    most, bands = torch.empty(rows, **options), torch.empty((count, width), **options)
    column_most = torch.empty(width, **options)
    _extents[(count,)](
        gradient, weights, most, bands, rows, width, gradient.stride(0), across,
        ROWS=BAND, COLUMNS=256, STEPS=across if INTERPRETED else 0, num_warps=4,
    )  # fmt: skip
    _fold[(triton.cdiv(width, 64),)](bands, column_most, count, width, BLOCK=64, BANDS=64)
    by_row = gradient.new_empty((rows, padded(width)), dtype=torch.int8)
    by_column = gradient.new_empty((width, padded(rows)), dtype=torch.int8)
    _code_gradient[(triton.cdiv(rows, 128), triton.cdiv(width, 64))](
        gradient, weights, most, column_most, by_row, by_column, rows, width,
        gradient.stride(0), by_row.stride(0), by_column.stride(0), **TURNED, **EXACT,
    )  # fmt: skip
    return by_row, most, by_column, column_most


def norm_backward(
    upstream: Tensor, scale: Tensor | None, x: Tensor, norm: Tensor, inverse: Tensor
) -> tuple[Tensor, Tensor]:
    """Return dx [T, K] as x, and dw [K] as the norm's weight, of d = upstream · scale [T, K]."""
    rows, width = x.shape
    check_width(width)
    programs = min(rows, programs_of(x.device))
    dx = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    sums = torch.empty((programs, width), dtype=torch.float32, device=x.device)
    _norm_backward[(programs,)](
        upstream, inverse if scale is None else scale, x, norm, inverse, dx, sums,
        rows, width, x.stride(0), SCALE=scale is not None, PROGRAMS=programs, **row_options(width, 512),
    )  # fmt: skip
    return dx, sums.sum(0).to(norm.dtype)


def programs_of(device: torch.device) -> int:
    """Return how many programs share the rows: four a multiprocessor; few in the interpreter."""
    return 4 * multiprocessors(device) if device.type == "cuda" else 3


def check_width(width: int) -> None:
    """Raise ValueError beyond what one program may own."""
    if width > WIDEST:
        raise ValueError(f"a row of {width} elements: a program owns up to {WIDEST}")
