"""Reproduce every number in entries/2026-11-30-occupancy.md: one GPU, about two minutes.

Without a GPU the study kernel and its changed arithmetic are checked, and nothing is held back.
"""

import functools
from dataclasses import replace
from functools import partial

import torch
from compiled import padded, resident_blocks
from kernel import EXPONENTIALS, attend, split_alone, weigh
from plans import DEEP, SMALL, held, padded_bytes, report, side_by_side
from reference import weighed
from shared import dsa, dsa_lists
from shared.splitk import Plan, splitk
from shared.splitk_code import of_each, shared_bytes

TOLERANCE = 5e-3
TOLERANCE_INTERPRETED = 1e-2  # the interpreter cuts to bfloat16 and does not round
SAMPLES = 11
TINY = Plan(block=16, stages=2, splits=2)
FULL_WAVES = 99  # tokens, of 16 splits: 1584 blocks are twelve to each of 132 multiprocessors
EVEN_WAVES = 66  # tokens, of 8 splits: 528 blocks are four to each
HELD = replace(SMALL, splits=16)

# region: counters
COUNTERS = [
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "dram__bytes_read.sum",
    "gpu__time_duration.sum",
    "launch__waves_per_multiprocessor",
    "launch__registers_per_thread",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_registers",
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
]
# endregion


def reproduce(run):
    """Count what the report counted, then change what it says would change nothing."""
    if not run.tiny:
        plans = [*side_by_side(4).values(), *side_by_side(64).values()]
        plans += [plan for plan, _ in held().values()]
        of_each([*plans, HELD], shared_bytes)
        describe(run)
    for tokens in run.sizes(full=[4, 64], tiny=[2]):
        compare_plans(run, tokens)
    for tokens in run.sizes(full=[64, FULL_WAVES], tiny=[]):
        hold_back(run, tokens)
    if not run.tiny:
        hold_back_same_rows(run)
        hold_buffers(run)
    for splits in run.sizes(full=[2, 8, 16], tiny=[2]):
        reduce_alone(run, splits)
    for tokens in run.sizes(full=[4, 64], tiny=[2]):
        change_exponential(run, tokens)
        skip_tail(run, tokens)
    count(run)


def describe(run):
    """Record the shared memory of the report's plan and of the others, as they were compiled."""
    plans = {"report's plan": report(64), "two buffers": DEEP, "small": SMALL}
    for name, plan in plans.items():
        shared = shared_bytes(plan)
        run.count("shared_bytes", shared, unit="B", subject=name)
        run.count("resident_blocks", resident_blocks(plan, shared), unit="blocks", subject=name)


def sizes_of(run) -> tuple[int, int]:
    """Return the pages of the cache and the places of a list."""
    return run.sizes(full=[(dsa.PAGES, dsa.WIDTH)], tiny=[(2, 32)])[0]


def inputs(run, tokens: int, seed: int, family=dsa_lists.uniform) -> dsa.Problem:
    """Draw a problem with full lists of random rows."""
    pages, width = sizes_of(run)
    lists = family(tokens, seed, rows=pages * dsa.PAGE, width=width, device=run.device)
    return dsa.problem(lists.indices, seed, pages)


def tolerance(run) -> float:
    """Return the largest error of an output that is right."""
    return TOLERANCE_INTERPRETED if run.tiny else TOLERANCE


def shared_arguments(run, tokens: int, experiment: str, family=dsa_lists.uniform) -> dict:
    """Return what every comparison over full lists of random rows has in common."""
    pages, width = sizes_of(run)
    lists = family(tokens, 0, rows=pages * dsa.PAGE, width=width, device=run.device)
    return {
        "reference": dsa.reference,
        "inputs": lambda seed: inputs(run, tokens, seed, family),
        "tolerance": tolerance(run),
        "traffic": lists.bytes,
        "samples": SAMPLES,
        "experiment": experiment,
        "tokens": tokens,
    }


def compare_plans(run, tokens: int):
    """Time the report's plan beside plans with more buffers, more blocks and more splits."""
    plans = {"report's plan": TINY} if run.tiny else side_by_side(tokens)
    run.compare(
        subjects={name: partial(splitk, plan=plan) for name, plan in plans.items()},
        **shared_arguments(run, tokens, "plans"),
    )


def hold_back(run, tokens: int):
    """Time one binary with one to four of its blocks on a multiprocessor at once."""
    subjects = {}
    for blocks in (1, 2, 3, 4):
        name = "1 block" if blocks == 1 else f"{blocks} blocks"
        shared = padded_bytes(blocks)
        subjects[name] = partial(padded, plan=HELD, shared=shared)
        found = resident_blocks(HELD, shared)
        run.count("resident_blocks", found, unit="blocks", subject=name, tokens=tokens)
    run.compare(subjects=subjects, **shared_arguments(run, tokens, "held_back"))


def hold_back_same_rows(run):
    """Time the same binary where all tokens list the same rows, which the L2 holds after the first."""
    subjects = {
        name: partial(padded, plan=HELD, shared=padded_bytes(blocks))
        for name, blocks in {"1 block, same rows": 1, "4 blocks, same rows": 4}.items()
    }
    family = dsa_lists.shared
    run.compare(subjects=subjects, **shared_arguments(run, FULL_WAVES, "held_back", family))


def hold_buffers(run):
    """Time one, two and three buffers with one block, and one and two with two blocks."""
    subjects = {}
    for name, (plan, blocks) in held().items():
        shared = padded_bytes(blocks)
        subjects[name] = partial(padded, plan=plan, shared=shared)
        found = resident_blocks(plan, shared)
        run.count("resident_blocks", found, unit="blocks", subject=name)
    run.compare(subjects=subjects, **shared_arguments(run, EVEN_WAVES, "buffers"))


def reduce_alone(run, splits: int):
    """Time the reduction of 64 tokens by itself, over parts that the L2 still has."""
    tokens = run.sizes(full=[64], tiny=[2])[0]

    def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator(run.device).manual_seed(seed)
        options = {"device": run.device, "generator": generator}
        shape = (tokens, splits, dsa.HEADS)
        return torch.randn((*shape, dsa.CKV), **options), torch.randn(shape, **options)

    run.compare(
        subjects={"reduction": weigh},
        reference=weighed,
        inputs=drawn,
        tolerance=tolerance(run),
        cache="warm",
        samples=SAMPLES,
        splits=splits,
    )


def change_exponential(run, tokens: int):
    """Time the report's plan with each way to compute a weight from a score."""
    plan = TINY if run.tiny else report(tokens)
    run.compare(
        subjects={each: partial(attend, plan=plan, exponential=each) for each in EXPONENTIALS},
        **shared_arguments(run, tokens, "exponential"),
    )


def skip_tail(run, tokens: int):
    """Time the report's plan with and without the 64-wide part of the keys, and with one from near.

    The queries' 64-wide part is zero here, so that all have the same answer, and the reference with them.
    """
    plan = TINY if run.tiny else report(tokens)

    def tailless(seed: int) -> dsa.Problem:
        drawn = inputs(run, tokens, seed)
        return drawn._replace(q_pe=torch.zeros_like(drawn.q_pe))

    subjects = {"whole keys": "whole", "without the tail": "none", "tail from near": "near"}
    arguments = shared_arguments(run, tokens, "tail") | {"inputs": tailless, "traffic": None}
    run.compare(
        subjects={name: partial(attend, plan=plan, tail=tail) for name, tail in subjects.items()},
        **arguments,
    )


def count(run):
    """Read the counters of the split kernel alone, as the report did, for its plan and for two others."""
    if run.tiny:
        return

    @functools.cache
    def drawn(tokens: int) -> dsa.Problem:
        return inputs(run, tokens, run.seed)

    for name, tokens, plan in (
        ("report's plan", 4, report(4)),
        ("report's plan", 64, report(64)),
        ("two buffers", 64, replace(DEEP, splits=8)),
        ("small", 64, replace(SMALL, splits=16)),
    ):
        run.profile(
            name,
            lambda tokens=tokens, plan=plan: split_alone(*drawn(tokens), plan=plan),
            counters=COUNTERS,
            tokens=tokens,
        )
