"""A gather of rows through shared memory, in every formulation that CuTe DSL offers for the copy.

    out[n] = table[rows[n]], and zeros where rows[n] is -1

A block owns 16 places of the list, a warp every fourth of them. It copies their rows of 512 bf16
into shared memory in one of the `WAYS`, and then reads every element back through the layout that
says where element (place, column) lies.

A swizzle exchanges bits of an offset, and an offset counts elements. `SWIZZLE` exchanges pieces of
8 bf16, which are 16 bytes, by the row's number modulo 8: bits 3 to 5 of the offset by bits 6 to 8.
In 32-bit words the same exchange is that of bits 2 to 4 by bits 5 to 7, and in bytes that of bits
4 to 6 by bits 7 to 9.
"""

from typing import Any

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync

COLUMNS, BLOCK, WARPS, PIECE, CHUNK = 512, 16, 4, 8, 64
PIECES = COLUMNS // PIECE
SWIZZLE = (3, 3, 3)
ROW_BYTES = COLUMNS * 2

SCALAR, PAIR = "scalar", "adjacent pair"
VECTOR, VECTOR_SWIZZLED = "vector copy", "vector copy, swizzled"
WORDS, WORDS_WRONG = "words, layout recast", "words, layout kept"
ASYNC, ASYNC_NARROW, BULK = "asynchronous, 16 bytes", "asynchronous, 4 bytes", "bulk copy"
WAYS = (SCALAR, PAIR, VECTOR, VECTOR_SWIZZLED, WORDS, WORDS_WRONG, ASYNC, ASYNC_NARROW, BULK)
PLAIN = (VECTOR, BULK)  # rows lie in shared memory as in the table


@cute.struct
class Shared:
    """What a block has in shared memory."""

    rows: cute.struct.Align[cute.struct.MemRange[cutlass.BFloat16, BLOCK * COLUMNS], 1024]
    barrier: cute.struct.MemRange[cutlass.Int64, 1]


# region: layout
def layout_of(way: str) -> Any:
    """Return where element (place, column) lies: in whole rows, or swizzled in chunks of 64 columns."""
    if way in PLAIN:
        return cute.make_layout((BLOCK, COLUMNS), stride=(COLUMNS, 1))
    chunks = (CHUNK, COLUMNS // CHUNK)
    plain = cute.make_layout((BLOCK, chunks), stride=(CHUNK, (1, BLOCK * CHUNK)))
    return cute.make_composed_layout(cute.make_swizzle(*SWIZZLE), 0, plain)


def words_of(tile: cute.Tensor, way: str) -> Any:
    """Return the tile as 32-bit words, with its layout recast, or kept as it was for bf16."""
    if way == WORDS:
        return cute.recast_tensor(tile, cutlass.Int32)
    chunks = (CHUNK // 2, COLUMNS // CHUNK)
    plain = cute.make_layout((BLOCK, chunks), stride=(CHUNK // 2, (1, BLOCK * CHUNK // 2)))
    kept = cute.make_composed_layout(cute.make_swizzle(*SWIZZLE), 0, plain)
    return cute.make_tensor(cute.recast_ptr(tile.iterator, dtype=cutlass.Int32), kept)


# endregion


@cute.jit
def piece_of(
    tensor: cute.Tensor, row: Any, piece: Any, count: cutlass.Constexpr = PIECE
):  # fmt: skip
    """Take `count` neighbouring elements of a row, which are aligned to their size: [count, 1]."""
    before = row if cutlass.const_expr(isinstance(row, tuple)) else (row,)
    start = tensor.iterator + cute.crd2idx((*before, piece * count), tensor.layout)
    width = cutlass.const_expr(count * tensor.element_type.width // 8)
    return cute.make_tensor(start.align(width), cute.make_layout((count, 1)))


# region: ways
@cute.jit
def copy_row(
    table: cute.Tensor, tile: cute.Tensor, place: Any, row: Any, lane: Any,
    way: cutlass.Constexpr,
):  # fmt: skip
    """Have a warp copy a row that is there, by plain loads and stores."""
    if cutlass.const_expr(way == SCALAR):
        for step in cutlass.range_constexpr(COLUMNS // 32):
            tile[place, step * 32 + lane] = table[row, step * 32 + lane]
    elif cutlass.const_expr(way == PAIR):
        for step in cutlass.range_constexpr(COLUMNS // 64):
            column = step * 64 + lane * 2
            tile[place, column] = table[row, column]
            tile[place, column + 1] = table[row, column + 1]
    elif cutlass.const_expr(way in (VECTOR, VECTOR_SWIZZLED)):
        for step in cutlass.range_constexpr(PIECES // 32):
            piece = step * 32 + lane
            cute.autovec_copy(piece_of(table, row, piece), piece_of(tile, place, piece))
    else:
        words, source = words_of(tile, way), cute.recast_tensor(table, cutlass.Int32)
        for step in cutlass.range_constexpr(COLUMNS // 64):
            words[place, step * 32 + lane] = source[row, step * 32 + lane]


@cute.jit
def start_copy(
    table: cute.Tensor, tile: cute.Tensor, place: Any, row: Any, lane: Any,
    way: cutlass.Constexpr,
):  # fmt: skip
    """Have a warp ask for a row; where it is padding, the predicate is false and zeros arrive."""
    count = cutlass.const_expr(PIECE if way == ASYNC else 2)
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.BFloat16, num_bits_per_copy=16 * count)
    present = cute.make_rmem_tensor(cute.make_layout((count, 1), stride=(0, 1)), cutlass.Boolean)
    present[0, 0] = row >= 0
    for step in cutlass.range_constexpr(COLUMNS // count // 32):
        piece = step * 32 + lane
        source = piece_of(table, cutlass.max(row, cutlass.Int64(0)), piece, count)
        cute.copy(atom, source, piece_of(tile, place, piece, count), pred=present)


@cute.jit
def start_bulk(table: cute.Tensor, tile: cute.Tensor, place: Any, row: Any, barrier: Any):
    """Ask for a whole row; one thread does, and the barrier counts its bytes."""
    atom = cute.make_copy_atom(cpasync.CopyBulkG2SOp(), cutlass.BFloat16)
    source, target = (piece_of(each, at, 0, COLUMNS) for each, at in ((table, row), (tile, place)))
    cute.copy(atom, source, target, mbar_ptr=barrier)


# endregion


@cute.jit
def clear_row(tile: cute.Tensor, place: Any, lane: Any):
    """Write zeros in place of a row that is padding."""
    zeros = cute.make_rmem_tensor((PIECE, 1), cutlass.BFloat16)
    zeros.fill(0.0)
    for step in cutlass.range_constexpr(PIECES // 32):
        cute.autovec_copy(zeros, piece_of(tile, place, step * 32 + lane))


@cute.jit
def fill(
    table: cute.Tensor, tile: cute.Tensor, place: Any, row: Any, lane: Any, barrier: Any,
    way: cutlass.Constexpr,
):  # fmt: skip
    """Have a warp fill one place of the tile, or ask for it."""
    row = cutlass.Int64(row)
    if cutlass.const_expr(way in (ASYNC, ASYNC_NARROW)):
        start_copy(table, tile, place, row, lane, way)
    elif cutlass.const_expr(way == BULK):
        if row >= 0:
            if lane == 0:
                cute.arch.mbarrier_arrive_and_expect_tx(barrier, ROW_BYTES)
                start_bulk(table, tile, place, row, barrier)
        else:
            clear_row(tile, place, lane)
            if lane == 0:
                cute.arch.mbarrier_arrive(barrier)
    elif row >= 0:
        copy_row(table, tile, place, row, lane, way)
    else:
        clear_row(tile, place, lane)


@cute.kernel
def gather_kernel(table: cute.Tensor, rows: cute.Tensor, out: cute.Tensor, way: cutlass.Constexpr):
    """Copy, wait, read back."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    lane, warp = thread % 32, thread // 32
    shared = cutlass.utils.SmemAllocator().allocate(Shared)  # where both versions have it
    tile = cute.make_tensor(shared.rows.data_ptr(), layout_of(way))
    barrier = shared.barrier.data_ptr()
    if cutlass.const_expr(way == BULK):
        if thread == 0:
            cute.arch.mbarrier_init(barrier, BLOCK)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
    for step in cutlass.range_constexpr(BLOCK // WARPS):
        place = step * WARPS + warp
        fill(table, tile, place, rows[block * BLOCK + place], lane, barrier, way)
    if cutlass.const_expr(way in (ASYNC, ASYNC_NARROW)):
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
    elif cutlass.const_expr(way == BULK):
        cute.arch.mbarrier_wait(barrier, 0)
    cute.arch.sync_threads()
    for step in cutlass.range_constexpr(BLOCK * PIECES // (32 * WARPS)):
        number = step * 32 * WARPS + thread
        place, piece = number // PIECES, number % PIECES
        target = piece_of(out, block * BLOCK + place, piece)
        cute.autovec_copy(piece_of(tile, place, piece), target)


@cute.jit
def gather(
    table: cute.Tensor, rows: cute.Tensor, out: cute.Tensor, way: cutlass.Constexpr, stream: Any
):
    """Launch one block for 16 places: table bf16 [N, 512], rows int32 [n], out bf16 [n, 512]."""
    gather_kernel(table, rows, out, way).launch(
        grid=(cute.size(rows) // BLOCK, 1, 1), block=(32 * WARPS, 1, 1), stream=stream
    )
