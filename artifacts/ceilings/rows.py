"""Rows picked out of a table by a list: by size, by depth, for a few tokens, and why small ones lag."""

import statistics
from functools import cache, partial

import torch
from kernel import gather, triton_gather
from launch_cost import device_seconds, record_device_time
from plans import TOKENS, flight_plans, row_plans, warp_plans
from reference import row_sums
from tables import ROW_BYTES, caches, cuda, distinct, rows_per_token, words

TABLE_BYTES = 2**31
ROWS_AT_MOST = 2**22
ROW_SIZES = [32, 64, 128, 256, 512, 1024, 1152, 2048, 4096]
IN_ORDER_TOO = {32, 64, 256, 1152}
COUNTERS = ["dram__bytes_read.sum", "lts__t_sectors_op_read.sum"]


def by_size(run):
    """Gather rows of one size from 2 GiB, in random order and, some sizes, in the table's."""
    for row_bytes in run.sizes(full=ROW_SIZES, tiny=[32, 1152]):
        rows = run.sizes(full=[TABLE_BYTES], tiny=[2**16])[0] // row_bytes
        entries = min(rows // 2, ROWS_AT_MOST)
        orders = ("random", "contiguous") if row_bytes in IN_ORDER_TOO else ("random",)
        for order in orders:
            drawn = partial(listed, run, order=order, rows=rows, row_bytes=row_bytes, count=entries)
            run.compare(
                subjects={**cuda(run, row_plans(row_bytes)), "triton": triton_rows(row_bytes)},
                reference=row_sums,
                inputs=drawn,
                exact=True,
                traffic=entries * row_bytes,
                samples=9,
                operation="gather",
                order=order,
                row_bytes=row_bytes,
                rows=entries,
            )


def listed(run, seed, *, order, rows, row_bytes, count):
    """Draw a table and a list of `count` of its rows: from its middle, or anywhere, none twice."""
    if order == "random":
        index = distinct(run, seed, rows, count)
    else:
        index = torch.arange(rows // 4, rows // 4 + count, device=run.device).int()
    return words(run, seed, rows, row_bytes // 4), index


def triton_rows(row_bytes):
    """Let a Triton program of two warps fetch about 8 KB: a power of two of rows."""
    return partial(triton_gather, block=1 << (8192 // row_bytes).bit_length() - 1, warps=2)


def by_table(run):
    """Gather 64-byte rows, any of them, from a table that the L2 holds and from one that it does not.

    What limits short rows would show here, beside those of 2 GiB: the lanes and the L2 (the small table
    takes them at their own pace), the address translation (512 MiB have fewer pages), or the memory.
    """
    for mebibytes in run.sizes(full=[16, 512], tiny=[]):
        rows = mebibytes * 2**14

        def drawn(seed, rows=rows):
            generator = torch.Generator(run.device).manual_seed(seed)
            options = {"device": run.device, "generator": generator, "dtype": torch.int32}
            return words(run, seed, rows, 16), torch.randint(rows, (ROWS_AT_MOST,), **options)

        run.compare(
            subjects=cuda(run, {"loads": row_plans(64)["loads"]}),
            reference=row_sums,
            inputs=drawn,
            exact=True,
            cache="warm" if mebibytes == 16 else "cold",
            traffic=ROWS_AT_MOST * 64,
            samples=9,
            operation="gather-by-table",
            row_bytes=64,
            mebibytes=mebibytes,
        )


def counters(run):
    """Count what the memory and the L2 read for random rows of four sizes."""
    for row_bytes in run.sizes(full=[32, 64, 128, 1152], tiny=[]):
        rows = TABLE_BYTES // row_bytes
        count = min(rows // 2, ROWS_AT_MOST)

        @cache
        def drawn(rows=rows, row_bytes=row_bytes, count=count):
            return listed(
                run, run.seed, order="random", rows=rows, row_bytes=row_bytes, count=count
            )

        plan = row_plans(row_bytes)["loads"]
        run.profile(
            "loads",
            lambda drawn=drawn, plan=plan: gather(plan, *drawn()),
            counters=COUNTERS,
            operation="gather",
            order="random",
            row_bytes=row_bytes,
            rows=count,
        )


def for_tokens(run):
    """Gather what sparse attention reads: 2048 random rows a token, of 1024 and 128 bytes."""
    for tokens in run.sizes(full=[1, 2, 4, 8, 16, 64, 128, 256], tiny=[1, 2]):
        block, warps = (2, 1) if tokens <= 8 else (8, 2)
        run.compare(
            subjects={
                **cuda(run, TOKENS),
                "triton": partial(triton_gather, block=block, warps=warps),
            },
            reference=row_sums,
            inputs=partial(caches, run, tokens=tokens),
            exact=True,
            traffic=tokens * rows_per_token(run) * ROW_BYTES,
            samples=15,
            operation="gather",
            tokens=tokens,
            row_bytes=ROW_BYTES,
        )


def by_bytes_in_flight(run):
    """Gather 1152-byte rows with more and more bytes under way on each multiprocessor."""
    found = grouped(flight_plans(), lambda plan: plan.in_flight(ROW_BYTES))
    for flight, plans in found.items() if run.on_gpu else ():
        side_by_side(run, plans, operation="in-flight", in_flight=flight)


def by_warps(run):
    """Gather them with the same bytes under way, kept by few warps or by many."""
    found = grouped(warp_plans(), lambda plan: (plan.threads // 32, plan.in_flight(ROW_BYTES)))
    for (warps, flight), plans in found.items() if run.on_gpu else ():
        sizes = {"warps": warps, "in_flight": flight}
        side_by_side(run, plans, operation="in-flight-by-warps", **sizes)


def grouped(plans, key):
    """Put plans, given as a list a subject, together by what `key` makes of them."""
    found = {}
    for name, several in plans.items():
        for plan in several:
            found.setdefault(key(plan), {})[name] = plan
    return dict(sorted(found.items()))


def side_by_side(run, plans, **workload):
    """Time plans with the same bytes under way, in turns, on the rows of 256 tokens."""
    tokens = 256
    run.compare(
        subjects=cuda(run, plans),
        reference=row_sums,
        inputs=partial(caches, run, tokens=tokens),
        exact=True,
        samples=7,
        traffic=tokens * rows_per_token(run) * ROW_BYTES,
        tokens=tokens,
        **workload,
    )


def after_writes(run):
    """Gather once with an L2 full of lines that another kernel wrote, once of lines that it read.

    The time is of the gather alone. A line that was written must reach the memory before its place is
    free, and the gather waits for that.
    """
    for tokens in run.sizes(full=[16, 64, 256], tiny=[]):
        head, index, tail = caches(run, run.seed, tokens)
        lines = torch.ones(2**26, dtype=torch.int32, device=run.device)  # 256 MiB
        least = torch.empty((), dtype=torch.int32, device=run.device)
        before = {
            "loads, after reads": partial(torch.amin, lines, dim=0, out=least),
            "loads, after writes": partial(lines.fill_, 2),
        }
        call = partial(gather, TOKENS["loads"], head, index, tail)
        wrong = (call() != row_sums(head, index, tail)).sum().item()
        sizes = {"operation": "gather-after", "tokens": tokens, "row_bytes": ROW_BYTES}
        run.count("mismatches", wrong, unit="rows", subject="loads", **sizes)
        found = device_seconds({name: (call, 1, first) for name, first in before.items()})
        for name, timed in found.items():
            record_device_time(run, timed, name, **sizes)
        reads, writes = (statistics.median(timed.seconds) for timed in found.values())
        run.count("slowdown", writes / reads, unit="ratio", subject="loads, after writes", **sizes)
