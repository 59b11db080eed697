"""Reproduce every number in entries/2026-11-30-gather-codegen.md: one GPU, about two minutes.

Without a GPU the study kernel, its stopped forms and the gathers are checked, and no code is examined.
"""

from dataclasses import replace
from functools import partial

import torch
from examine import examine
from kernel import LIST, WAYS, capped, gather_sum, parts, start, start_gather
from plans import MORE_SPLITS, ONE_BUFFER, REGISTERS, name_of, one_wave, report, stopped, timed
from reference import stopped_parts, sums_of_rows
from shared import dsa, dsa_lists
from shared.splitk import Plan, splitk
from shared.splitk_code import compile_plan

TOLERANCE = 5e-3
TOLERANCE_INTERPRETED = 1e-2  # the interpreter cuts to bfloat16 and does not round
SAMPLES = 11
TINY = Plan(block=16, stages=2, splits=2)
TINY_PLANS = {"tiny": TINY, "tiny, no masks": replace(TINY, stages=3, masks=False)}


def reproduce(run):
    """Examine the code of every plan, then time those that fit."""
    examine(run)
    attempt(run)
    time_plans(run)
    if not run.tiny:
        time_one_wave(run)
    time_masks_over_padding(run)
    for tokens in run.sizes(full=[1, 64], tiny=[2]):
        stop_early(run, tokens)
    gather(run)


def attempt(run):
    """Start the report's plan with more stages and without masks, and see whether the GPU takes it.

    Where it does, the code that ran is compared with the code that was examined.
    """
    if run.tiny:
        return
    drawn = inputs(run, 4, run.seed)
    for stages in (3, 5):
        for masks in (True, False):
            plan = report(4, stages=stages, masks=masks)
            sizes = {"stages": stages, "masks": masks}
            kernel = started(drawn, plan)
            ran = kernel is not None
            run.count("started", ran, unit="plans", subject="report's plan", **sizes)
            if ran:
                other = kernel.asm["ptx"] != compile_plan(plan).asm["ptx"]
                run.count("other_code", other, unit="plans", subject="report's plan", **sizes)
    torch.cuda.synchronize()


def started(drawn, plan: Plan):
    """Start a plan; return the compiled kernel, or None where it wants more than a block may have."""
    from triton.runtime.errors import OutOfResources

    try:
        return start(*drawn, plan=plan)[0]
    except OutOfResources:
        return None


def tolerance(run) -> float:
    """Return the largest error of an output that is right."""
    return TOLERANCE_INTERPRETED if run.tiny else TOLERANCE


def inputs(run, tokens: int, seed: int, family=dsa_lists.uniform) -> dsa.Problem:
    """Draw a problem whose lists are of one family; without a GPU, a small one."""
    pages, width = run.sizes(full=[(dsa.PAGES, dsa.WIDTH)], tiny=[(2, 32)])[0]
    lists = family(tokens, seed, rows=pages * dsa.PAGE, width=width, device=run.device)
    return dsa.problem(lists.indices, seed, pages)


def traffic(run, tokens: int) -> int:
    """Return the bytes that a call over uniform lists must move, with the rows of one such draw."""
    pages, width = run.sizes(full=[(dsa.PAGES, dsa.WIDTH)], tiny=[(2, 32)])[0]
    return dsa_lists.uniform(tokens, 0, rows=pages * dsa.PAGE, width=width, device=run.device).bytes


def time_plans(run):
    """Time every plan that fits, all of one size in turns."""
    for tokens in run.sizes(full=[1, 64], tiny=[1]):
        chosen = TINY_PLANS if run.tiny else timed(tokens)
        subjects = {name: partial(splitk, plan=plan) for name, plan in chosen.items()}
        if tokens > 1:
            limited = partial(capped, plan=ONE_BUFFER, registers=REGISTERS)
            subjects[f"{name_of(ONE_BUFFER)}, {REGISTERS} registers"] = limited
        run.compare(
            subjects=subjects,
            reference=dsa.reference,
            inputs=lambda seed, tokens=tokens: inputs(run, tokens, seed),
            tolerance=tolerance(run),
            traffic=traffic(run, tokens),
            samples=SAMPLES,
            experiment="plans",
            tokens=tokens,
        )


def time_one_wave(run):
    """Time one, two and three buffers in one wave of blocks, each with a quarter as many to do."""
    tokens = 64
    run.compare(
        subjects={name: partial(splitk, plan=plan) for name, plan in one_wave().items()},
        reference=dsa.reference,
        inputs=lambda seed: inputs(run, tokens, seed),
        tolerance=tolerance(run),
        traffic=traffic(run, tokens),
        samples=SAMPLES,
        experiment="one_wave",
        tokens=tokens,
    )


def time_masks_over_padding(run):
    """Time the report's plan with and without masks where most of a list is padding."""
    cases = {
        "contest-like": (64, dsa_lists.contest_like),
        "public_22": (7, lambda _, seed, **named: dsa_lists.contest(22, seed, **named)),
    }
    for lists, (tokens, family) in () if run.tiny else cases.items():
        plans = {name_of(plan): plan for plan in (report(tokens), report(tokens, masks=False))}
        run.compare(
            subjects={name: partial(splitk, plan=plan) for name, plan in plans.items()},
            reference=dsa.reference,
            inputs=lambda seed, tokens=tokens, family=family: inputs(run, tokens, seed, family),
            tolerance=tolerance(run),
            samples=SAMPLES,
            experiment="padding",
            lists=lists,
        )


def stop_early(run, tokens: int):
    """Time the report's plan stopped after each step, the reduction left out, and whole."""
    tiny = {
        stop: Plan(block=16, stages=2, splits=2, stop=stop)
        for stop in ("load", "scores", "softmax", "output")
    }
    plans = tiny if run.tiny else stopped(tokens)
    shared = {
        "inputs": lambda seed: inputs(run, tokens, seed),
        "tolerance": tolerance(run),
        "traffic": traffic(run, tokens),
        "samples": SAMPLES,
        "experiment": "stopped",
        "tokens": tokens,
    }
    for stop in ("load", "scores", "softmax", "output"):
        chosen = {name: plan for name, plan in plans.items() if plan.stop == stop}
        chosen = {f"{name}, then stop": plan for name, plan in chosen.items()}
        splits = next(iter(chosen.values())).splits
        run.compare(
            subjects={name: partial(parts, plan=plan) for name, plan in chosen.items()},
            reference=partial(stopped_parts, stop=stop, splits=splits),
            **shared,
        )
    whole = {"whole": TINY if run.tiny else report(tokens)}
    if tokens == 1:
        whole["whole, 32 splits"] = MORE_SPLITS
    run.compare(
        subjects={name: partial(splitk, plan=plan) for name, plan in whole.items()},
        reference=dsa.reference,
        **shared,
    )


def gather(run):
    """Time a gather without attention, in the forms that the compiler treats apart."""
    rows, lists = run.sizes(full=[(dsa_lists.ROWS, 2048)], tiny=[(256, 4)])[0]

    def drawn(seed):
        generator = torch.Generator(run.device).manual_seed(seed)
        options = {"device": run.device, "generator": generator}
        table = torch.randn((rows, dsa.CKV), dtype=torch.bfloat16, **options)
        listed = torch.randperm(rows, **options)[: lists * LIST]
        return table, listed.int().view(lists, LIST)

    run.compare(
        subjects={way: partial(gather_sum, way=way) for way in WAYS},
        reference=sums_of_rows,
        inputs=drawn,
        tolerance=tolerance(run),
        traffic=lists * LIST * (2 * dsa.CKV + 4) + 4 * lists * dsa.CKV,
        samples=SAMPLES,
        experiment="gather",
        lists=lists,
    )
    if not run.tiny:
        table, listed = drawn(run.seed)
        for way in WAYS:
            code = start_gather(table, listed, way)[0].asm["ptx"]
            counters = ["ptx:cp.async.cg", "ptx:cp.async.ca", "ptx:ld.global.v4", "ptx:ld.global"]
            run.profile(way, code=code, counters=counters, experiment="gather")
