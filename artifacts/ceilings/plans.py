"""Which plan each way to fetch uses: the winners of an exploration, not of reasoning.

On an NVIDIA H200 we timed some 3,000 plans, each after a check of its output, and kept one a method
and kind of fetch: the one whose worst case was best. Another GPU may want others.
"""

from dataclasses import replace

from kernel import Plan

SHARED_BYTES = 227 * 1024  # of a multiprocessor, for blocks; each takes 1 KB more than it asks for

# A stream: whole rows of 4 KB (or of 16 KB), a warp on each, in the order of the table.
WARP = Plan(lanes=32, tile=1)
READ = {
    "loads": replace(WARP, threads=512),
    "cp.async": replace(WARP, kernel="async", stages=2, threads=256),
    "bulk copies": replace(WARP, kernel="bulk", stages=3, threads=256, blocks=2),
}
READ_LONG = {"bulk copies": replace(WARP, kernel="bulk", stages=2, threads=64, blocks=3)}
COPY = {
    "loads": replace(WARP, threads=512, load="ld.global.v4.u32"),
    "cp.async": replace(WARP, kernel="async", stages=2, threads=512),
    "bulk copies": replace(WARP, kernel="bulk", stages=3, threads=128, blocks=1),
}
# From the L2: loads that pass by the L1, which would answer a small buffer itself.
READ_L2 = {
    "loads": replace(WARP, load="ld.global.cg.v4.u32"),
    "loads, persistent": replace(WARP, load="ld.global.cg.v4.u32", threads=512, blocks=2),
    "cp.async": replace(WARP, kernel="async", stages=4, threads=256, blocks=1),
    "bulk copies": replace(WARP, kernel="bulk", stages=4, threads=256, blocks=1),
}

# 2048 rows a token, of 1024 + 128 bytes. A warp fetches four rows and ends, however many tokens.
TOKENS = {
    "loads": Plan("load", tile=4, threads=64),
    "cp.async": Plan("async", stages=2, tile=4, threads=64),
    "bulk copies": Plan("bulk", stages=2, tile=4, threads=128),
}


def row_plans(row_bytes: int) -> dict[str, Plan]:
    """Choose a plan for a long list of rows of `row_bytes`, for each way to fetch them.

    Eight lanes share a row, or as many as it has 16-byte pieces; short rows are fetched several at once.
    """
    lanes = min(8, row_bytes // 16)
    plan = Plan(lanes=lanes, unroll=min(lanes, max(1, 1024 // row_bytes)))
    wide = 32 if row_bytes >= 4096 else lanes
    stages = 4 if row_bytes >= 4096 or row_bytes in (128, 256, 512) else 2
    bulk = replace(plan, kernel="bulk", stages=2, threads=128)
    fitting = SHARED_BYTES // (bulk.shared(row_bytes) + 1024)
    return {
        "loads": plan,
        "cp.async": replace(plan, kernel="async", lanes=wide, unroll=1, stages=stages),
        "bulk copies": replace(bulk, blocks=min(6, fitting)),
    }


def flight_plans() -> dict[str, list[Plan]]:
    """List plans for 1152-byte rows that differ in the bytes under way on a multiprocessor."""
    rings = [(32, 1), (32, 2), (64, 2), (64, 3), (64, 4), (128, 3), (128, 4), (256, 4), (256, 6)]
    warps = (1, 2, 3, 4, 6, 8, 12, 16, 32)
    return {
        "loads": [Plan("load", threads=32 * count, blocks=1) for count in warps],
        "cp.async": [Plan("async", stages=s, threads=t, blocks=1) for t, s in rings],
        "bulk copies": [Plan("bulk", stages=s, threads=t, blocks=1) for t, s in rings],
    }


def warp_plans() -> dict[str, list[Plan]]:
    """List rings with the same bytes under way, kept by two, four or eight warps.

    A step of a warp is four rows; a ring of `stages` steps a warp, so warps times stages is eight.
    """
    shapes = [(64, 4), (128, 2), (256, 1)]
    return {
        "cp.async": [Plan("async", stages=s, threads=t, blocks=1) for t, s in shapes],
        "bulk copies": [Plan("bulk", stages=s, threads=t, blocks=1) for t, s in shapes],
    }
