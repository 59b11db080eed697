"""The plans that are timed: the reported steps and ours, every number of splits, every reduction."""

from dataclasses import replace

from plan import Plan, plan_for

REPORTED = Plan(splits=32, weighers=4, load="scalar", lists="guarded")
SPLITS = (1, 2, 4, 8, 16, 32, 64)
GOALS = (64, 256)  # tokens

# region: ladder
LADDER = {
    "lists made by torch, 32 splits": replace(REPORTED, lists="from buffers"),
    "guarded in the kernel, 32 splits": REPORTED,
    "guarded, 8 splits": replace(REPORTED, splits=8),
    "guarded, 64 splits": replace(REPORTED, splits=64),
    "rows written down, 64 splits": replace(REPORTED, splits=64, lists="written down"),
    "loads of 16 bytes, 64 splits": Plan(splits=64, weighers=4, load="pieces"),
    "asynchronous, 64 splits": Plan(splits=64, weighers=4),
    "weighed by 16 blocks, 64 splits": Plan(splits=64, weighers=16),
    "as chosen": None,
}
# endregion

# The whole kernel as reported, by who weighs its splits; and ours with two splits.
WEIGHED = {
    f"weighed by {blocks}": replace(REPORTED, weighers=weighers)
    for weighers, blocks in {
        1: "1 block",
        4: "4 blocks",
        16: "16 blocks",
        0: "the last block",
    }.items()
}
# What the direction of the splits hangs on: other splits, added up by fewer blocks and by more.
OTHER_SPLITS = {
    "8 splits, weighed by 1 block": replace(REPORTED, splits=8, weighers=1),
    "8 splits, weighed by 16 blocks": replace(REPORTED, splits=8, weighers=16),
    "64 splits, weighed by 16 blocks": replace(REPORTED, splits=64, weighers=16),
}
WEIGHED_TWO = {
    "weighed by 16 blocks": Plan(splits=2, weighers=16),
    "weighed by the last block": Plan(splits=2),
    "weighed by the cluster": Plan(splits=2, cluster=True),
}


def swept(splits: int) -> dict[str, Plan]:
    """Return the reported kernel and ours with so many splits."""
    weighers = 16 if splits > 1 else 0
    return {
        "scalar, guarded": replace(REPORTED, splits=splits, weighers=weighers),
        "asynchronous, written down": Plan(splits=splits, weighers=weighers),
    }


def checked() -> list[Plan]:
    """Return plans of every kind, to be checked on the edges."""
    ours = [Plan(), Plan(stages=1), Plan(splits=2), Plan(splits=2, cluster=True)]
    ours += [Plan(splits=splits, cluster=True) for splits in (4, 8)]
    ours += [Plan(splits=4, weighers=1), Plan(splits=32, weighers=16), Plan(splits=64)]
    reported = [*LADDER.values(), *WEIGHED.values(), *OTHER_SPLITS.values()]
    named = [*reported, replace(REPORTED, splits=1, lists="from buffers")]
    return list(dict.fromkeys([*ours, *filter(None, named)]))


def every_plan() -> set[Plan]:
    """Return all plans that a reproduction starts."""
    of_sweep = (plan for splits in SPLITS for plan in swept(splits).values())
    chosen = map(plan_for, (*range(1, 9), *GOALS))
    return {*checked(), *of_sweep, *WEIGHED_TWO.values(), *chosen}
