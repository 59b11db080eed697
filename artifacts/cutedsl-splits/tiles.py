"""Where a tile of rows lies in shared memory, and which numbers of a product a thread has.

A tile is 64 rows of 576 bf16, in nine chunks of 64 columns: [9][64 rows][64]. Pieces of 16 bytes
are exchanged within a row of a chunk, by the row's number modulo 8. Copies find a piece by
`offsets`, which counts bf16; the matrix unit wants the same exchange of the address itself, which
counts bytes: `operand`.
"""

from typing import Any

import cutlass
from cutlass import BFloat16, Float32, cute
from cutlass.cute.nvgpu import warpgroup

HEADS, CKV, KPE, TILE = 16, 512, 64, 64
COLUMNS, CHUNKS = CKV + KPE, (CKV + KPE) // 64
TILE_ELEMENTS = TILE * COLUMNS
HALF = 128  # threads that fetch, and threads that compute
NOTHING = -float("inf")


# region: units
def offsets(rows: int, chunks: int) -> Any:
    """Return where element (row, column) of chunks of `rows` rows lies, counted in bf16."""
    plain = cute.make_layout((rows, (64, chunks)), stride=(64, (1, rows * 64)))
    return cute.make_composed_layout(cute.make_swizzle(3, 3, 3), 0, plain)


def operand(pointer: Any, layout: Any, kind: Any = BFloat16) -> Any:
    """Return a tensor whose addresses are swizzled, counted in bytes; 1024 divides the pointer."""
    swizzled = cute.recast_ptr(pointer, cute.make_swizzle(3, 4, 3), kind)
    return cute.make_tensor(swizzled, layout)


# endregion


def keys_layout(stages: int) -> Any:
    """Return the ring as keys: [64 rows, 576 columns, stages]."""
    chunks = (64, CHUNKS)
    return cute.make_layout((TILE, chunks, stages), stride=(64, (1, TILE * 64), TILE_ELEMENTS))


def values_layout(stages: int) -> Any:
    """Return the ring as values, turned: [512 columns, 64 rows, stages]."""
    chunks = (64, CHUNKS - 1)
    return cute.make_layout((chunks, TILE, stages), stride=((1, TILE * 64), 64, TILE_ELEMENTS))


def queries_layout() -> Any:
    """Return where a token's queries lie: [16 heads, 576 columns]."""
    return cute.make_layout((HEADS, (64, CHUNKS)), stride=(64, (1, HEADS * 64)))


def weights_layout() -> Any:
    """Return where a tile's weights lie: [16 heads, 64 rows]."""
    return cute.make_layout((HEADS, TILE), stride=(TILE, 1))


def matrix_unit(*, by_rows: bool) -> Any:
    """Return the instruction of 64 x 16 x 16, whose first operand lies by rows or by columns."""
    major = cute.nvgpu.OperandMajorMode
    kind = warpgroup.MmaF16BF16Op(
        BFloat16, Float32, (64, HEADS, 16), warpgroup.OperandSource.SMEM,
        major.K if by_rows else major.MN, major.K,
    )  # fmt: skip
    return cute.make_tiled_mma(kind)


@cute.jit
def product(
    unit: cute.TiledMma, into: cute.Tensor, a: cute.Tensor, b: cute.Tensor,
    fresh: cutlass.Constexpr,
):  # fmt: skip
    """Have the matrix unit compute into = a b if `fresh`, or into += a b, and wait for it."""
    unit.set(warpgroup.Field.ACCUMULATE, not fresh)
    warpgroup.fence()
    for step in cutlass.range_constexpr(cute.size(a, mode=[2])):
        cute.gemm(unit, into, a[None, None, step], b[None, None, step], into)
        unit.set(warpgroup.Field.ACCUMULATE, True)  # noqa: FBT003 - its own way
    warpgroup.commit_group()
    warpgroup.wait_group(0)


def meet() -> None:
    """Wait for the warps that compute."""
    cute.arch.barrier(barrier_id=1, number_of_threads=HALF)


def show_matrix_unit() -> None:
    """Let the matrix unit see what this thread has written to shared memory."""
    cute.arch.fence_proxy("async.shared", space="cta")


def head_of(number: int) -> int:
    """Say which of a thread's four heads the nth number of a product belongs to."""
    return number % 8 // 4 * 2 + number % 2


def head_at(lane: Any, nth: int) -> Any:
    """Say which head a thread's nth is: 2 (lane % 4) + {0, 1, 8, 9}."""
    return lane % 4 * 2 + nth // 2 * 8 + nth % 2


def row_at(thread: Any, number: int) -> Any:
    """Say which row of a product the nth number of a thread is in; a product has 64 rows or eight
    times as many.
    """
    return number // 8 * 64 + thread // 32 * 16 + thread % 32 // 4 + number // 2 % 2 * 8


@cute.jit
def log_of(most: Float32, total: Float32):
    """Return the logarithm of a sum, base 2: minus infinity of nothing."""
    found = Float32(NOTHING)
    if total > 0.0:
        found = most + cute.math.log2(total)
    return found


@cute.jit
def inverse_of(total: Float32):
    """Return what divides by a sum: 0 for a sum of nothing."""
    found = Float32(0.0)
    if total > 0.0:
        found = 1.0 / total
    return found
