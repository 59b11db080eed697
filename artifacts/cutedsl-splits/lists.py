"""The rows of one split, written down in shared memory: none for padding, or a mark for it.

Eight warps divide the places of a split. A mark is negative: `fetch.PADDING`, or -2 - row.
"""

from typing import Any

import cutlass
from cutlass import Int32, cute
from fetch import PADDING

WARPS = 8


# region: list
@cute.jit
def write_rows(
    shared: Any, indices: cute.Tensor, counts: cute.Tensor, token: Int32, split: Int32, warp: Int32,
    lane: Int32, plan: cutlass.Constexpr, share: cutlass.Constexpr,
):  # fmt: skip
    """Write down the rows that this split lists, in its order; return how many there are.

    `share` is how many places a split has.
    """
    places = cutlass.const_expr(share // WARPS)  # a warp
    rows = cute.make_tensor(shared.rows.data_ptr(), cute.make_layout(share))
    totals = cute.make_tensor(shared.counts.data_ptr(), cute.make_layout(WARPS))
    steps = cutlass.const_expr(-(-places // 32))
    mine, present = cute.make_rmem_tensor(steps, Int32), cute.make_rmem_tensor(steps, Int32)
    total = Int32(0)
    for step in cutlass.range_constexpr(steps):
        own = step * 32 + lane
        place = warp * places + own
        # Eights of the list go round the splits, so that a short list feeds them all.
        at = place // 8 * (8 * plan.splits) + split * 8 + place % 8
        mine[step] = Int32(PADDING)
        if own < places:
            mine[step] = indices[token, at]
            if cutlass.const_expr(plan.lists == "from buffers"):  # noqa: SIM102 - one is known when it is compiled
                if counts[token * (share * plan.splits) + at] == 0.0:
                    mine[step] = -2 - mine[step]
            if cutlass.const_expr(not plan.compact):
                rows[place] = mine[step]
        present[step] = cute.arch.vote_ballot_sync(mine[step] >= 0)
        total += cute.arch.popc(present[step])
    if lane == 0:
        totals[warp] = total
    cute.arch.sync_threads()
    every = Int32(share)
    if cutlass.const_expr(plan.compact):
        every = close_ranks(rows, totals, mine, present, warp, lane)
        cute.arch.sync_threads()
    return cute.arch.make_warp_uniform(every)


@cute.jit
def close_ranks(
    rows: cute.Tensor, totals: cute.Tensor, mine: cute.Tensor, present: cute.Tensor, warp: Int32,
    lane: Int32,
):  # fmt: skip
    """Write a warp's rows behind those of the warps before it; return how many there are in all."""
    before, every = Int32(0), Int32(0)
    for other in cutlass.range_constexpr(WARPS):
        every += totals[other]
        if other < warp:
            before += totals[other]
    lower = (Int32(1) << lane) - 1
    for step in cutlass.range_constexpr(cute.size(mine)):
        if mine[step] >= 0:
            rows[before + cute.arch.popc(present[step] & lower)] = mine[step]
        before += cute.arch.popc(present[step])
    return every


# endregion
