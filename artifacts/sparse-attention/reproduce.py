"""Reproduce every number of the entry on sparse attention: one GPU, about two minutes.

First what is right, then the time beside the gather and the peers for every family, the public
workloads, the ladder of versions, and where the time inside a block goes.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from kernel import EarlierPlan, gather
from reference import attention, row_sums
from shared.cuda_module import compile_source
from shared.dsa import wrong_elements
from shared.dsa_decode.attend import build, decode, marks
from shared.dsa_decode.peers import WORKSPACE_BYTES, Planned, batched, eager, flashinfer_or_none
from shared.dsa_decode.plan import FEW_LONG, PLANS, QUEUED, Plan, plan_for
from shared.dsa_decode.workloads import amounts, drawn, edges, pages_of, public
from shared.dsa_lists import CONTEST
from shared.splitk import Plan as StudyPlan
from shared.splitk import splitk

TOKENS = (1, 2, 4, 8, 12, 16, 32, 64, 128, 256)
OTHER_FAMILIES = (
    "contest-like", "contiguous", "clustered-4", "clustered-16", "clustered-64", "shared",
    "uniform-of-131072", "shuffled contest-like", "interleaved contest-like",
    "sorted-pads-first contest-like", "sorted-pads-last contest-like",
)  # fmt: skip
BACKENDS = ("fa3", "fa2")  # of flashinfer
PLANNED = {"family": "uniform", "tokens": 8}  # where flashinfer's planning is timed as well
LADDER = (1, 8, 64)
CHOSEN = dict.fromkeys(plan for _, plan in (*PLANS, *FEW_LONG))
CHECKED = [*CHOSEN, QUEUED, Plan(64, 8), EarlierPlan(8, 8)]


def reproduce(run):
    if run.on_gpu:
        build(*CHECKED, *(plan for tokens in LADDER for plan in steps(tokens).values() if plan))
    what_is_right(run)
    peers = Peers(run)
    for tokens in run.sizes(full=TOKENS, tiny=(1,)):
        family(run, peers, drawn(run, "uniform", tokens), samples=7)
    for tokens in run.sizes(full=(4, 64), tiny=()):
        for name in OTHER_FAMILIES:
            family(run, peers, drawn(run, name, tokens), samples=3)
    for case in run.sizes(full=range(len(CONTEST)), tiny=(1,)):
        family(run, peers, public(run, case), samples=5, case=case)
    if run.on_gpu:
        ladder(run)
        generated_code(run)
    if run.on_gpu and not run.tiny:
        compiled(run)
        inside_a_block(run)


class Peers:
    """flashinfer's backends and the study kernel, for any family."""

    def __init__(self, run):
        """Allocate flashinfer's workspace, if it is here to use it."""
        self.flashinfer = flashinfer_or_none() if run.on_gpu and not run.tiny else None
        if self.flashinfer:
            self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.int8, device=run.device)
            with ThreadPoolExecutor() as pool:  # half a minute each, where it has never been built
                list(pool.map(self.build, BACKENDS))

    def build(self, backend):
        """Have flashinfer compile a backend."""
        table = torch.zeros(1, dtype=torch.int32, device=self.workspace.device)
        Planned(self.flashinfer, backend, [1], self.workspace).plan(table)

    def subjects(self, run, family):
        """Name the kernel, where there is a GPU for it, and those of its peers that are here."""
        counts = family.draw(run.seed).valid.tolist()
        ours = partial(decode, lengths=counts)
        found = {"kernel": without_table(ours)} if run.on_gpu else {}
        if family.name == "uniform" or run.tiny:
            study = partial(splitk, plan=study_plan(family.tokens))
            found["split-K in Triton"] = without_table(study)
        if self.flashinfer:
            for backend in BACKENDS:
                peer = Planned(self.flashinfer, backend, counts, self.workspace)
                found[f"flashinfer {backend}"] = peer
            if family.sizes == PLANNED:
                planned = Planned(self.flashinfer, "fa3", counts, self.workspace)
                found["flashinfer fa3, planning"] = planned.planning
        return found


def without_table(call):
    """Leave out the last input, flashinfer's page table."""
    return lambda *inputs: call(*inputs[:-1])


def study_plan(tokens):
    """Choose the study kernel's best plan of those that we tried; few steps for an interpreter."""
    if not torch.cuda.is_available():
        return StudyPlan(block=128, splits=2)
    if tokens <= 4:
        return StudyPlan(block=32, stages=3, splits=32)
    if tokens <= 16:
        return StudyPlan(splits=16)
    return StudyPlan(stages=5, splits=2 if tokens >= 64 else 4, warps=8)


def family(run, peers, family, samples, **more):
    """Time the kernel and its peers on one family; a gather of the same rows beside the uniform one,
    PyTorch token by token beside the public workloads.
    """
    pages, sizes = pages_of(run), {**family.sizes, **more}
    subjects = peers.subjects(run, family)
    if family.name == "contest":
        subjects["batched"] = batched
    of_peers = {
        "reference": lambda *inputs: attention(*inputs[:-1]),
        "inputs": lambda seed: family.inputs(seed, pages),
        **sizes,
    }
    run.compare(subjects, samples=samples, **amounts(family, run.seed), **of_peers)
    if family.name == "contest":
        whole = partial(eager, whole_cache=True)
        token_by_token = {"eager": eager, "eager, whole cache in float32": whole}
        run.compare(token_by_token, samples=2, **of_peers)
    if run.on_gpu and family.name == "uniform":
        run.compare(
            subjects={"gather": gather},
            reference=row_sums,
            inputs=lambda seed: family.inputs(seed, pages)[2:5],
            exact=True,
            samples=samples,
            **sizes,
        )


def compiled(run):
    """Time PyTorch on all tokens at once, as it is and compiled."""
    found = drawn(run, "uniform", 8)
    run.compare(
        subjects={"batched": batched, "batched, compiled": torch.compile(batched, dynamic=False)},
        reference=lambda *inputs: attention(*inputs[:-1]),
        inputs=lambda seed: found.inputs(seed, pages_of(run)),
        samples=7,
        **found.sizes,
    )


def what_is_right(run):
    """Check every edge, with plans of every kind, and count elements that are off."""
    pages = pages_of(run)
    subjects = {"split-K in Triton": partial(splitk, plan=study_plan(4))}
    if run.on_gpu:
        subjects |= {f"kernel, {each}": partial(decode, plan=each) for each in CHECKED}
    run.compare(
        subjects=subjects,
        reference=attention,
        inputs=lambda seed: edges(run.device, seed, pages),
        time=False,
        family="edges",
    )
    if run.on_gpu:
        for name in ("edges", "uniform", "contest-like"):
            tokens = 4 if run.tiny else 64
            made = edges(run.device, run.seed, pages)
            if name != "edges":
                made = drawn(run, name, tokens).inputs(run.seed, pages)[:-1]
            lengths = (made[4] >= 0).sum(dim=1).tolist()
            found, expected = decode(*made, lengths=lengths, debug=True), attention(*made)
            pairs = zip(found, expected, strict=True)
            wrong = sum(wrong_elements(ours, theirs) for ours, theirs in pairs)
            run.count("wrong_elements", wrong, unit="elements", subject="kernel", family=name)
            norm = float((found[0].double() - expected[0]).norm() / expected[0].norm())
            run.count("norm_error", norm, unit="fraction", subject="kernel", family=name)


# region: ladder
def steps(tokens):
    """List the versions that led to the kernel, in their order, with the plan that each wants."""
    splits = {1: 32, 8: 16, 64: 4}[tokens]
    cluster = {1: 8, 8: 8, 64: 2}[tokens]
    pushed = {1: Plan(16, 16), 8: Plan(8, 8), 64: Plan(2, 2)}[tokens]
    return {
        "split-K in Triton": None,
        "mma.sync, two launches": EarlierPlan(splits, compact=False, last=False),
        "no padding": EarlierPlan(splits, last=False),
        "last block weighs": EarlierPlan(splits),
        "clusters weigh": EarlierPlan(splits, cluster),
        "bulk copies": EarlierPlan(splits, cluster, bulk=True),
        "wgmma, answers pushed": pushed,
    } | ({"tiles from a queue": QUEUED} if tokens == 64 else {})


# endregion


def ladder(run):
    """Time the versions that led to the kernel."""
    for tokens in run.sizes(full=LADDER, tiny=(1,)):
        for name in ("uniform", "contest-like") if tokens > 1 else ("uniform",):
            found = drawn(run, name, tokens)
            study = partial(splitk, plan=study_plan(tokens))
            run.compare(
                subjects={
                    step: partial(decode, plan=plan) if plan else study
                    for step, plan in steps(tokens).items()
                },
                reference=attention,
                inputs=lambda seed, found=found: found.inputs(seed, pages_of(run))[:-1],
                samples=5,
                operation="ladder",
                **found.sizes,
                **amounts(found, run.seed),
            )


def inside_a_block(run):
    """Count the cycles until each mark inside a block: the median of the blocks that had rows, cold."""
    flush = torch.randn(2**26, device=run.device)
    shown = [drawn(run, "uniform", tokens) for tokens in (1, 4, 16, 64)]
    shown += [public(run, 0), drawn(run, "contest-like", 64)]
    for each in shown:
        made = each.inputs(run.seed, pages_of(run))[:-1]
        plan = plan_for(each.tokens, each.draw(run.seed).valid.tolist())
        marks(*made, plan=plan)
        taken = []
        for _ in range(9):
            flush.amax()
            found = marks(*made, plan=plan)
            taken.append(found[found[:, 1] > 0].double().median(dim=0).values)
        cycles = torch.stack(taken).median(dim=0).values.tolist()
        for mark, value in zip(plan.marks, cycles, strict=True):
            sizes = {**each.sizes, "mark": mark}
            run.count("cycles", value, unit="cycles", subject="kernel", **sizes)


def generated_code(run):
    """Count matrix instructions, asynchronous copies and spills of the plan for 64 full lists."""
    plan = plan_for(64)
    run.profile(
        "kernel",
        code=compile_source(plan.source, **plan.macros),
        counters=["sass:HGMMA", "sass:LDGSTS", "sass:STL", "sass:LDL"],
        tokens=64,
    )
