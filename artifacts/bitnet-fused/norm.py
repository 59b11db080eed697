"""The gradient of the RMSNorm before the layer.

    dx = root · (w · d) − x · root³ / K · Σ (w · d · x)         dw = Σ over rows of d · x · root

`d` is the gradient of the normalised activations, root their 1 / rms, w the norm's weight.
A program of `_norm_backward` owns every `programs`-th row, asks for the next one before it works on one, and
adds its share of dw in that order; `_add_up` adds the shares: no atomics, the same bits every time.
"""

import torch
import triton
import triton.language as tl
from kernel import _wide, check_width, row_options
from product import multiprocessors
from torch import Tensor

SHARE = 512  # elements of a row to a warp
PROGRAMS = 2  # to a multiprocessor, of 8 warps
AHEAD = True
ADD = {"BLOCK": 32, "BANDS": 128, "num_warps": 4}


# region: norm
@triton.jit(do_not_specialize=["programs"])
def _norm_backward(
    upstream, scale, x, norm, inverse, dx, sums,
    rows, width, x_stride, programs,
    SCALE: tl.constexpr, AHEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    size = 1.0
    if SCALE:
        size = tl.load(scale)
    weights = tl.load(norm + columns, mask=inside, other=0.0)
    total = tl.zeros((BLOCK,), tl.float32)
    row = tl.program_id(0).to(tl.int64)
    next_given = tl.load(upstream + row * width + columns, mask=inside, other=0.0)
    next_values = tl.load(x + row * x_stride + columns, mask=inside, other=0.0)
    while row < rows:
        place = row
        if not AHEAD:
            next_given = tl.load(upstream + row * width + columns, mask=inside, other=0.0)
            next_values = tl.load(x + row * x_stride + columns, mask=inside, other=0.0)
            weights = tl.load(norm + columns, mask=inside, other=0.0)
        given, values = _wide(next_given) * size, _wide(next_values)
        row += programs
        if AHEAD:
            more = inside & (row < rows)
            next_given = tl.load(upstream + row * width + columns, mask=more, other=0.0)
            next_values = tl.load(x + row * x_stride + columns, mask=more, other=0.0)
        root = tl.load(inverse + place)
        values *= root
        total += given * values
        given *= _wide(weights)
        mean = tl.sum(given * values, axis=0) / width
        found = (given - values * mean) * root
        tl.store(dx + place * width + columns, found.to(dx.dtype.element_ty), mask=inside)
    tl.store(sums + tl.program_id(0).to(tl.int64) * width + columns, total, mask=inside)


@triton.jit(do_not_specialize=["count"])
def _add_up(sums, out, count, width, BLOCK: tl.constexpr, BANDS: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    total = tl.zeros((BANDS, BLOCK), tl.float32)
    start = 0
    while start < count:
        band = start + tl.arange(0, BANDS)
        here = sums + band.to(tl.int64)[:, None] * width + columns[None, :]
        total += tl.load(here, mask=(band < count)[:, None] & inside[None, :], other=0.0)
        start += BANDS
    tl.store(out + columns, tl.sum(total, axis=0).to(out.dtype.element_ty), mask=inside)


# endregion


def norm_backward(
    upstream: Tensor, scale: Tensor | None, x: Tensor, norm: Tensor, inverse: Tensor
) -> tuple[Tensor, Tensor]:
    """Return dx [T, K] as x, and dw [K] as the norm's weight, of d = upstream · scale [T, K]."""
    rows, width = x.shape
    check_width(width)
    options = row_options(width, SHARE)
    programs = min(rows, programs_of(x.device, options["num_warps"]))
    dx = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    sums = torch.empty((programs, width), dtype=torch.float32, device=x.device)
    _norm_backward[(programs,)](
        upstream, inverse if scale is None else scale, x, norm, inverse, dx, sums,
        rows, width, x.stride(0), programs,
        SCALE=scale is not None, AHEAD=AHEAD and options["num_warps"] < 32, **options,
    )  # fmt: skip
    dnorm = torch.empty_like(norm)
    _add_up[(triton.cdiv(width, ADD["BLOCK"]),)](sums, dnorm, programs, width, **ADD)
    return dx, dnorm


def programs_of(device: torch.device, warps: int) -> int:
    """Return how many programs share the rows: all that fit beside one another; few in the interpreter."""
    if device.type != "cuda":
        return 3
    return max(PROGRAMS * 8 // warps, 1) * multiprocessors(device)
