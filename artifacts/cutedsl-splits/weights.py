"""From the scores of a tile to weights: maxima agreed on by four warps, outputs shrunk where they rise.

A thread has the scores of two rows and four heads, as `tiles` says. `shared` holds the rows that
were written down, the maxima of two tiles in turns [2][4 warps][16 heads], and the weights that
the matrix unit reads.
"""

from typing import Any

import cutlass
from cutlass import BFloat16, Float32, Int32, cute
from tiles import HEADS, NOTHING, TILE, head_at, head_of, meet, offsets, row_at, show_matrix_unit


@cute.jit
def weigh_tile(
    shared: Any, logits: cute.Tensor, found: cute.Tensor, most: cute.Tensor, total: cute.Tensor, tile: Int32,
    count: Int32, scale: Float32, thread: Int32, compact: cutlass.Constexpr, share: cutlass.Constexpr,
):  # fmt: skip
    """Leave the weights of a tile in shared memory; `most`, `total` and `found` are as of all tiles so far.

    Where the list is not `compact`, a tile may be all padding: then its maximum is that of nothing.
    """
    higher, shrink = cute.make_rmem_tensor(4, Float32), cute.make_rmem_tensor(4, Float32)
    higher.fill(NOTHING)
    scale_and_mask(shared, logits, higher, tile * TILE, count, scale, thread, compact, share)
    agree(shared, higher, tile, thread)
    base = cute.make_rmem_tensor(4, Float32)
    for head in cutlass.range_constexpr(4):
        higher[head] = cute.arch.fmax(higher[head], most[head])
        base[head] = higher[head]
        if cutlass.const_expr(not compact):  # noqa: SIM102 - one is known when it is compiled
            if higher[head] == NOTHING:
                base[head] = Float32(0.0)
        shrink[head] = cute.math.exp2(most[head] - base[head], fastmath=True)
        most[head] = higher[head]
        total[head] = total[head] * shrink[head]
    target = cute.make_tensor(shared.weights.data_ptr(), offsets(HEADS, 1))
    for number in cutlass.range_constexpr(8):
        nth = cutlass.const_expr(head_of(number))
        weight = cute.math.exp2(logits[number] - base[nth], fastmath=True)
        total[nth] = total[nth] + weight
        target[head_at(thread, nth), row_at(thread, number)] = weight.to(BFloat16)
    show_matrix_unit()
    for number in cutlass.range_constexpr(cute.size(found)):
        found[number] = found[number] * shrink[head_of(number)]
    meet()


@cute.jit
def scale_and_mask(
    shared: Any, logits: cute.Tensor, higher: cute.Tensor, before: Int32, count: Int32, scale: Float32,
    thread: Int32, compact: cutlass.Constexpr, share: cutlass.Constexpr,
):  # fmt: skip
    """Scale the logits, and make those of no row minus infinity; raise `higher` to their maxima."""
    rows = cute.make_tensor(shared.rows.data_ptr(), cute.make_layout(share))
    for number in cutlass.range_constexpr(8):
        nth = cutlass.const_expr(head_of(number))
        row = before + row_at(thread, number)
        value = logits[number] * scale
        if row >= count:
            value = Float32(NOTHING)
        elif cutlass.const_expr(not compact):  # noqa: SIM102 - one is known when it is compiled
            if rows[row] < 0:
                value = Float32(NOTHING)
        logits[number] = value
        higher[nth] = cute.arch.fmax(higher[nth], value)


@cute.jit
def agree(shared: Any, higher: cute.Tensor, tile: Int32, thread: Int32):
    """Raise `higher` to the maxima of all rows of the tile, which sixteen lanes of four warps have."""
    lane, warp = thread % 32, thread // 32
    maxima = maxima_of(shared)
    for head in cutlass.range_constexpr(4):
        for distance in cutlass.range_constexpr(2, 5):
            other = cute.arch.shuffle_sync_bfly(higher[head], offset=1 << distance)
            higher[head] = cute.arch.fmax(higher[head], other)
    if lane < 4:
        for head in cutlass.range_constexpr(4):
            maxima[tile % 2, warp, head_at(lane, head)] = higher[head]
    meet()
    for head in cutlass.range_constexpr(4):
        for other in cutlass.range_constexpr(4):
            seen = maxima[tile % 2, other, head_at(lane, head)]
            higher[head] = cute.arch.fmax(higher[head], seen)


@cute.jit
def add_sums(shared: Any, total: cute.Tensor, thread: Int32):
    """Add the weights of each head over the lanes and warps that had its rows."""
    lane, warp = thread % 32, thread // 32
    table = maxima_of(shared)
    for head in cutlass.range_constexpr(4):
        for distance in cutlass.range_constexpr(2, 5):
            other = cute.arch.shuffle_sync_bfly(total[head], offset=1 << distance)
            total[head] = total[head] + other
    meet()  # the maxima of the last tile have been read
    if lane < 4:
        for head in cutlass.range_constexpr(4):
            table[0, warp, head_at(lane, head)] = total[head]
    meet()
    for head in cutlass.range_constexpr(4):
        total[head] = Float32(0.0)
        for other in cutlass.range_constexpr(4):
            total[head] = total[head] + table[0, other, head_at(lane, head)]


def maxima_of(shared: Any) -> Any:
    """Return the table of maxima: [2 tiles in turns, 4 warps, 16 heads]."""
    layout = cute.make_layout((2, 4, HEADS), stride=(4 * HEADS, HEADS, 1))
    return cute.make_tensor(shared.maxima.data_ptr(), layout)
