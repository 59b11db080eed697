"""Facts of the code that Triton generates for each exit: loads, waits, registers, shared memory."""

import re

from kernel import Plan, attend
from shared.splitk_code import blocks_that_fit

PTX = ("ptx:cp.async.cg", "ptx:cp.async.ca", "ptx:ld.global.v4")
SASS = ("sass:LDGSTS.E.BYPASS.128", "sass:LDG.E.128")
_WAIT = re.compile(r"cp\.async\.wait_group\s+(\d+)")


def waits(ptx: str) -> list[int]:
    """Return how many groups of copies each wait leaves under way, in the order of the code."""
    return [int(number) for number in _WAIT.findall(ptx)]


# region: facts of the code
def facts_of_the_code(run, plans: dict[str, Plan], problem) -> None:
    """Record, for each plan, what its loads became; `cg` copies are 16 bytes, `ca` ones shorter.

    The queries are loaded by nine plain 16-byte loads in every form; more of them are the rows'.
    """
    for subject, plan in plans.items():
        compiled = []
        attend(*problem, plan=plan, compiled=compiled)
        code = compiled[0]
        ptx = code.asm["ptx"]
        run.profile(subject, code=ptx, counters=PTX)
        run.profile(subject, code=code.asm["cubin"], counters=SASS)
        depth = max(waits(ptx), default=0)
        shared = code.metadata.shared
        run.count("groups_under_way", depth, unit="groups", subject=subject)
        run.count("waits", len(waits(ptx)), unit="instructions", subject=subject)
        run.count("registers", code.n_regs, unit="registers", subject=subject)
        run.count("spills", code.n_spills, unit="registers", subject=subject)
        run.count("shared_memory", shared, unit="B", subject=subject)
        blocks = blocks_that_fit(shared, code.n_regs, plan.warps)
        run.count("blocks_that_fit", blocks, unit="blocks", subject=subject)


# endregion
