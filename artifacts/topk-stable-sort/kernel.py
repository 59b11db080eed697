"""Column sums in a chosen order of additions, and five ways to take the top k of ragged rows.

`sum_rows` computes out[n] = sum over m of in[m, n] in float32, in the order of ATen's
`reduce_kernel`: HEIGHT lanes share a column, each keeps four running sums, adds them from left to
right, and the lanes meet by halves. One program owns BLOCK columns of one matrix and all its rows.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

BLOCK = 128
RAGGED_BLOCK = 512
SHARED_HEIGHT = 4  # The only height above 1 that ATen takes for 64 rows and two or more columns.
STABLE_FROM = 33  # The smallest k, beside 1, for which ATen sorts its top k stably.


# region: order
@triton.jit
def add_in_order(
    matrix, stride, column, inside, ROWS: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr
):
    """Add ROWS rows of one tile of BLOCK columns; every addition is written out."""
    row = tl.arange(0, HEIGHT)[:, None]
    first = tl.zeros([HEIGHT, BLOCK], tl.float32)
    second = tl.zeros([HEIGHT, BLOCK], tl.float32)
    third = tl.zeros([HEIGHT, BLOCK], tl.float32)
    fourth = tl.zeros([HEIGHT, BLOCK], tl.float32)
    for start in tl.range(0, ROWS, 4 * HEIGHT, loop_unroll_factor=4):
        first += load_rows(matrix, stride, start + row, column, inside, ROWS)
        second += load_rows(matrix, stride, start + HEIGHT + row, column, inside, ROWS)
        third += load_rows(matrix, stride, start + 2 * HEIGHT + row, column, inside, ROWS)
        fourth += load_rows(matrix, stride, start + 3 * HEIGHT + row, column, inside, ROWS)
    return halve(((first + second) + third) + fourth, HEIGHT, BLOCK)


@triton.jit
def load_rows(matrix, stride, row, column, inside, ROWS: tl.constexpr):
    """Load the tile's part of the rows `row`; a row past the last one reads as zero."""
    at = matrix + row.to(tl.int64) * stride + column[None, :]
    return tl.load(at, inside[None, :] & (row < ROWS), 0.0)


@triton.jit
def halve(total, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    """Add the upper half of [HEIGHT, BLOCK] to the lower until one row is left."""
    if HEIGHT > 1:
        pairs = tl.permute(tl.reshape(total, [2, HEIGHT // 2, BLOCK]), (1, 2, 0))
        low, high = tl.split(pairs)
        total = halve(low + high, HEIGHT // 2, BLOCK)
    return tl.reshape(total, [BLOCK])


# endregion


@triton.jit(do_not_specialize=["columns"])
def _sum_rows(
    matrix, out, columns, stride, ROWS: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr
):
    column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    total = add_in_order(matrix, stride, column, inside, ROWS, HEIGHT, BLOCK)
    tl.store(out + column, total, inside)


# region: ragged
@triton.jit
def _sum_ragged(
    matrices,
    out,
    lengths,
    shared,
    width,
    ROWS: tl.constexpr,
    HEIGHT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    item = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0).to(tl.int64) * BLOCK
    column = start + tl.arange(0, BLOCK)
    # Masked by the width, not by the length: its alignment is known, so loads stay 16 bytes wide.
    inside = column < width
    length = tl.load(lengths + item)
    matrix = matrices + item * ROWS * width
    total = tl.full([BLOCK], float("-inf"), tl.float32)
    if start < length:
        if tl.load(shared + item) != 0:
            total = add_in_order(matrix, width, column, inside, ROWS, HEIGHT, BLOCK)
        else:
            total = add_in_order(matrix, width, column, inside, ROWS, 1, BLOCK)
    tl.store(out + item * width + column, tl.where(column < length, total, float("-inf")), inside)


# endregion


@triton.jit
def _sum_where_they_lie(
    flat,
    out,
    starts,
    shared,
    width,
    ROWS: tl.constexpr,
    HEIGHT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    item = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(starts + item)
    length = tl.load(starts + item + 1) - start
    matrix = flat + start * ROWS
    total = tl.full([BLOCK], float("-inf"), tl.float32)
    if tl.program_id(0) * BLOCK < length:
        if tl.load(shared + item) != 0:
            fours = length // 4 * 4  # The length again; now its alignment is known.
            total = add_in_order(matrix, fours, column, column < fours, ROWS, HEIGHT, BLOCK)
        else:
            total = add_in_order(matrix, length, column, column < length, ROWS, 1, BLOCK)
    total = tl.where(column < length, total, float("-inf"))
    tl.store(out + item * width + column, total, column < width)


@triton.jit
def _pad_rows(flat, starts, out, width, BLOCK: tl.constexpr):
    item = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(starts + item)
    inside = column < tl.load(starts + item + 1) - start
    scores = tl.load(flat + start + column, inside, float("-inf"))
    tl.store(out + item * width + column, scores, column < width)


def sum_rows(matrix: torch.Tensor, height: int) -> torch.Tensor:
    """Sum fp32 `[rows, columns]` over rows, `height` (a power of two) lanes to a column."""
    rows, columns = matrix.shape
    if matrix.dtype != torch.float32 or matrix.stride(1) != 1:
        message = f"need float32 with adjacent columns, not {matrix.dtype} {matrix.stride()}"
        raise ValueError(message)
    out = torch.empty(columns, dtype=torch.float32, device=matrix.device)
    grid = (triton.cdiv(columns, BLOCK),)
    _sum_rows[grid](matrix, out, columns, matrix.stride(0), rows, height, BLOCK)
    return out


def sum_ragged(matrices: torch.Tensor, lengths: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
    """Sum fp32 `[batch, rows, width]` over rows; `-inf` from column `lengths[item]` on.

    int32 `shared[item]` is 1 where four lanes share a column and 0 where one owns it: the bits of
    `torch.sum` of that item alone, whatever the width of the others. Returns `[batch, width]`.
    """
    batch, rows, width = matrices.shape
    if matrices.dtype != torch.float32 or not matrices.is_contiguous():
        message = f"need contiguous float32, not {matrices.dtype} {matrices.stride()}"
        raise ValueError(message)
    out = torch.empty(batch, width, dtype=torch.float32, device=matrices.device)
    grid = (triton.cdiv(width, RAGGED_BLOCK), batch)
    _sum_ragged[grid](matrices, out, lengths, shared, width, rows, SHARED_HEIGHT, RAGGED_BLOCK)
    return out


def sum_where_they_lie(
    flat: torch.Tensor, starts: torch.Tensor, shared: torch.Tensor, width: int, rows: int
) -> torch.Tensor:
    """Sum ragged matrices over their rows: the result of `sum_ragged`, and nothing to pad.

    Fp32 `flat` holds one contiguous `[rows, n]` after another; int64 `starts` `[batch + 1]` counts
    the columns before each. Only an item whose n is a multiple of 4 may have `shared` set.
    """
    batch = starts.numel() - 1
    out = torch.empty(batch, width, dtype=torch.float32, device=flat.device)
    grid = (triton.cdiv(width, RAGGED_BLOCK), batch)
    _sum_where_they_lie[grid](flat, out, starts, shared, width, rows, SHARED_HEIGHT, RAGGED_BLOCK)
    return out


def sum_twice(matrices: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
    """Sum fp32 `[batch, rows, width]` over rows by two calls of `torch.sum`; `width` is 4 k.

    The second call leaves out the last column, so ATen takes it for an odd width and adds in the
    other order. `shared` chooses as in `sum_ragged`; the last column is of use only where it is 1.
    """
    if matrices.shape[-1] % 4:
        message = f"need a width that is a multiple of 4, not {matrices.shape[-1]}"
        raise ValueError(message)
    four_lanes = matrices.sum(1)
    one_lane = torch.nn.functional.pad(matrices[:, :, :-1].sum(1), (0, 1))
    return torch.where(shared[:, None] != 0, four_lanes, one_lane)


def pad_by_kernel(flat: torch.Tensor, starts: torch.Tensor, width: int) -> torch.Tensor:
    """Lay rows `flat[starts[i]:starts[i + 1]]` out as `[batch, width]`, then `-inf`, in one launch.

    `starts` is int64 `[batch + 1]` on the device.
    """
    batch = starts.numel() - 1
    out = torch.empty(batch, width, dtype=flat.dtype, device=flat.device)
    _pad_rows[(triton.cdiv(width, 1024), batch)](flat, starts, out, width, 1024)
    return out


def pad_by_copies(rows: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """Lay ragged rows out as `[batch, width]` filled up with `-inf`, one copy a row."""
    shape = (len(rows), width)
    out = torch.full(shape, float("-inf"), dtype=rows[0].dtype, device=rows[0].device)
    for target, row in zip(out, rows, strict=True):
        target[: row.numel()].copy_(row)
    return out


def per_item_topk(rows: Sequence[torch.Tensor], k: int) -> torch.Tensor:
    """Indices `[batch, k]` by one `torch.topk` a row, each written where it belongs."""
    shape, device = (len(rows), k), rows[0].device
    values = torch.empty(shape, dtype=rows[0].dtype, device=device)
    indices = torch.empty(shape, dtype=torch.int64, device=device)
    for row, value, index in zip(rows, values, indices, strict=True):
        torch.topk(row, k, out=(value, index))
    return indices


def padded_topk(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Indices `[batch, k]` by one `torch.topk` over the padded matrix."""
    return torch.topk(scores, k).indices


def padded_sort(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Indices `[batch, k]` by one stable descending sort of the padded matrix."""
    return torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :k]


# region: stable
def stable_topk(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Indices `[..., k]` by one `torch.topk` that ranks ties by index also for `k` from 2 to 32.

    Ask for 33 and keep `k`: 33 are sorted by a radix sort, which is stable. Needs rows of 33 scores.
    Holds without NaN and without -0; raises what `torch.topk` raises for shorter rows.
    """
    return torch.topk(scores, max(k, STABLE_FROM)).indices[..., :k]


def cleaned(scores: torch.Tensor) -> torch.Tensor:
    """Make every zero +0 and every NaN the usual one: then top-k and sort rank alike."""
    return (scores + 0.0).masked_fill_(scores.isnan(), float("nan"))


# endregion
