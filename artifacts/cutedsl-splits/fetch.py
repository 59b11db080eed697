"""How rows and queries come into shared memory: asked for asynchronously, or loaded and stored.

`target` is a tile, swizzled, whose elements `tiles.offsets` finds; `rows` are those that a block has
written down, of which `count` are there. A place beyond them becomes zeros.
"""

from typing import Any

import cutlass
from cutlass import BFloat16, Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync
from gather import piece_of
from tiles import CHUNKS, CKV, COLUMNS, HALF, HEADS, KPE, offsets

# A place that is not loaded is written down as this, one that is loaded in vain as -2 - row.
PADDING = -1


@cute.jit
def ask_queries(shared: Any, q_nope: cute.Tensor, q_pe: cute.Tensor, token: Int32, thread: Int32):
    """Ask for the queries of a token: nine pieces a thread."""
    target = cute.make_tensor(shared.queries.data_ptr(), offsets(HEADS, CHUNKS))
    atom = copy_atom()
    for step in cutlass.range_constexpr(HEADS * CKV // 8 // HALF):
        head, piece = (step * HALF + thread) // 64, thread % 64
        cute.copy(atom, piece_of(q_nope, (token, head), piece), piece_of(target, head, piece))
    head, piece = thread // 8, thread % 8
    cute.copy(atom, piece_of(q_pe, (token, head), piece), piece_of(target, head, 64 + piece))
    cute.arch.cp_async_commit_group()


def copy_atom() -> Any:
    """Return an asynchronous copy of 16 bytes, past the first cache."""
    kind = cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL)
    return cute.make_copy_atom(kind, BFloat16, num_bits_per_copy=128)


@cute.jit
def row_written(rows: cute.Tensor, number: Int32, count: Int32):
    """Return the row to load for place `number` of the split, or a negative number where there is none."""
    found = Int32(PADDING)
    if number < count:
        found = rows[number]
    return Int64(cutlass.max(found, -2 - found))


# region: fetch
@cute.jit
def ask_rows(
    ckv: cute.Tensor, kpe: cute.Tensor, target: cute.Tensor, rows: cute.Tensor, before: Int32, count: Int32,
    first: Int32, lane: Int32,
):  # fmt: skip
    """Ask for four rows of a tile, `first` and every fourth; where there is none, zeros arrive."""
    atom = copy_atom()
    present = cute.make_rmem_tensor(cute.make_layout((8, 1), stride=(0, 1)), cutlass.Boolean)
    for nth in cutlass.range_constexpr(4):
        place = first + nth * 4
        row = row_written(rows, before + place, count)
        present[0, 0] = row >= 0
        row = cutlass.max(row, Int64(0))
        for half in cutlass.range_constexpr(2):
            piece = half * 32 + lane
            cute.copy(atom, piece_of(ckv, row, piece), piece_of(target, place, piece), pred=present)
    place = first + lane // 8 * 4
    row = row_written(rows, before + place, count)
    present[0, 0] = row >= 0
    row, piece = cutlass.max(row, Int64(0)), lane % 8
    cute.copy(atom, piece_of(kpe, row, piece), piece_of(target, place, 64 + piece), pred=present)


# endregion


@cute.jit
def load_rows(
    ckv: cute.Tensor, kpe: cute.Tensor, target: cute.Tensor, rows: cute.Tensor, before: Int32, count: Int32,
    first: Int32, lane: Int32, load: cutlass.Constexpr,
):  # fmt: skip
    """Load and store four rows of a tile, through registers: by pieces of 16 bytes, or one bf16 at a time."""
    zeros = cute.make_rmem_tensor((8, 1), BFloat16)
    zeros.fill(0.0)
    for nth in cutlass.range_constexpr(4):
        place = first + nth * 4
        row = row_written(rows, before + place, count)
        if row < 0:
            for step in cutlass.range_constexpr(3):
                if step * 32 + lane < COLUMNS // 8:
                    cute.autovec_copy(zeros, piece_of(target, place, step * 32 + lane))
        elif cutlass.const_expr(load == "scalar"):
            for step in cutlass.range_constexpr(CKV // 32):
                target[place, step * 32 + lane] = ckv[row, step * 32 + lane]
            for step in cutlass.range_constexpr(KPE // 32):
                target[place, CKV + step * 32 + lane] = kpe[row, step * 32 + lane]
        else:
            for step in cutlass.range_constexpr(CKV // 8 // 32):
                piece = step * 32 + lane
                cute.autovec_copy(piece_of(ckv, row, piece), piece_of(target, place, piece))
            if lane < KPE // 8:
                cute.autovec_copy(piece_of(kpe, row, lane), piece_of(target, place, 64 + lane))
