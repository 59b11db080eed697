"""Which plan reached furthest, for each kind of fetch: chosen by exploring, not by reasoning."""

from dataclasses import replace

from kernel import Plan

KERNELS = {"loads": "load", "cp.async": "async", "bulk copies": "bulk"}

# A stream: whole 4 KB rows, a warp on each, in the order of the table.
STREAM = {
    "loads": Plan("load", lanes=32, tile=1, threads=512),
    "cp.async": Plan("async", lanes=32, stages=3, tile=1, threads=256),
    "bulk copies": Plan("bulk", lanes=32, stages=4, tile=1, threads=128, blocks=3),
}
STREAM_BYTES = 4096


def row_plans(row_bytes: int) -> dict[str, Plan]:
    """Choose a plan for a long list of rows of `row_bytes`, for each way to fetch them."""
    lanes = 32 if row_bytes % 512 == 0 and row_bytes > 1024 else min(8, row_bytes // 16)
    unroll = max(1, min(8 * lanes * 16 // row_bytes, lanes))
    plan = Plan(lanes=lanes, unroll=unroll)
    narrow = replace(plan, unroll=max(1, unroll // 4))
    return {
        "loads": plan,
        "cp.async": replace(narrow, kernel="async", stages=4),
        "bulk copies": replace(narrow, kernel="bulk", stages=4, threads=128, blocks=3),
    }


def token_plans(tokens: int) -> dict[str, Plan]:
    """Choose a plan for `tokens` lists of 2048 rows of 1024 + 128 bytes.

    Few rows: all of them at once, a step a warp. Many rows: a full ring on every multiprocessor.
    """
    few = tokens <= 8
    tile = 4 if few else 32
    return {
        "loads": Plan("load", tile=4, threads=128 if few else 256),
        "cp.async": Plan("async", stages=1 if few else 3, tile=tile, threads=128),
        "bulk copies": Plan(
            "bulk", stages=1 if few else 4, tile=tile, threads=128, blocks=0 if few else 3
        ),
    }


def flight_plans() -> dict[str, list[Plan]]:
    """List plans for 1152-byte rows that differ in the bytes under way on a multiprocessor."""
    sizes = [(32, 1), (32, 2), (64, 2), (128, 2), (128, 3), (256, 2), (256, 4), (256, 6)]
    return {
        "loads": [Plan("load", threads=32 * n, blocks=1) for n in (1, 2, 4, 8, 12, 16, 32)],
        "cp.async": [Plan("async", stages=s, threads=t, blocks=1) for t, s in sizes],
        "bulk copies": [Plan("bulk", stages=s, threads=t, blocks=1) for t, s in sizes],
    }
