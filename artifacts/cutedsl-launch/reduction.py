"""The reduction of a split-K attention in CuTe DSL: by one, four or sixteen blocks a token, or by
the last to arrive.

    output[h] = Σ_s 2^(most[s, h] - M) part[s, h] / Σ_s 2^(most[s, h] - M) total[s, h]      M =
    max_s most[s, h]

A block of the first kernel owns one split of one token: it leaves a part, 16 heads of 512 float32,
with its maxima and sums, as an attention kernel does. Here it copies them from where they are
given, so that the reduction is what differs. A block of the second owns some heads of a token;
without a second, the block of a token that arrives last owns all.
"""

from typing import Any

import cutlass
from cutlass import BFloat16, Float32, Int32, cute

HEADS, COLUMNS, THREADS, FOUR = 16, 512, 128, 4
NOTHING = -float("inf")
ASKED = 16  # parts of four columns that a thread asks for at once
LAST = 0


@cute.jit
def four_of(tensor: cute.Tensor, where: Any, thread: Any):
    """Take a thread's four columns of a row."""
    start = tensor.iterator + cute.crd2idx((*where, thread * FOUR), tensor.layout)
    width = cutlass.const_expr(FOUR * tensor.element_type.width // 8)
    return cute.make_tensor(start.align(width), cute.make_layout(FOUR))


@cute.struct
class Shared:
    """What the block that counts arrivals tells its threads."""

    before: cute.struct.MemRange[Int32, 4]


# region: last
@cute.jit
def is_last(arrivals: cute.Tensor, token: Int32, thread: Int32, splits: cutlass.Constexpr):
    """Say whether all other blocks of the token have left their parts; the counter starts again at 0."""
    shared = cutlass.memory.SmemAllocator().allocate(Shared)
    before = cute.make_tensor(shared.before.data_ptr(), cute.make_layout(4))
    cute.arch.fence_acq_rel_gpu()
    cute.arch.sync_threads()
    if thread == 0:
        counter = arrivals.iterator + token
        number = cute.arch.atomic_add(counter, Int32(1), sem="acq_rel", scope="gpu")
        before[0] = number
        if number == splits - 1:
            arrivals[token] = Int32(0)
        cute.arch.fence_acq_rel_gpu()
    cute.arch.sync_threads()
    return before[0] == splits - 1


# endregion


# region: weigh
@cute.jit
def weigh(
    parts: cute.Tensor, sums: cute.Tensor, output: cute.Tensor, token: Int32, thread: Int32,
    first: Int32, heads: cutlass.Constexpr, splits: cutlass.Constexpr,
):  # fmt: skip
    """Weigh the parts of `heads` heads from `first` on: four columns a thread.

    The parts of several heads are asked for before any is used: each waits for the second cache.
    """
    group = cutlass.const_expr(max(1, min(heads, ASKED // splits)))
    for nth in cutlass.range(heads // group, unroll=1):
        start = first + nth * group
        asked = [
            [cute.make_rmem_tensor(FOUR, Float32) for _ in range(splits)] for _ in range(group)
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
                source = four_of(parts, (token, split, start + head), thread)
                cute.autovec_copy(source, asked[head][split])
        for head in cutlass.range_constexpr(group):
            target = four_of(output, (token, start + head), thread)
            weigh_head(asked[head], most[head], total[head], target)


@cute.jit
def weigh_head(parts: list, most: list, total: list, target: cute.Tensor):
    """Weigh the parts of one head, with their maxima and sums."""
    base, every, by = most[0], Float32(0.0), Float32(0.0)
    for split in cutlass.range_constexpr(1, len(most)):
        base = cute.arch.fmax(base, most[split])
    if base == NOTHING:
        base = Float32(0.0)
    answer = cute.make_rmem_tensor(FOUR, Float32)
    answer.fill(0.0)
    for split in cutlass.range_constexpr(len(most)):
        weight = cute.math.exp2(most[split] - base, fastmath=True)
        every += weight * total[split]
        for column in cutlass.range_constexpr(FOUR):
            answer[column] = answer[column] + parts[split][column] * weight
    if every > 0.0:
        by = 1.0 / every
    rounded = cute.make_rmem_tensor(FOUR, BFloat16)
    for column in cutlass.range_constexpr(FOUR):
        rounded[column] = (answer[column] * by).to(BFloat16)
    cute.autovec_copy(rounded, target)


# endregion


@cute.kernel
def leave_parts(
    given: cute.Tensor, given_sums: cute.Tensor, parts: cute.Tensor, sums: cute.Tensor, output: cute.Tensor,
    arrivals: cute.Tensor, splits: cutlass.Constexpr, weighers: cutlass.Constexpr,
):  # fmt: skip
    """Leave a part; where there is no second kernel, weigh all of them if it is the last."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    token, split = block // splits, block % splits
    four = cute.make_rmem_tensor(FOUR, Float32)
    for head in cutlass.range(HEADS, unroll=4):
        cute.autovec_copy(four_of(given, (token, split, head), thread), four)
        cute.autovec_copy(four, four_of(parts, (token, split, head), thread))
    if thread < HEADS:
        for kind in cutlass.range_constexpr(2):
            sums[token, split, kind, thread] = given_sums[token, split, kind, thread]
    if cutlass.const_expr(weighers == LAST):  # noqa: SIM102 - one is known when it is compiled
        if is_last(arrivals, token, thread, splits):
            weigh(parts, sums, output, token, thread, 0, HEADS, splits)


@cute.kernel
def weigh_apart(
    parts: cute.Tensor, sums: cute.Tensor, output: cute.Tensor, splits: cutlass.Constexpr,
    weighers: cutlass.Constexpr,
):  # fmt: skip
    """Weigh some heads of a token."""
    thread, _, _ = cute.arch.thread_idx()
    token, group, _ = cute.arch.block_idx()
    heads = cutlass.const_expr(HEADS // weighers)
    weigh(parts, sums, output, token, thread, group * heads, heads, splits)


@cute.jit
def reduce_parts(
    given: cute.Tensor, given_sums: cute.Tensor, parts: cute.Tensor, sums: cute.Tensor, output: cute.Tensor,
    arrivals: cute.Tensor, splits: cutlass.Constexpr, weighers: cutlass.Constexpr, stream: Any,
):  # fmt: skip
    """Launch: given float32 [T, splits, 16, 512], given_sums float32 [T, splits, 2, 16], output
    bf16 [T, 16, 512].
    """
    tokens = output.shape[0]
    leave_parts(given, given_sums, parts, sums, output, arrivals, splits, weighers).launch(
        grid=(tokens * splits, 1, 1), block=(THREADS, 1, 1), stream=stream
    )
    if cutlass.const_expr(weighers != LAST):
        weigh_apart(parts, sums, output, splits, weighers).launch(
            grid=(tokens, weighers, 1), block=(THREADS, 1, 1), stream=stream
        )
