"""Reproduce every number of the entry on looking at index lists first: one GPU, about a minute.

First what the lists look like, family by family. Then six ways to leave padding out, each with the
code that Triton made of it, and what a branch costs where it changes nothing else. Last a ratio over
plain PyTorch, for its spread from process to process.
"""

from dataclasses import replace
from functools import partial

from eager import eager
from generated import facts_of_the_code
from kernel import Plan, attend
from locality import SPLITS, facts_of, median
from shared.dsa import PAGES, WIDTH, problem, reference, work
from shared.dsa_lists import (
    CONTEST,
    FAMILIES,
    Lists,
    contest,
    contest_like,
    interleaved,
    shuffled,
    sorted_pads_first,
    sorted_pads_last,
    uniform,
)

PLANS = {
    "no exit": Plan("none"),
    "branch": Plan("branch"),
    "branch after loads": Plan("branch after loads"),
    "bound": Plan("bound"),
    "late bound": Plan("late bound"),
    "return": Plan("return"),
    "no exit, no pipeline": Plan("none", stages=1),
}
# Pairs that differ in the branch and in nothing else: neither has a pipeline to lose, or both keep it.
BRANCH_ALONE = {
    "branch, no pipeline": Plan("branch", stages=1),  # to "no exit, no pipeline"
    "no exit, 8 warps": Plan("none", warps=8),
    "branch after loads, 8 warps": Plan("branch after loads", stages=2, warps=8),
}
TINY = {"block": 16, "splits": 2}
TINY_WIDTH, TINY_PAGES = 64, 40
SAMPLES = 15
CASES_A_PROCESS = 5  # that compare draws: three to check and to time, two unseen


def reproduce(run):
    families(run)
    public_lists(run)
    for case in run.sizes(full=[0, 4, 14, 16], tiny=[0]):
        exits(run, contest, case, family="public", case=case, tokens=len(CONTEST[case]))
    for tokens in run.sizes(full=[64], tiny=[]):
        exits(run, contest_like, tokens, family="contest-like", tokens=tokens)
    for tokens in run.sizes(full=[1, 8, 64], tiny=[]):
        more = BRANCH_ALONE if tokens < 64 else {}
        exits(run, uniform, tokens, PLANS | more, family="uniform", tokens=tokens)
    spread(run)
    if not run.tiny:
        lists = uniform(1, run.seed, device=run.device)
        facts_of_the_code(run, PLANS | BRANCH_ALONE, problem(lists.indices, run.seed))


def sizes_of(run) -> dict:
    """How long a list is, and from how many rows."""
    if run.tiny:
        return {"rows": TINY_PAGES * 64, "width": TINY_WIDTH}
    return {"rows": PAGES * 64, "width": WIDTH}


def tolerance(run) -> float:
    """Return the limit of the error; Triton's interpreter cuts to bf16 where a GPU rounds."""
    return 1e-2 if run.tiny else 5e-3


def lists_of(run, make, about, seed) -> Lists:
    return make(about, seed, device=run.device, **sizes_of(run))


# region: exits
def exits(run, make, about, plans=PLANS, **workload):
    """Time every way to leave padding out on the lists of one family."""
    pages = TINY_PAGES if run.tiny else PAGES
    small = TINY if run.tiny else {}
    subjects = {name: partial(attend, plan=replace(plan, **small)) for name, plan in plans.items()}
    first = run.seed * CASES_A_PROCESS
    drawn = [lists_of(run, make, about, first + number) for number in range(CASES_A_PROCESS)]
    run.compare(
        subjects=subjects,
        reference=reference,
        inputs=lambda seed: problem(lists_of(run, make, about, seed).indices, seed, pages),
        tolerance=tolerance(run),
        traffic=min(lists.bytes for lists in drawn),
        work=work(min(lists.rows for lists in drawn)),
        samples=SAMPLES,
        **workload,
    )


# endregion


def families(run):
    """Say what each family of lists looks like, for 8 tokens and for 64."""
    for tokens in run.sizes(full=[8, 64], tiny=[2]):
        seed = run.seed
        named = {
            name: lists_of(run, family, tokens, seed)
            for name, family in FAMILIES.items()
            if not run.tiny or name in ("contest-like", "contiguous", "uniform", "shared")
        }
        base = named["contest-like"]
        named |= {
            "contest-like, shuffled": shuffled(base, seed),
            "contest-like, interleaved": interleaved(base),
            "contest-like, sorted, padding first": sorted_pads_first(base),
            "contest-like, sorted, padding last": sorted_pads_last(base),
        }
        for name, lists in named.items():
            record_facts(run, facts_of(lists.indices), name, tokens=tokens)


def record_facts(run, facts, subject, **workload):
    """Record the facts of one table of lists, each as one number."""
    count = partial(run.count, subject=subject, **workload)
    cut = facts.tokens * facts.splits
    count("listed_share", facts.rows / (facts.tokens * facts.places), unit="fraction")
    count("lists_in_order", facts.in_order / facts.tokens, unit="fraction")
    count("runs_a_list", median(facts.runs), unit="runs")
    count("run_length", median(facts.run_lengths), unit="rows")
    count("pages_a_list", median(facts.pages), unit="pages")
    count("pages_touched", facts.all_pages, unit="pages")
    count("different_rows", facts.unique_rows, unit="rows")
    count("sharing", facts.sharing, unit="lists a row")
    count("padding_splits", sum(facts.padding_splits) / cut, unit="fraction")


def public_lists(run):
    """Say of the 23 public workloads what was reported of some; counts come from the publication."""
    tables = [lists_of(run, contest, case, run.seed) for case in range(len(CONTEST))]
    facts = [facts_of(lists.indices) for lists in tables]
    for case, token in ((0, 0), (4, 1)):
        about = {"subject": "public list", "rows": CONTEST[case][token]}
        found = facts[case]
        run.count("valid_rows", found.valid[token], unit="rows", **about)
        run.count("pages_touched", found.pages[token], unit="pages", **about)
        run.count("padding_splits", found.padding_splits[token], unit="splits", **about)
    together = {"subject": "all public lists"}
    lists = sum(each.tokens for each in facts)
    rows = [count for each in facts for count in each.valid]
    idle = [count for each in facts for count in each.padding_splits]
    in_order = sum(each.in_order for each in facts)
    run.count("lists", lists, unit="lists", **together)
    run.count("valid_rows", median(rows), unit="rows", **together)
    run.count("lists_in_order", in_order, unit="lists", **together)
    run.count("padding_splits", sum(idle) / (lists * SPLITS), unit="fraction", **together)
    seven = sum(count == SPLITS - 1 for count in idle)
    run.count("lists_with_one_split", seven, unit="lists", **together)


def spread(run):
    """Time the study kernel over plain PyTorch, for how far that ratio moves between processes."""
    case, small = (1, TINY) if run.tiny else (14, {})
    pages = TINY_PAGES if run.tiny else PAGES
    run.compare(
        subjects={"plain PyTorch": eager, "no exit": partial(attend, plan=Plan(**small))},
        reference=reference,
        inputs=lambda seed: problem(lists_of(run, contest, case, seed).indices, seed, pages),
        tolerance=tolerance(run),
        samples=SAMPLES,
        family="public-against-pytorch",
        case=case,
    )
