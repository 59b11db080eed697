"""Measure what this GPU can do: memory, L2, launches, matrix products; about two minutes."""

from functools import partial

import torch
from kernel import gather, in_flight, triton_gather
from launch_cost import launches
from plans import STREAM, STREAM_BYTES, flight_plans, row_plans, token_plans
from reference import product, row_sums, table_sums
from torch import Tensor

CACHE_ROWS = 8462 * 64  # the pages of the sparse-attention workloads, 64 rows each
HEAD_WORDS, TAIL_WORDS = 256, 32  # 1024 + 128 bytes a row


def reproduce(run):
    """Measure every ceiling."""
    read_and_copy(run)
    gather_by_row_size(run)
    gather_by_bytes_in_flight(run)
    gather_for_tokens(run)
    if run.on_gpu:
        read_cache(run)
        launches(run)
    matrix_products(run)


def words(run, seed: int, *shape: int) -> Tensor:
    """Draw random int32, all 32 bits of each."""
    generator = torch.Generator(run.device).manual_seed(seed)
    return torch.randint(
        -(2**31), 2**31, shape, dtype=torch.int32, device=run.device, generator=generator
    )


def distinct(run, seed: int, rows: int, entries: int) -> Tensor:
    """Draw `entries` of the numbers below `rows`, in random order, none twice: int32."""
    generator = torch.Generator(run.device).manual_seed(seed + 1)
    return torch.randperm(rows, device=run.device, generator=generator)[:entries].int()


def cuda(run, plans, **options) -> dict:
    """Make the CUDA subjects of `plans`, where there is a GPU to run them."""
    return {name: partial(gather, plan, **options) for name, plan in plans.items() if run.on_gpu}


def read_and_copy(run):
    """Read, and copy, a table far larger than the L2."""
    for size in run.sizes(full=[2**31], tiny=[2**16]):
        rows = size // STREAM_BYTES

        def table(seed, rows=rows):
            return (words(run, seed, rows, STREAM_BYTES // 4),)

        run.compare(
            subjects={
                "torch sum": lambda table: table.sum(dim=1, dtype=torch.int32),
                "triton": partial(triton_gather, block=1),
                **cuda(run, STREAM),
            },
            reference=table_sums,
            inputs=table,
            exact=True,
            traffic=size,
            operation="read",
            bytes=size,
        )
        run.compare(
            subjects={
                "torch copy_": lambda table: torch.empty_like(table).copy_(table),
                "triton": partial(triton_gather, block=1, copy=True),
                **cuda(run, STREAM, copy=True),
            },
            reference=torch.clone,
            inputs=table,
            exact=True,
            traffic=2 * size,
            operation="copy",
            bytes=size,
        )


def gather_by_row_size(run):
    """Gather rows of one size from a table far larger than the L2, in random and in table order."""
    full = [32, 64, 128, 256, 512, 1024, 1152, 2048, 4096]
    for row_bytes in run.sizes(full=full, tiny=[32, 1152]):
        rows = run.sizes(full=[2**31], tiny=[2**16])[0] // row_bytes
        entries = min(rows // 2, 2**22)
        for order in ("random", "contiguous"):

            def inputs(seed, order=order, rows=rows, row_bytes=row_bytes, entries=entries):
                index = distinct(run, seed, rows, entries)
                if order == "contiguous":
                    index = torch.arange(rows // 4, rows // 4 + entries, device=run.device).int()
                return words(run, seed, rows, row_bytes // 4), index

            run.compare(
                subjects={
                    "triton": partial(triton_gather, block=4),
                    **cuda(run, row_plans(row_bytes)),
                },
                reference=row_sums,
                inputs=inputs,
                exact=True,
                traffic=entries * row_bytes,
                samples=15,
                operation="gather",
                order=order,
                row_bytes=row_bytes,
                rows=entries,
            )


def caches(run, seed: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Make two tables of row heads and tails, and 2048 distinct rows a token to fetch from both."""
    rows = run.sizes(full=[CACHE_ROWS], tiny=[4096])[0]
    entries = tokens * run.sizes(full=[2048], tiny=[64])[0]
    index = distinct(run, seed, rows, entries)
    return words(run, seed, rows, HEAD_WORDS), index, words(run, seed + 2, rows, TAIL_WORDS)


def gather_by_bytes_in_flight(run):
    """Gather 1152-byte rows with more and more bytes under way on each multiprocessor."""
    if not run.on_gpu:
        return
    for name, plans in flight_plans().items():
        for plan in plans:
            under_way = in_flight(plan, HEAD_WORDS * 4, TAIL_WORDS * 4)
            run.compare(
                subjects={name: partial(gather, plan)},
                reference=row_sums,
                inputs=partial(caches, run, tokens=128),
                exact=True,
                samples=7,
                traffic=128 * 2048 * 1152,
                operation="gather",
                tokens=128,
                in_flight=under_way,
            )


def gather_for_tokens(run):
    """Gather what sparse attention reads: 2048 rows a token, of 1024 and 128 bytes."""
    per_token = run.sizes(full=[2048], tiny=[64])[0]
    for tokens in run.sizes(full=[1, 2, 4, 8, 16, 64, 128, 256], tiny=[1, 2]):
        run.compare(
            subjects={"triton": partial(triton_gather, block=4), **cuda(run, token_plans(tokens))},
            reference=row_sums,
            inputs=partial(caches, run, tokens=tokens),
            exact=True,
            traffic=tokens * per_token * 1152,
            operation="gather",
            tokens=tokens,
            row_bytes=1152,
        )


def read_cache(run):
    """Read a small buffer many times within one launch.

    The bytes are given as work: as traffic they would be faster than the memory allows.
    """
    for size in [4, 8, 16, 24, 32, 48]:
        rows, times = size * 2**20 // STREAM_BYTES, 2048 // size
        run.compare(
            subjects=cuda(run, STREAM, entries=rows * times),
            reference=lambda table, times=times: table_sums(table).repeat(times),
            inputs=lambda seed, rows=rows: (words(run, seed, rows, STREAM_BYTES // 4),),
            exact=True,
            samples=9,
            work=rows * times * STREAM_BYTES,
            operation="L2 read",
            mebibytes=size,
        )


def matrix_products(run):
    """Multiply square matrices of random data in bf16, fp8 and int8."""
    for size in run.sizes(full=[4096, 8192], tiny=[64]):
        for dtype in ("bf16", "fp8", "int8"):

            def inputs(seed, dtype=dtype, size=size):
                return operands(run, seed, dtype, size)

            run.compare(
                subjects={"torch": multiply},
                reference=lambda left, transposed: product(left, transposed.t()),
                inputs=inputs,
                exact=False,
                tolerance=1e-2,
                work=2 * size**3,
                operation="matmul",
                dtype=dtype,
                size=size,
            )


def operands(run, seed: int, dtype: str, size: int) -> tuple[Tensor, Tensor]:
    """Draw two square matrices; the second is the transpose of the right operand."""
    generator = torch.Generator(run.device).manual_seed(seed)
    options = {"device": run.device, "generator": generator}
    if dtype == "int8":
        pair = torch.randint(-127, 128, (2, size, size), dtype=torch.int8, **options)
    else:
        pair = torch.randn(2, size, size, **options)
        pair = pair.to({"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[dtype])
    return pair[0], pair[1]


def multiply(left: Tensor, transposed: Tensor) -> Tensor:
    """Multiply by a right operand that is stored by columns, as fp8 and int8 want it."""
    right = transposed.t()
    if left.dtype == torch.int8:
        return torch._int_mm(left, right)
    if left.dtype == torch.bfloat16:
        return left @ right
    one = torch.ones((), device=left.device)
    return torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
