"""Reproduce every number of the entry on sparse attention: one GPU, less than three minutes.

First what is right, then the time beside the gather and the peers for every family, the public
workloads, the ladder of versions, and where the time inside a block goes.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

import torch
from contenders import MORE, Peers, study_plan
from kernel import EarlierPlan, gather
from reference import attention, row_sums
from shared.cuda_module import compile_source
from shared.dsa import wrong_elements
from shared.dsa_decode.attend import build, decode, marks
from shared.dsa_decode.plan import FEW_LONG, PLANS, QUEUED, Plan, plan_for
from shared.dsa_decode.workloads import amounts, drawn, edges, pages_of, public
from shared.dsa_lists import CONTEST
from shared.splitk import splitk

from warplog import profile

TOKENS = (1, 2, 4, 8, 12, 16, 32, 64, 128, 256)
OTHER_FAMILIES = (
    "contest-like", "contiguous", "clustered-4", "clustered-16", "clustered-64", "shared",
    "uniform-of-131072", "shuffled contest-like", "interleaved contest-like",
    "sorted-pads-first contest-like", "sorted-pads-last contest-like",
)  # fmt: skip
LADDER = [("uniform", 1), ("uniform", 8), ("uniform", 64), ("contest-like", 64)]
CHOSEN = dict.fromkeys(plan for _, plan in (*PLANS, *FEW_LONG))


def checked(run):
    """List plans of every kind. Tiny sizes on a GPU are for the sanitizer, which can follow the earlier
    design only where each lane says that it has read.
    """
    return [*CHOSEN, QUEUED, Plan(64, 8), EarlierPlan(8, 8, each=run.tiny)]


def reproduce(run):
    peers = Peers(run)
    listing = made_ready(run, peers)
    what_is_right(run)
    for tokens in run.sizes(full=TOKENS, tiny=(1,)):
        family(run, peers, drawn(run, "uniform", tokens), samples=7)
    for tokens in run.sizes(full=(4, 64), tiny=()):
        for name in OTHER_FAMILIES:
            family(run, peers, drawn(run, name, tokens), samples=3)
    for case in run.sizes(full=range(len(CONTEST)), tiny=(1,)):
        family(run, peers, public(run, case), samples=3, case=case)
    if run.on_gpu:
        ladder(run)
        generated_code(run, listing)
    if run.on_gpu and not run.tiny:
        inside_a_block(run)


def made_ready(run, peers):
    """Set all compilers to work side by side: half a minute, where nothing has ever been built.
    Return the listing of the kernel for 64 full lists, if there is a GPU for it.
    """
    if not run.on_gpu:
        return None
    with ThreadPoolExecutor() as pool:
        started = [pool.submit(peers.build, backend) for backend in peers.backends]
        built = [plan for _, tokens in LADDER for plan in steps(run, tokens).values() if plan]
        build(*checked(run), *built)
        plan = plan_for(64)
        listing = pool.submit(profile.sass, compile_source(plan.source, **plan.macros))
        if not run.tiny:
            call_first(run, peers)
        for each in started:
            each.result()
    return listing.result()


def call_first(run, peers):
    """Call what compiles at its first call; what fails says so where it is timed."""
    made = drawn(run, MORE["family"], MORE["tokens"]).inputs(run.seed, pages_of(run))
    with suppress(Exception):
        peers.compiled(*made)
    for plan in {study_plan(tokens) for tokens in TOKENS}:
        with suppress(Exception):
            splitk(*made[:-1], plan=plan)


def family(run, peers, family, samples, **more):
    """Time the kernel and its peers on one family; a gather of the same rows beside the uniform one."""
    pages, sizes = pages_of(run), {**family.sizes, **more}
    family = replace(family, draw=cache(family.draw))
    inputs = cache(lambda seed: family.inputs(seed, pages))  # 3 GB, until this returns
    run.compare(
        peers.subjects(run, family),
        reference=lambda *inputs: attention(*inputs[:-1]),
        inputs=inputs,
        samples=samples,
        **amounts(family, run.seed),
        **sizes,
    )
    if run.on_gpu and family.name == "uniform":
        run.compare(
            subjects={"gather": gather},
            reference=row_sums,
            inputs=lambda seed: inputs(seed)[2:5],
            exact=True,
            samples=samples,
            **sizes,
        )


def what_is_right(run):
    """Check every edge, with plans of every kind, and count elements that are off."""
    pages = pages_of(run)
    subjects = {"split-K in Triton": partial(splitk, plan=study_plan(4))}
    if run.on_gpu:
        subjects |= {f"kernel, {each}": partial(decode, plan=each) for each in checked(run)}
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
def steps(run, tokens):
    """List the versions that led to the kernel, in their order, with the plan that each wants."""
    splits = {1: 32, 8: 16, 64: 4}[tokens]
    cluster = {1: 8, 8: 8, 64: 2}[tokens]
    pushed = {1: Plan(16, 16), 8: Plan(8, 8), 64: Plan(2, 2)}[tokens]
    earlier = partial(EarlierPlan, splits, each=run.tiny)
    return {
        "split-K in Triton": None,
        "mma.sync, two launches": earlier(compact=False, last=False),
        "no padding": earlier(last=False),
        "last block weighs": earlier(),
        "clusters weigh": earlier(cluster),
        "each lane says so": EarlierPlan(splits, cluster, each=True),
        "bulk copies": earlier(cluster, bulk=True),
        "wgmma, answers pushed": pushed,
    } | ({"tiles from a queue": QUEUED} if tokens == 64 else {})


# endregion


def ladder(run):
    """Time the versions that led to the kernel."""
    for name, tokens in run.sizes(full=LADDER, tiny=LADDER[:1]):
        found = drawn(run, name, tokens)
        study = partial(splitk, plan=study_plan(tokens))
        run.compare(
            subjects={
                step: partial(decode, plan=plan) if plan else study
                for step, plan in steps(run, tokens).items()
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
    shown = [drawn(run, "uniform", tokens) for tokens in (1, 16, 64)]
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


def generated_code(run, listing):
    """Count matrix instructions, asynchronous copies and spills of the kernel for 64 full lists."""
    counters = ["sass:HGMMA", "sass:LDGSTS", "sass:STL", "sass:LDL"]
    run.profile("kernel", code=listing, counters=counters, tokens=64)
