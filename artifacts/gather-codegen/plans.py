"""Which plans of the study kernel are examined, and which of them are timed."""

from dataclasses import replace

from shared.splitk import Plan

BLOCKS = (32, 64, 128)
STAGES = range(1, 9)
# As few registers a thread as the report's kernel had; with four warps the largest tile spills.
WARPS = 8
TIMED = {32: (1, 2, 3, 5, 7), 64: (1, 2, 3, 5), 128: (1, 2, 3)}  # what fits and differs in its code
MORE_SPLITS = Plan(block=32, stages=2, splits=32, warps=8)
ONE_BUFFER = Plan(block=64, stages=3, splits=8, warps=WARPS)
REGISTERS = 128  # with so many a thread, two blocks of eight warps fit on a multiprocessor


def report(tokens: int, **changes: object) -> Plan:
    """Return the plan that has the report's shared memory and its blocks a multiprocessor.

    Its 171.5 KB are those of 128 rows in one buffer, its 0.22 and 0.86 waves of 148 multiprocessors
    those of 8 splits for 4 tokens and of 2 for 64.
    """
    splits = 8 if tokens <= 16 else 2
    return replace(Plan(block=128, stages=3, splits=splits, warps=WARPS), **changes)


def swept() -> list[Plan]:
    """Return every plan whose code is examined: block x stages x masks."""
    return [
        Plan(block=block, stages=stages, splits=8, warps=WARPS, masks=masks)
        for block in BLOCKS
        for stages in STAGES
        for masks in (True, False)
    ]


def timed(tokens: int) -> dict[str, Plan]:
    """Return the plans that are timed, by name; the first is that of the report.

    Those without masks are timed for many tokens.
    """
    chosen = [plan for plan in swept() if plan.stages in TIMED[plan.block]]
    chosen = [plan for plan in chosen if plan.masks or tokens > 1]
    chosen.sort(key=lambda plan: (-plan.block, plan.stages != 3, plan.stages, not plan.masks))
    return {name_of(plan): plan for plan in chosen}


def one_wave() -> dict[str, Plan]:
    """Return plans of 2 splits, which for 64 tokens are one block for each multiprocessor, by name."""
    shapes = ((128, 3), (64, 3), (64, 5), (32, 3), (32, 5), (32, 7))
    plans = [Plan(block=block, stages=stages, splits=2, warps=WARPS) for block, stages in shapes]
    return {name_of(plan): plan for plan in plans}


def name_of(plan: Plan) -> str:
    """Name a plan: ``128 rows, 3 stages, no masks``."""
    stages = "1 stage" if plan.stages == 1 else f"{plan.stages} stages"
    return f"{plan.block} rows, {stages}{'' if plan.masks else ', no masks'}"


def stopped(tokens: int) -> dict[str, Plan]:
    """Return the report's plan stopped early, by name.

    Stopped after loading, three stages would need two buffers and more memory than a block may
    have; so it is compiled with two stages, which give one buffer, and with one, as plain loads.
    """
    return {
        "load, plain": report(tokens, stop="load", stages=1),
        "load": report(tokens, stop="load", stages=2),
        "scores": report(tokens, stop="scores"),
        "softmax": report(tokens, stop="softmax"),
        "output": report(tokens),
    }
