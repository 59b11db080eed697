"""The rule for a swizzle's units, on the host: write a tile in one way, read every element in another.

CuTe DSL compiles a function without a kernel for the processor as well, so that a layout can be
tried without a GPU.
"""

from typing import Any

import cutlass
import tiles
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack
from gather import BLOCK, COLUMNS, PIECES, WORDS, WORDS_WRONG, layout_of, piece_of, words_of
from torch import Tensor

BY_PIECES, BY_ELEMENTS, BY_WORDS, BY_WORDS_KEPT = (
    "pieces of 16 bytes", "elements", WORDS, WORDS_WRONG,
)  # fmt: skip
WRITERS = (BY_PIECES, BY_ELEMENTS, BY_WORDS, BY_WORDS_KEPT)


@cute.jit
def through(
    source: cute.Tensor, memory: cute.Tensor, target: cute.Tensor, writer: cutlass.Constexpr
):
    """Write [16, 512] in the way of `writer`, and read it element by element."""
    tile = cute.make_tensor(memory.iterator, layout_of("swizzled"))
    for place in range(BLOCK):
        if cutlass.const_expr(writer == BY_PIECES):
            for piece in range(PIECES):
                cute.autovec_copy(piece_of(source, place, piece), piece_of(tile, place, piece))
        elif cutlass.const_expr(writer == BY_ELEMENTS):
            for column in range(COLUMNS):
                tile[place, column] = source[place, column]
        else:
            words, from_words = words_of(tile, writer), cute.recast_tensor(source, cutlass.Int32)
            for word in range(COLUMNS // 2):
                words[place, word] = from_words[place, word]
    for place in range(BLOCK):
        for column in range(COLUMNS):
            target[place, column] = tile[place, column]


@cute.jit
def show(offsets: cute.Tensor, bits: cutlass.Constexpr):
    """Write down the byte in which each word of a swizzled tile lies, for words of `bits` bits."""
    layout = cute.recast_layout(bits, 16, layout_of("swizzled"))
    for place in range(BLOCK):
        for word in range(COLUMNS * 16 // bits):
            offsets[place, word] = cute.crd2idx((place, word), layout) * (bits // 8)


def misplaced(writer: str) -> int:
    """Count the elements that are not read where they were written."""
    source = torch.arange(BLOCK * COLUMNS, dtype=torch.int16).view(BLOCK, COLUMNS)
    memory, target = (
        torch.full((2 * BLOCK * COLUMNS,), -1, dtype=torch.int16),
        torch.empty_like(source),
    )
    through(*map(view, (source, memory, target)), writer)
    return int((source != target).sum())


def view(tensor: Tensor) -> Any:
    """Wrap a tensor of 16-bit numbers, which a host's compiler takes; the bits are those of bf16."""
    return from_dlpack(tensor, assumed_align=16)


def offsets(bits: int) -> Tensor:
    """Return the byte of each word of `bits` bits of the swizzled tile: int32 [16, words]."""
    found = torch.empty((BLOCK, COLUMNS * 16 // bits), dtype=torch.int32)
    show(view(found), bits)
    return found


# region: apart
@cute.jit
def number_elements(copied_to: cute.Tensor, seen_at: cute.Tensor, kind: cutlass.Constexpr):
    """Number a tile's elements through the layout of the copies, and through the matrix unit's tensor."""
    rows, chunks, layout = cutlass.const_expr(OPERANDS[kind])
    copied = cute.make_tensor(copied_to.iterator, tiles.offsets(rows, chunks))
    seen = tiles.operand(seen_at.iterator.align(1024), layout(), cutlass.Int16)
    columns = cutlass.const_expr(512 if kind == "values" else chunks * 64)
    for row in range(rows):
        for column in range(columns):
            number = (row * columns + column).to(cutlass.Int16)
            copied[row, column] = number
            if cutlass.const_expr(kind == "values"):
                seen[column, row, 0] = number
            elif cutlass.const_expr(kind == "keys"):
                seen[row, column, 0] = number
            else:
                seen[row, column] = number


# endregion

OPERANDS = {  # rows, chunks of the tile that copies fill, and the matrix unit's layout
    "keys": (tiles.TILE, tiles.CHUNKS, lambda: tiles.keys_layout(1)),
    "values": (tiles.TILE, tiles.CHUNKS, lambda: tiles.values_layout(1)),
    "queries": (tiles.HEADS, tiles.CHUNKS, tiles.queries_layout),
    "weights": (tiles.HEADS, 1, tiles.weights_layout),
}


def apart() -> dict[str, int]:
    """Count the bf16 of each operand that copies and the matrix unit find at different addresses."""
    found = {}
    for kind in OPERANDS:
        copied, seen = aligned(tiles.TILE_ELEMENTS), aligned(tiles.TILE_ELEMENTS)
        number_elements(view(copied), view(seen), kind)
        found[kind] = int((copied != seen).sum())
    return found


def aligned(count: int) -> Tensor:
    """Return int16 [count] of -1, from an address that 1024 divides: the swizzle is of addresses."""
    memory = torch.full((count + 512,), -1, dtype=torch.int16)
    first = -memory.data_ptr() % 1024 // 2
    return memory[first : first + count]
