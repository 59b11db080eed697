"""Sparse attention decode in CuTe DSL (shared/dsa.py has the definition): rows by asynchronous
16-byte copies.

A block owns one split of one token's list, for all 16 heads. It writes down the rows that the
split lists, none for padding; then four warps fetch and four compute.

    fetch    16 bytes a lane into a ring of tiles of 64 rows (`tiles`)
    scores   Sᵀ [64 rows, 16 heads] = K Qᵀ, both operands in shared memory, rows are M and heads N
    weights  of two rows and four heads in a thread, the maximum through shared memory (`weights`)
    output   Oᵀ [512 columns, 16 heads] += Kcᵀ Pᵀ from the same chunks, read the other way round

With several splits a block leaves its part in memory, and the block of a token that arrives last
weighs them, or the token's blocks do as a cluster, or a second kernel does (`parts`). The steps on
the way to this kernel are `Plan`s as well.
"""

from typing import Any

import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from fetch import ask_queries, ask_rows, load_rows
from lists import WARPS, write_rows
from parts import is_last, store_answer, store_part, weigh, weigh_apart
from plan import Plan
from tiles import (
    CHUNKS,
    CKV,
    COLUMNS,
    HALF,
    HEADS,
    NOTHING,
    TILE,
    TILE_ELEMENTS,
    keys_layout,
    matrix_unit,
    meet,
    offsets,
    operand,
    product,
    queries_layout,
    show_matrix_unit,
    values_layout,
    weights_layout,
)  # fmt: skip
from weights import add_sums, weigh_tile

FETCHERS = 4  # warps, and as many compute


class Attend:
    """The kernel for one plan and one width of the list."""

    def __init__(self, plan: Plan, width: int) -> None:
        """`plan` and `width` have passed `check_plan`."""
        self.plan, self.share = plan, width // plan.splits

    @cute.jit
    def __call__(
        self, q_nope: cute.Tensor, q_pe: cute.Tensor, ckv: cute.Tensor, kpe: cute.Tensor,
        indices: cute.Tensor, counts: cute.Tensor, scale: Float32, output: cute.Tensor, lse: cute.Tensor,
        partial: cute.Tensor, sums: cute.Tensor, arrivals: cute.Tensor, stream: Any,
    ):  # fmt: skip
        """Launch. `scale` is in base 2; `counts` says 1 or 0 for each place, flat, where lists
        come from buffers; `partial` is float32 [T, splits, 16, 512], `sums` float32 [T, splits, 2,
        16], `arrivals` int32 [T], all 0.
        """
        plan = self.plan

        @cute.struct
        class Shared:
            ring: cute.struct.Align[
                cute.struct.MemRange[BFloat16, plan.stages * TILE_ELEMENTS], 1024
            ]
            queries: cute.struct.Align[cute.struct.MemRange[BFloat16, HEADS * COLUMNS], 1024]
            weights: cute.struct.Align[cute.struct.MemRange[BFloat16, HEADS * TILE], 1024]
            maxima: cute.struct.MemRange[Float32, 2 * 4 * HEADS]
            rows: cute.struct.MemRange[Int32, self.share]
            counts: cute.struct.MemRange[Int32, WARPS]
            last: cute.struct.MemRange[Int32, 4]
            arrived: cute.struct.Align[cute.struct.MemRange[Int64, plan.stages], 8]
            freed: cute.struct.MemRange[Int64, plan.stages]

        self.shared = Shared
        tokens = q_nope.shape[0]
        units = matrix_unit(by_rows=True), matrix_unit(by_rows=False)
        inputs = q_nope, q_pe, ckv, kpe, indices, counts
        self.attend(*units, *inputs, scale, output, lse, partial, sums, arrivals).launch(
            grid=(tokens * plan.splits, 1, 1),
            block=(2 * HALF, 1, 1),
            cluster=(plan.splits, 1, 1) if plan.cluster else None,
            stream=stream,
        )
        if cutlass.const_expr(plan.splits > 1 and plan.weighers > 0):
            weigh_apart(partial, sums, output, lse, plan.splits, plan.weighers).launch(
                grid=(tokens, plan.weighers, 1), block=(HALF, 1, 1), stream=stream
            )

    @cute.kernel
    def attend(
        self, by_rows: cute.TiledMma, by_columns: cute.TiledMma, q_nope: cute.Tensor, q_pe: cute.Tensor,
        ckv: cute.Tensor, kpe: cute.Tensor, indices: cute.Tensor, counts: cute.Tensor, scale: Float32,
        output: cute.Tensor, lse: cute.Tensor, partial: cute.Tensor, sums: cute.Tensor, arrivals: cute.Tensor,
    ):  # fmt: skip
        """Write the rows down, then fetch or compute."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        token, split = block // self.plan.splits, block % self.plan.splits
        warp = cute.arch.warp_idx()
        shared = cutlass.memory.SmemAllocator().allocate(self.shared)
        if thread == 0:
            for slot in cutlass.range_constexpr(self.plan.stages):
                cute.arch.mbarrier_init(shared.arrived.data_ptr() + slot, HALF)
                cute.arch.mbarrier_init(shared.freed.data_ptr() + slot, FETCHERS)
        cute.arch.mbarrier_init_fence()
        if warp < FETCHERS:
            ask_queries(shared, q_nope, q_pe, token, thread)
        count = write_rows(
            shared, indices, counts, token, split, warp, thread % 32, self.plan, self.share
        )
        if warp >= FETCHERS:
            self.fetch(shared, ckv, kpe, count, warp - FETCHERS, thread % 32)
        else:
            self.answer(
                shared,
                by_rows,
                by_columns,
                count,
                scale,
                token,
                split,
                thread,
                output,
                lse,
                partial,
                sums,
                arrivals,
            )

    @cute.jit
    def answer(
        self, shared: Any, by_rows: cute.TiledMma, by_columns: cute.TiledMma, count: Int32, scale: Float32,
        token: Int32, split: Int32, thread: Int32, output: cute.Tensor, lse: cute.Tensor,
        partial: cute.Tensor,
        sums: cute.Tensor, arrivals: cute.Tensor,
    ):  # fmt: skip
        """Compute, and leave the answer or a part of it."""
        found = cute.make_rmem_tensor(by_columns.partition_shape_C((CKV, HEADS)), Float32)
        most, total = cute.make_rmem_tensor(4, Float32), cute.make_rmem_tensor(4, Float32)
        found.fill(0.0)
        most.fill(NOTHING)
        total.fill(0.0)
        self.compute(shared, by_rows, by_columns, count, scale, found, most, total, thread)
        add_sums(shared, total, thread)
        if cutlass.const_expr(self.plan.splits == 1):
            store_answer(shared, found, most, total, output, lse, token, thread)
        else:
            store_part(found, most, total, partial, sums, token, split, thread)
            if cutlass.const_expr(self.plan.cluster):
                cute.arch.cluster_arrive()
                cute.arch.cluster_wait()
                heads = cutlass.const_expr(HEADS // self.plan.splits)
                weigh(
                    partial,
                    sums,
                    output,
                    lse,
                    token,
                    thread,
                    split * heads,
                    heads,
                    self.plan.splits,
                )
            elif cutlass.const_expr(self.plan.weighers == 0):  # noqa: SIM102 - one is known when it is compiled
                if is_last(shared, arrivals, token, thread, self.plan.splits):
                    weigh(partial, sums, output, lse, token, thread, 0, HEADS, self.plan.splits)

    @cute.jit
    def fetch(
        self, shared: Any, ckv: cute.Tensor, kpe: cute.Tensor, count: Int32, fetcher: Int32, lane: Int32
    ):  # fmt: skip
        """Keep the ring full: a warp fetches every fourth row of each tile; rows beyond `count` are zeros."""
        rows = cute.make_tensor(shared.rows.data_ptr(), cute.make_layout(self.share))
        for tile in range((count + TILE - 1) // TILE):
            slot, turn = tile % self.plan.stages, tile // self.plan.stages
            arrived = shared.arrived.data_ptr() + slot
            if turn > 0:
                cute.arch.mbarrier_wait(shared.freed.data_ptr() + slot, (turn - 1) & 1)
            start = shared.ring.data_ptr() + slot * TILE_ELEMENTS
            target = cute.make_tensor(start, offsets(TILE, CHUNKS))
            for four in cutlass.range(TILE // 16, unroll=1):
                first = four * 16 + fetcher
                if cutlass.const_expr(self.plan.load == "asynchronous"):
                    ask_rows(ckv, kpe, target, rows, tile * TILE, count, first, lane)
                else:
                    load_rows(
                        ckv, kpe, target, rows, tile * TILE, count, first, lane, self.plan.load
                    )
            if cutlass.const_expr(self.plan.load == "asynchronous"):
                cute.arch.cp_async_mbarrier_arrive_noinc(arrived)
            else:
                show_matrix_unit()
                cute.arch.mbarrier_arrive(arrived)

    @cute.jit
    def compute(
        self, shared: Any, by_rows: cute.TiledMma, by_columns: cute.TiledMma, count: Int32, scale: Float32,
        found: cute.Tensor, most: cute.Tensor, total: cute.Tensor, thread: Int32,
    ):  # fmt: skip
        """Go through the tiles: scores, weights, outputs."""
        stages = self.plan.stages
        keys = operand(shared.ring.data_ptr(), keys_layout(stages))
        values = operand(shared.ring.data_ptr(), values_layout(stages))
        queries = operand(shared.queries.data_ptr(), queries_layout())
        weights = operand(shared.weights.data_ptr(), weights_layout())
        row_part, column_part = by_rows.get_slice(0), by_columns.get_slice(0)
        of_keys = by_rows.make_fragment_A(row_part.partition_A(keys))
        of_queries = by_rows.make_fragment_B(row_part.partition_B(queries))
        of_values = by_columns.make_fragment_A(column_part.partition_A(values))
        of_weights = by_columns.make_fragment_B(column_part.partition_B(weights))
        logits = cute.make_rmem_tensor(by_rows.partition_shape_C((TILE, HEADS)), Float32)
        cute.arch.cp_async_wait_group(0)
        show_matrix_unit()
        meet()  # the queries are there
        for tile in range((count + TILE - 1) // TILE):
            slot = tile % stages
            cute.arch.mbarrier_wait(shared.arrived.data_ptr() + slot, tile // stages & 1)
            show_matrix_unit()
            product(by_rows, logits, of_keys[None, None, None, slot], of_queries, fresh=True)
            weigh_tile(
                shared,
                logits,
                found,
                most,
                total,
                tile,
                count,
                scale,
                thread,
                self.plan.compact,
                self.share,
            )
            product(by_columns, found, of_values[None, None, None, slot], of_weights, fresh=False)
            if thread % 32 == 0:
                cute.arch.mbarrier_arrive(shared.freed.data_ptr() + slot)
