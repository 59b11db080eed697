"""How the work of one call is cut, and which of the reported steps the kernel is at."""

from dataclasses import dataclass

LOADS = ("asynchronous", "pieces", "scalar")
LISTS = ("written down", "guarded", "from buffers")
CLUSTERS = {2: 66, 4: 30, 8: 15}
TILE, SMALLEST_SHARE, MULTIPROCESSORS, MOST_SPLITS = 64, 32, 132, 64


@dataclass(frozen=True)
class Plan:
    """`splits` blocks a token, `stages` tiles of 64 rows in a ring.

    `weighers` blocks a token weigh the splits in a second kernel; 0: the last block to arrive does.
    `cluster`: a token's blocks are a cluster, and each weighs its share of the heads when all are done.
    `load`: rows arrive by asynchronous copies of 16 bytes, by loads and stores of 16 bytes, or of one bf16.
    `lists`: a block writes down the rows that are there; or it guards every place; or two buffers,
    made by torch, say which row to load at each place and whether it counts.
    """

    splits: int = 1
    stages: int = 2
    weighers: int = 0
    load: str = "asynchronous"
    lists: str = "written down"
    cluster: bool = False

    def __str__(self) -> str:
        how = f"{self.weighers} weighers" if self.weighers else "the last block weighs"
        how = "the cluster weighs" if self.cluster else how
        return f"{self.splits} splits, {self.stages} stages, {how}, {self.load}, {self.lists}"

    @property
    def counted(self) -> bool:
        """Whether the blocks of a token count their arrivals."""
        return self.splits > 1 and not self.weighers and not self.cluster

    @property
    def compact(self) -> bool:
        """Whether padding is left out before anything is loaded."""
        return self.lists == "written down"


def plan_for(tokens: int) -> Plan:
    """Choose a plan for an H200: as many blocks as it has multiprocessors, as far as powers of two go.

    So many clusters of so many blocks fit at once, as their multiprocessors must lie together: `CLUSTERS`.
    """
    splits = 1
    while splits * 2 * tokens <= MULTIPROCESSORS and splits < 32:
        splits *= 2
    if tokens <= CLUSTERS.get(splits, 0):
        return Plan(splits=splits, cluster=True)
    return Plan(splits=splits, weighers=16 if splits > 1 else 0)


def check_plan(plan: Plan, width: int) -> None:
    """Raise ValueError, with a remedy, unless the kernel can be built for `plan` and lists of
    `width` places.
    """
    for name, value, known in (("load", plan.load, LOADS), ("lists", plan.lists, LISTS)):
        if value not in known:
            raise ValueError(f"{name}={value!r}: use one of {', '.join(known)}")
    if plan.splits < 1 or plan.splits & (plan.splits - 1):
        raise ValueError(f"splits={plan.splits}: use a power of two")
    if width % (plan.splits * SMALLEST_SHARE):
        most = width // SMALLEST_SHARE
        raise ValueError(
            f"splits={plan.splits} leave less than {SMALLEST_SHARE} places of {width}: use up to {most}"
        )
    if plan.stages not in (1, 2):
        raise ValueError(f"stages={plan.stages}: shared memory holds 1 or 2 tiles")
    if plan.weighers not in (0, 1, 2, 4, 8, 16):
        raise ValueError(
            f"weighers={plan.weighers}: 16 heads are shared by 1, 2, 4, 8 or 16 blocks"
        )
    if plan.cluster and (plan.splits not in CLUSTERS or plan.weighers):
        many = ", ".join(map(str, CLUSTERS))
        raise ValueError(f"{plan.splits} splits in a cluster: use {many}, and no weighers")
