"""How the work of sparse attention decode is cut, and which cut suits which lists.

A block of `decode.cu` owns one split of one token's list; the blocks of a cluster weigh together what
they found, and the cluster of a token that arrives last weighs the clusters. A block of `queue.cu` takes
tiles of rows from whichever list has some left, for many lists of different lengths.
"""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from shared.dsa import CKV, HEADS, ROW_BYTES, WIDTH

SOURCE = Path(__file__).parent / "decode.cu"
QUEUE = Path(__file__).parent / "queue.cu"

MARKS = (
    "rows known",
    "first tile there",
    "its scores",
    "its weights",
    "its outputs",
    "all tiles",
    "cluster's outputs there",
    "end",
)


@dataclass(frozen=True)
class Plan:
    """How the work is cut for `decode.cu`: `splits` blocks a token, `cluster` of them together, `stages`
    tiles of `tile` rows in a block's ring, `resident` blocks on a multiprocessor.
    """

    splits: int
    cluster: int = 1
    tile: int = 64
    stages: int = 2
    resident: int = 1

    source = SOURCE
    threads = 256
    second = False
    marks = MARKS

    def blocks_of(self, tokens: int) -> int:
        """Blocks of a launch."""
        return self.splits * tokens

    @property
    def groups(self) -> int:
        """Partial outputs of a token that go to memory, if there is more than one."""
        return self.splits // self.cluster

    @functools.cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block: ring, queries, weights, and what is small."""
        tiles = self.stages * self.tile * ROW_BYTES + HEADS * ROW_BYTES + HEADS * 128
        received = HEADS * CKV * 2 if self.cluster > 1 else HEADS * 16
        sums = 2 * 4 * HEADS * 4 + self.cluster * HEADS * 8
        rows = WIDTH // self.splits * 4
        barriers = (2 * self.stages + 2) * 8
        return -(-(tiles + received + sums + rows + 4 * 4 + 8 + barriers) // 1024) * 1024

    @functools.cached_property
    def macros(self) -> dict[str, int]:
        """The constants that the kernel is compiled with."""
        own = {name.upper(): int(value) for name, value in asdict(self).items()}
        return own | {"WIDTH": WIDTH, "SHARED": self.shared}


@dataclass(frozen=True)
class QueuePlan(Plan):
    """How the work is shared by the blocks of `queue.cu`, of which there are `blocks`: `thieves` may join
    a list that has `least` tiles left, if it is one of the last `joined` tokens, and a block without
    work looks for one `looks` times.
    """

    splits: int = 1
    blocks: int = 132
    least: int = 6
    thieves: int = 10
    looks: int = 16
    joined = 256  # `SEEN` lists for each lane of a warp

    source = QUEUE
    marks = (*MARKS[:5], "all tiles of its first token", "that token answered", "end")  # fmt: skip

    def blocks_of(self, tokens: int) -> int:  # noqa: ARG002 - as many for any number of tokens
        """Blocks of a launch: one on every multiprocessor."""
        return self.blocks

    @functools.cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block: two queries, weights, partial outputs, what is small."""
        tiles = self.stages * self.tile * ROW_BYTES + 2 * HEADS * ROW_BYTES + HEADS * 128
        parts = 2 * HEADS * CKV * 2 + (1 + self.thieves) * HEADS * 8
        items = 8 * (16 + 8)
        barriers = (2 * self.stages + 4) * 8
        small = 2 * 4 * HEADS * 4 + items + WIDTH * 4 + 8 * 4 + barriers
        return -(-(tiles + parts + small) // 1024) * 1024


# region: plans
PLANS = (  # for so many tokens and no more, of 132 multiprocessors: found by trying, not by reasoning
    (7, Plan(splits=16, cluster=16)),  # seven clusters of 16 fit at once, fifteen of 8, thirty of 4
    (15, Plan(splits=8, cluster=8)),
    (16, Plan(splits=8, cluster=2)),
    (30, Plan(splits=4, cluster=4)),
    (33, Plan(splits=4, cluster=2)),
    (66, Plan(splits=2, cluster=2)),
    (132, Plan(splits=1)),
)
QUEUED = (
    QueuePlan()
)  # for more, and for so many tokens or more whose lists are of different lengths
RAGGED_TOKENS, RAGGED_LONGEST = 24, 1.25  # the longest list over the mean
FEW_LONG = (  # for so many tokens, if few lists are long: most clusters leave their places soon
    (7, Plan(splits=16, cluster=16)),
    (8, Plan(splits=16, cluster=8)),
    (32, Plan(splits=8, cluster=8)),
)
LONG, LONGEST_OF_FEW = 1024, 3.0  # rows of the longest list, and it over the mean


def plan_for(tokens: int, lengths: Sequence[int] | None = None) -> Plan:
    """Choose a plan for an H200, for lists of these `lengths`, or of one length where they are not known."""
    plans = PLANS
    if lengths is not None and tokens:
        rows = [int(length) for length in lengths]
        longest, mean = max(rows), sum(rows) / tokens
        if longest > LONG and longest > LONGEST_OF_FEW * mean:
            plans = FEW_LONG
        elif tokens >= RAGGED_TOKENS and longest > RAGGED_LONGEST * mean:
            return QUEUED
    return next((plan for most, plan in plans if tokens <= most), QUEUED)


# endregion
