"""The plans of the study kernel that are set side by side, and what limits the blocks of a multiprocessor.

`REPORT` has the shared memory of the report's kernel, and with `report(tokens)` its waves.
"""

from dataclasses import replace

from shared.splitk import Plan
from shared.splitk_code import BLOCK_BYTES, MULTIPROCESSOR_BYTES, RESERVED_BYTES

GRAIN = 128

REPORT = Plan(block=128, stages=3, splits=2, warps=8)
SMALL = Plan(block=32, stages=2, splits=8, warps=4)  # one buffer; four blocks fit
ONE_BUFFER = replace(SMALL, stages=3)
TWO_BUFFERS = replace(SMALL, stages=5)
THREE_BUFFERS = replace(SMALL, stages=7)
DEEP = Plan(block=64, stages=5, splits=2, warps=8)  # two buffers; one block fits


def report(tokens: int) -> Plan:
    """Return the report's plan: 8 splits for 4 tokens, 2 for 64, by its waves a multiprocessor."""
    return replace(REPORT, splits=8 if tokens <= 16 else 2)


def side_by_side(tokens: int) -> dict[str, Plan]:
    """Return the report's plan, and others that keep more under way, by name."""
    found = {"report's plan": report(tokens)}
    for splits in (8, 16) if tokens <= 16 else (2, 8):
        found[f"two buffers, {splits} splits"] = replace(DEEP, splits=splits)
    for splits in (8, 16, 32, 64) if tokens <= 16 else (2, 4, 8, 16):
        found[f"small, {splits} splits"] = replace(SMALL, splits=splits)
    return found


def held() -> dict[str, tuple[Plan, int]]:
    """Return by name one binary for each number of buffers, and the blocks to be held side by side."""
    return {
        "1 buffer, 1 block": (ONE_BUFFER, 1),
        "2 buffers, 1 block": (TWO_BUFFERS, 1),
        "3 buffers, 1 block": (THREE_BUFFERS, 1),
        "1 buffer, 2 blocks": (ONE_BUFFER, 2),
        "2 buffers, 2 blocks": (TWO_BUFFERS, 2),
    }


def padded_bytes(blocks: int) -> int:
    """Return the shared memory with which just `blocks` blocks fit on a multiprocessor, as much as
    that allows, in bytes a block.
    """
    share = MULTIPROCESSOR_BYTES // blocks - RESERVED_BYTES
    return min(BLOCK_BYTES, share // GRAIN * GRAIN)
