"""Reproduce every number in entries/2026-12-01-cutedsl-splits.md: one GPU, two to three minutes.

Without a GPU the study kernel and PyTorch are checked; the rule for the swizzle is counted
wherever CuTe DSL is installed.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import kernel
import torch
from gathers import gathers, units
from kernel import attend
from plan import plan_for
from reference import attention
from shared import cutedsl_older as older
from shared.dsa import WIDTH, wrong_elements
from shared.dsa_decode.attend import build as build_decode
from shared.dsa_decode.attend import decode
from shared.dsa_decode.peers import WORKSPACE_BYTES, Planned, batched, eager, flashinfer_or_none
from shared.dsa_decode.plan import FEW_LONG, PLANS
from shared.dsa_decode.workloads import amounts, drawn, edges, pages_of, public
from shared.dsa_lists import CONTEST
from shared.splitk import Plan as StudyPlan
from shared.splitk import splitk
from steps import (
    GOALS,
    LADDER,
    OTHER_SPLITS,
    SPLITS,
    WEIGHED,
    WEIGHED_TWO,
    checked,
    every_plan,
    swept,
)

BACKENDS = ("fa3", "fa2")  # of flashinfer


def reproduce(run):
    lacking = kernel.missing()
    run.count("installed", not lacking, unit="versions", subject="CuTe DSL of today")
    run.count(
        "installed",
        older.modules() is not None,
        unit="versions",
        subject=f"CuTe DSL {older.VERSION}",
    )
    peers(run)
    if lacking:
        print(lacking)  # noqa: T201 - whoever runs it learns why so little was measured
        return
    units(run)
    rivals = None
    if run.on_gpu:
        rivals = prepare(run)
        gathers(run)
        what_is_right(run)
    if run.on_gpu and not run.tiny:
        generated_code(run)
        ladder(run)
        sweep(run)
        goals(run, rivals)
        contest(run, rivals)


def peers(run):
    """Check the study kernel and PyTorch, which need no CuTe DSL; nothing is timed here."""
    for tokens in run.sizes(full=[4], tiny=[1]):
        family = drawn(run, "uniform", tokens)
        run.compare(
            subjects={
                "split-K in Triton": without_table(partial(splitk, plan=study_plan(tokens))),
                "batched": batched,
            },
            reference=lambda *inputs: attention(*inputs[:-1]),
            inputs=lambda seed, family=family: family.inputs(seed, pages_of(run)),
            time=False,
            experiment="peers",
            **family.sizes,
        )


def prepare(run):
    """Compile side by side all that is not kept yet, ours and the rivals'; return the rivals."""
    from gather import WAYS
    from widths import build_older

    ours = [*((plan, WIDTH) for plan in every_plan()), *((way, 0) for way in WAYS)]
    theirs = {plan for _, plan in (*PLANS, *FEW_LONG)}
    with ThreadPoolExecutor() as pool:
        waited_for = [pool.submit(kernel.build, ours)]
        if not run.tiny:
            waited_for += [pool.submit(build_older, WAYS), pool.submit(build_decode, *theirs)]
        rivals = None if run.tiny else Rivals(run)
        for each in waited_for:
            each.result()
    return rivals


def what_is_right(run):
    """Check every edge with plans of every kind, and count elements that are off."""
    plans = checked()[:4] if run.tiny else checked()
    run.compare(
        subjects={str(plan): partial(attend, plan=plan) for plan in plans},
        reference=attention,
        inputs=lambda seed: edges(run.device, seed, pages_of(run)),
        time=False,
        family="edges",
    )
    made = edges(run.device, run.seed, pages_of(run))
    expected, wrong = attention(*made), 0
    for plan in plans:
        pairs = zip(attend(*made, plan=plan), expected, strict=True)
        wrong += sum(wrong_elements(ours, theirs) for ours, theirs in pairs)
    run.count("wrong_elements", wrong, unit="elements", subject="CuTe DSL", family="edges")


def generated_code(run):
    """Count the instructions of the plan for 64 full lists."""
    ptx, machine = kernel.code_of(plan_for(64), WIDTH)
    run.profile(
        "CuTe DSL",
        code=ptx,
        counters=["ptx:cp.async.cg", "ptx:wgmma.mma_async", "ptx:ld.local"],
        tokens=64,
    )
    run.profile(
        "CuTe DSL",
        code=machine,
        counters=["sass:HGMMA", "sass:LDGSTS.E.BYPASS.128", "sass:STL", "sass:LDL"],
        tokens=64,
    )


def timed(run, subjects, family, experiment, samples=7, **more):
    """Compare subjects on one family.

    The error may reach a hundredth, as where the CUDA C++ kernel is from: its blocks pass on outputs
    that are rounded to bf16.
    """
    run.compare(
        subjects=subjects,
        reference=lambda *inputs: attention(*inputs[:6]),
        inputs=lambda seed: family.inputs(seed, pages_of(run)),
        samples=samples,
        experiment=experiment,
        **family.sizes,
        **more,
        **amounts(family, run.seed),
    )


def without_table(call):
    """Leave out the last input, flashinfer's page table."""
    return lambda *inputs: call(*inputs[:-1])


def named(plans):
    """Return subjects that attend as these plans say."""
    return {name: without_table(partial(attend, plan=plan)) for name, plan in plans.items()}


def ladder(run):
    """Time the reported steps and ours, in their order, and who weighs the splits."""
    for case in (9, 16):
        timed(run, named(LADDER), public(run, case), "ladder", case=case)
        weighed = WEIGHED | OTHER_SPLITS
        timed(run, named(weighed), public(run, case), "reduction", samples=5, case=case)
    timed(run, named(LADDER), drawn(run, "uniform", 8), "ladder")
    timed(run, named(WEIGHED_TWO), drawn(run, "uniform", 64), "reduction")


# region: sweep
def sweep(run):
    """Time every number of splits at the same code, as reported and as it is now."""
    for splits in SPLITS:
        family = drawn(run, "uniform", 8)
        timed(run, named(swept(splits)), family, "sweep", samples=3, splits=splits)


# endregion


def study_plan(tokens):
    """Choose the study kernel's best plan of those that were tried; few steps for an interpreter."""
    if not torch.cuda.is_available():
        return StudyPlan(block=128, splits=2)
    if tokens <= 4:
        return StudyPlan(block=32, stages=3, splits=32)
    if tokens <= 16:
        return StudyPlan(splits=16)
    return StudyPlan(stages=5, splits=2 if tokens >= 64 else 4, warps=8)


class Rivals:
    """The CUDA C++ kernel, the study kernel, and flashinfer's backends where it is installed."""

    def __init__(self, run):
        """Have flashinfer compile its backends side by side: half a minute each on a new machine."""
        self.run, self.flashinfer = run, flashinfer_or_none()
        if self.flashinfer:
            self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.int8, device=run.device)
            table = torch.zeros(1, dtype=torch.int32, device=run.device)
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda backend: self.planned(backend, [1]).plan(table), BACKENDS))

    def planned(self, backend, counts):
        """Return flashinfer's wrapper for lists of these lengths."""
        return Planned(self.flashinfer, backend, counts, self.workspace)

    def subjects(self, family):
        """Name ours and the rivals."""
        counts = family.draw(self.run.seed).valid.tolist()
        found = {
            "CuTe DSL": without_table(attend),
            "CUDA C++": without_table(partial(decode, lengths=counts)),
            "split-K in Triton": without_table(partial(splitk, plan=study_plan(family.tokens))),
        }
        for backend in BACKENDS if self.flashinfer else ():
            found[f"flashinfer {backend}"] = self.planned(backend, counts)
        return found


def goals(run, rivals):
    """Time the kernel beside its rivals on many full lists."""
    for tokens in GOALS:
        family = drawn(run, "uniform", tokens)
        timed(run, rivals.subjects(family), family, "goals")


def contest(run, rivals):
    """Time it beside its rivals, and beside PyTorch token by token, on the public workloads."""
    whole = partial(eager, whole_cache=True)
    token_by_token = {"eager": eager, "eager, whole cache in float32": whole}
    for case in range(len(CONTEST)):
        family = public(run, case)
        subjects = rivals.subjects(family) | token_by_token
        timed(run, subjects, family, "contest", samples=3, case=case)
