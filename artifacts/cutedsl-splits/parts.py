"""From what a block found to the answer: stored at once, or left as a part and weighed with the others.

A part is a block's outputs, not divided, float32 [T, splits, 16, 512], and its maxima (base 2) and
sums of weights, float32 [T, splits, 2, 16].
"""

from typing import Any

import cutlass
from cutlass import BFloat16, Float32, Int32, cute
from gather import piece_of
from tiles import CKV, HALF, HEADS, NOTHING, head_at, head_of, inverse_of, log_of, meet, row_at

ASKED = 16  # parts of four columns that a thread asks for at once
PITCH = CKV + 8  # bf16 from head to head, so that the heads of a store lie in different banks


@cute.jit
def store_answer(
    shared: Any, found: cute.Tensor, most: cute.Tensor, total: cute.Tensor, output: cute.Tensor,
    lse: cute.Tensor,
    token: Int32, thread: Int32,
):  # fmt: skip
    """Lay the answer where the queries were, which are no longer needed, and write it from there."""
    layout = cute.make_layout((HEADS, CKV), stride=(PITCH, 1))
    place = cute.make_tensor(shared.queries.data_ptr(), layout)
    by = cute.make_rmem_tensor(4, Float32)
    for head in cutlass.range_constexpr(4):
        by[head] = inverse_of(total[head])
    for number in cutlass.range_constexpr(cute.size(found)):
        nth = cutlass.const_expr(head_of(number))
        place[head_at(thread, nth), row_at(thread, number)] = (found[number] * by[nth]).to(BFloat16)
    meet()
    for step in cutlass.range_constexpr(HEADS * CKV // 8 // HALF):
        head, piece = (step * HALF + thread) // 64, thread % 64
        cute.autovec_copy(piece_of(place, head, piece), piece_of(output, (token, head), piece))
    if thread < 4:
        for head in cutlass.range_constexpr(4):
            lse[token, head_at(thread, head)] = log_of(most[head], total[head])


@cute.jit
def store_part(
    found: cute.Tensor, most: cute.Tensor, total: cute.Tensor, partial: cute.Tensor, sums: cute.Tensor,
    token: Int32, split: Int32, thread: Int32,
):  # fmt: skip
    """Leave what this split found, not divided, with its maxima and sums."""
    for number in cutlass.range_constexpr(cute.size(found)):
        head = head_at(thread, head_of(number))
        partial[token, split, head, row_at(thread, number)] = found[number]
    if thread < 4:
        for head in cutlass.range_constexpr(4):
            sums[token, split, 0, head_at(thread, head)] = most[head]
            sums[token, split, 1, head_at(thread, head)] = total[head]


# region: last
@cute.jit
def is_last(
    shared: Any, arrivals: cute.Tensor, token: Int32, thread: Int32, splits: cutlass.Constexpr
):  # fmt: skip
    """Say whether all other splits of the token have left their parts; the counter starts again at 0."""
    last = cute.make_tensor(shared.last.data_ptr(), cute.make_layout(4))
    cute.arch.fence_acq_rel_gpu()
    meet()
    if thread == 0:
        counter = arrivals.iterator + token
        before = cute.arch.atomic_add(counter, Int32(1), sem="acq_rel", scope="gpu")
        last[0] = before
        if before == splits - 1:
            arrivals[token] = Int32(0)
        cute.arch.fence_acq_rel_gpu()
    meet()
    return last[0] == splits - 1


# endregion


# region: weigh
@cute.jit
def weigh(
    partial: cute.Tensor, sums: cute.Tensor, output: cute.Tensor, lse: cute.Tensor, token: Int32,
    thread: Int32, first: Int32, heads: cutlass.Constexpr, splits: cutlass.Constexpr,
):  # fmt: skip
    """Weigh the splits' parts of `heads` heads from `first` on, with 128 threads: four columns a thread.

    The parts of several heads are asked for before any is used: each waits for the second cache.
    """
    group = cutlass.const_expr(max(1, min(heads, ASKED // splits)))
    for nth in cutlass.range(heads // group, unroll=1):
        start = first + nth * group
        parts = [
            [cute.make_rmem_tensor((4, 1), Float32) for _ in range(splits)] for _ in range(group)
        ]
        most = [
            [sums[token, split, 0, start + head] for split in range(splits)]
            for head in range(group)
        ]
        total = [
            [sums[token, split, 1, start + head] for split in range(splits)]
            for head in range(group)
        ]
        for head in cutlass.range_constexpr(group):
            for split in cutlass.range_constexpr(splits):
                source = piece_of(partial, (token, split, start + head), thread, 4)
                cute.autovec_copy(source, parts[head][split])
        for head in cutlass.range_constexpr(group):
            weigh_head(
                parts[head], most[head], total[head], output, lse, token, thread, start + head
            )


@cute.jit
def weigh_head(
    parts: list, most: list, total: list, output: cute.Tensor, lse: cute.Tensor, token: Int32,
    thread: Int32, head: Int32,
):  # fmt: skip
    """Weigh the splits' parts of one head, with their maxima and sums."""
    highest, every = most[0], Float32(0.0)
    for split in cutlass.range_constexpr(1, len(most)):
        highest = cute.arch.fmax(highest, most[split])
    base = highest
    if highest == NOTHING:
        base = Float32(0.0)
    answer = cute.make_rmem_tensor((4, 1), Float32)
    answer.fill(0.0)
    for split in cutlass.range_constexpr(len(most)):
        weight = cute.math.exp2(most[split] - base, fastmath=True)
        every += weight * total[split]
        for column in cutlass.range_constexpr(4):
            answer[column] = answer[column] + parts[split][column] * weight
    rounded = cute.make_rmem_tensor((4, 1), BFloat16)
    for column in cutlass.range_constexpr(4):
        rounded[column] = (answer[column] * inverse_of(every)).to(BFloat16)
    cute.autovec_copy(rounded, piece_of(output, (token, head), thread, 4))
    if thread == 0:
        lse[token, head] = log_of(highest, every)


# endregion


@cute.kernel
def weigh_apart(
    partial: cute.Tensor, sums: cute.Tensor, output: cute.Tensor, lse: cute.Tensor, splits: cutlass.Constexpr,
    weighers: cutlass.Constexpr,
):  # fmt: skip
    """One block owns some heads of a token."""
    thread, _, _ = cute.arch.thread_idx()
    token, group, _ = cute.arch.block_idx()
    heads = cutlass.const_expr(HEADS // weighers)
    weigh(partial, sums, output, lse, token, thread, group * heads, heads, splits)
