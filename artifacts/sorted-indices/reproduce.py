"""Reproduce every number of the entry on sorting index lists: one GPU, about a minute.

First the time of every order, of sorting in the call and in a graph, and of the sort alone, in a full
queue; then of the sort in an empty one. Last what sorting changes in the lists, a graph that had
sorted before it was captured, and the bytes.
"""

from dataclasses import replace
from functools import cache, partial

import torch
from captured import capture
from empty_queue import empty_queue
from orders import expected, imbalance, inputs_of, subjects_of, wrong_tokens
from shared.dsa import PAGES, WIDTH, problem, reference, work
from shared.dsa_lists import (
    CONTEST,
    Lists,
    contest,
    contest_like,
    contiguous,
    interleaved,
    shared,
    shuffled,
    sorted_pads_first,
    sorted_pads_last,
    uniform,
)
from shared.splitk import Plan, splitk

PLAN = Plan(stages=3)
ONE_KERNEL = replace(PLAN, reduction="last")
TINY_PLAN = Plan(block=16, splits=2)
TINY_WIDTH, TINY_PAGES = 64, 40
FEW_ROWS = 131_072
SAMPLES = 11
CASES_A_PROCESS = 5  # that compare draws: three to check and to time, two unseen
DRAM, L2 = "dram__bytes_read.sum", "lts__t_sectors_op_read.sum"


def few_rows(tokens, seed, **sizes) -> Lists:
    """Lists that share rows by chance: 64 of them list each row once on average."""
    return uniform(tokens, seed, **sizes | {"rows": FEW_ROWS})


def in_runs(tokens, seed, **sizes) -> Lists:
    """Runs in random order: whoever sorts gets memory that is read from front to back."""
    return shuffled(contiguous(tokens, seed, **sizes), seed)


def spread(case, seed, **sizes) -> Lists:
    """A public workload whose padding stands between the rows, so that each split has its share."""
    return interleaved(contest(case, seed, **sizes))


def like_spread(tokens, seed, **sizes) -> Lists:
    """Lists like the public ones, the padding between the rows: more splits than fit at a time."""
    return interleaved(contest_like(tokens, seed, **sizes))


FULL = {"uniform": uniform, "uniform-of-few": few_rows, "runs-shuffled": in_runs, "shared": shared}


def reproduce(run):
    for case in run.sizes(full=[0, 4, 14], tiny=[0]):
        orders(run, contest, case, family="public", case=case)
    for case in run.sizes(full=[14], tiny=[]):
        orders(run, spread, case, family="public-interleaved", case=case)
    for tokens in run.sizes(full=[64], tiny=[]):
        orders(run, contest_like, tokens, family="contest-like", tokens=tokens)
        orders(run, like_spread, tokens, family="contest-like-interleaved", tokens=tokens)
    for tokens in run.sizes(full=[1], tiny=[]):
        orders(run, uniform, tokens, padded=False, family="one-full-list", tokens=tokens)
    for tokens in run.sizes(full=[8, 64], tiny=[]):
        for name, make in FULL.items():
            orders(run, make, tokens, padded=False, family=name, tokens=tokens)
    for tokens in run.sizes(full=[1, 8, 64], tiny=[2]):
        sort_alone(run, tokens)
    for case in run.sizes(full=[0, 4, 14], tiny=[]):
        lists = contest(case, run.seed, **sizes_of(run))
        drawn = problem(lists.indices, run.seed)
        empty_queue(run, drawn, PLAN, family="empty-queue", case=case)
    public_lists(run)
    sorted_before_the_capture(run)
    bytes_moved(run)


def sizes_of(run) -> dict:
    """How long a list is, from how many rows, and where."""
    if run.tiny:
        return {"rows": TINY_PAGES * 64, "width": TINY_WIDTH, "device": run.device}
    return {"rows": PAGES * 64, "width": WIDTH, "device": run.device}


# region: orders
def orders(run, make, about, *, padded=True, **workload):
    """Time one family in every order, and say how unequal the splits are in each."""
    sizes, pages = sizes_of(run), TINY_PAGES if run.tiny else PAGES
    plan = TINY_PLAN if run.tiny else PLAN
    first = run.seed * CASES_A_PROCESS
    drawn = [make(about, first + number, **sizes) for number in range(CASES_A_PROCESS)]
    run.compare(
        subjects=subjects_of(plan, padded=padded, graphs=not run.tiny),
        reference=expected,
        inputs=lambda seed: inputs_of(make(about, seed, **sizes), seed, pages),
        # Triton's interpreter cuts to bf16 where a GPU rounds.
        tolerance=1e-2 if run.tiny else 5e-3,
        traffic=min(lists.bytes for lists in drawn),
        work=work(min(lists.rows for lists in drawn)),
        samples=SAMPLES,
        **workload,
    )
    ways = {"as given": drawn[0], "sorted": sorted_pads_first(drawn[0])}
    for subject, lists in ways.items():
        uneven = imbalance(lists.indices, plan.splits)
        run.count("imbalance", uneven, unit="shares", subject=subject, **workload)


# endregion


def sort_alone(run, tokens):
    """Time torch.sort of the lists, which returns where each row stood as well."""
    sizes = sizes_of(run)
    run.compare(
        subjects={"torch.sort": lambda lists: torch.sort(lists, dim=1).values},
        reference=lambda lists: lists.cpu().sort(dim=1).values.to(lists.device),
        inputs=lambda seed: uniform(tokens, seed, **sizes).indices,
        exact=True,
        samples=SAMPLES,
        family="sort-alone",
        tokens=tokens,
    )
    lists = uniform(tokens, run.seed, **sizes).indices
    if kernels := run.launches(lambda: torch.sort(lists, dim=1)):
        about = {"family": "sort-alone", "tokens": tokens}
        run.count("kernels", len(kernels), unit="kernels", subject="torch.sort", **about)


def public_lists(run):
    """Count the public lists that sorting leaves as they are, if padding is kept last."""
    changed = listed = 0
    for case in range(len(CONTEST)):
        lists = contest(case, run.seed, **sizes_of(run))
        same = (sorted_pads_last(lists).indices == lists.indices).all(dim=1)
        changed, listed = changed + int((~same).sum()), listed + len(same)
    about = {"subject": "all public lists", "family": "public"}
    run.count("lists", listed, unit="lists", **about)
    run.count("lists_changed", changed, unit="lists", **about)


# region: before the capture
def sorted_before_the_capture(run, tokens=8):
    """Sort, capture the attention alone, bring new lists to the same place, and replay.

    Counts the tokens whose output is wrong; each list is a run of its own, so none is right by chance.
    """
    if run.tiny:
        return
    lists = contiguous(tokens, run.seed, **sizes_of(run))
    drawn = problem(lists.indices, run.seed)
    ways = {
        "sorted before the capture": sorted_pads_first(lists).indices,
        "as given, in a graph": drawn.sparse_indices,
    }
    graphs = {
        name: capture(partial(splitk, plan=PLAN), drawn._replace(sparse_indices=indices))
        for name, indices in ways.items()
    }
    drawn.sparse_indices.copy_(contiguous(tokens, run.seed + 1, **sizes_of(run)).indices)
    answer, _ = reference(*drawn)
    for name, (graph, (output, _)) in graphs.items():
        graph.replay()
        wrong = wrong_tokens(output, answer)
        run.count("wrong_tokens", wrong, unit="tokens", subject=name, tokens=tokens)


# endregion


def bytes_moved(run, tokens=64):
    """Count what DRAM and L2 read for full lists, as they are given and sorted."""

    @cache
    def cached():  # as nothing is profiled in most processes, nothing is drawn in them
        return problem(uniform(tokens, run.seed, **sizes_of(run)).indices, run.seed)

    @cache
    def ordered(name, *, sort):
        lists = FULL[name](tokens, run.seed, **sizes_of(run))
        return (sorted_pads_first(lists) if sort else lists).indices

    def call(name, plan, *, sort):
        splitk(*cached()._replace(sparse_indices=ordered(name, sort=sort)), plan=plan)

    def profile(subject, name, plan=PLAN, *, sort):
        about = {"family": name, "tokens": tokens}
        run.profile(subject, partial(call, name, plan, sort=sort), counters=[DRAM, L2], **about)

    for name in run.sizes(full=list(FULL), tiny=[]):
        profile("as given", name, sort=False)
        profile("sorted", name, sort=True)
        # the least that can be read: every different row once
        rows = int(ordered(name, sort=True).unique().numel())
        about = {"family": name, "tokens": tokens}
        run.count("different_rows", rows, unit="rows", subject="lists", **about)
    for name in run.sizes(full=["uniform-of-few"], tiny=[]):
        # the profiler empties the caches before each kernel, so that a second one finds nothing there
        profile("as given, one kernel", name, ONE_KERNEL, sort=False)
        profile("sorted, one kernel", name, ONE_KERNEL, sort=True)
