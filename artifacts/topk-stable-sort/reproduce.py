"""Reproduce every number of the entry on top-k and stable sort: one GPU, about two minutes.

First the sum: which kernel adds the columns of `[64, N]`, in which order, and what changes its bits.
Then top-k against a stable sort, tie by tie. Last the cost, on ragged rows and on a single row.
"""

import sums
import ties
import torch
from draws import distinct
from kernel import (
    STABLE_FROM,
    cleaned,
    pad_by_copies,
    pad_by_kernel,
    padded_sort,
    padded_topk,
    per_item_topk,
    stable_topk,
)
from reference import top_indices, top_of_rows

SAMPLES = 11


def reproduce(run):
    sums.dispatch(run)
    sums.changed_bits(run)
    sums.own_order(run)
    sums.same_width(run)
    sums.more_rows(run)
    sums.ragged(run)
    if run.on_gpu:  # A CPU has a top-k of its own, and no claim here is about that one.
        for experiment in (ties.hunt, ties.definition, ties.network, ties.example, ties.paths):
            experiment(run)
    full = [(batch, 4096, 2048) for batch in (1, 4, 8, 16, 31)]
    full += [(31, length, 2048) for length in (2048, 4097, 8192, 16384, 32768)]
    full += [(31, 4096, k) for k in (32, 256)]
    for batch, length, k in run.sizes(full=full, tiny=[(3, 40, 8)]):
        ragged_rows(run, batch, length, k)
    for batch, length, k in run.sizes(full=[(31, 4096, 2048)], tiny=[(3, 40, 8)]):
        ragged_rows(run, batch, length, k, warm=True)
    lengths = (500, 1000, 2000, 3000, 4096, 4097, 6000, 8192, 16384, 32768, 100000)
    for length in run.sizes(full=lengths, tiny=(40,)):
        single_row(run, length, min(2048, length))


def ragged_rows(run, batch, length, k, *, warm=False):
    """The honest cost: with the filling, without it, and one top-k in place of the sort.

    Rows hold from k or half of `length` scores, whichever is more, up to `length`. `warm` repeats
    two of the ways on scores that the cache holds already, under names of their own.
    """
    lengths = sums.ragged_lengths(run, batch, length, max(k, length // 2))
    starts = torch.tensor([0, *lengths], device=run.device).cumsum(0)

    def draw(seed):
        flat = distinct(lengths, seed, run.device)
        return flat, pad_by_copies(flat.split(lengths), length)

    subjects = ragged_subjects(lengths, starts, length, k)
    workload = {"batch": batch, "length": length, "k": k}
    if warm:
        names = ("padded sort", "padded sort, filled by one kernel")
        subjects = {f"{name}, warm": subjects[name] for name in names}
    else:
        agreement(run, subjects, draw(run.seed), workload)
    run.compare(
        subjects=subjects,
        reference=lambda flat, _: top_of_rows(flat, lengths, k),
        inputs=draw,
        exact=True,
        cache="warm" if warm else "cold",
        samples=SAMPLES,
        **workload,
    )


def agreement(run, subjects, case, workload):
    """Rows in which one call over the padded matrix gives other indices than a top-k an item."""
    wanted = subjects["per item"](*case)
    for name in ("padded sort", "padded top-k"):
        wrong = int((subjects[name](*case) != wanted).any(-1).sum())
        run.count("mismatches", wrong, unit="rows", subject=name, **workload)


def ragged_subjects(lengths, starts, length, k):
    """Seven ways from `(flat, padded)` to indices `[batch, k]`; what fills does not read `padded`.

    Two more for a small `k`: ask for 33, and clean the scores before that.
    """

    def copied(flat):
        return pad_by_copies(flat.split(lengths), length)

    def filled(flat):
        return pad_by_kernel(flat, starts, length)

    subjects = {
        "per item": lambda flat, _: per_item_topk(flat.split(lengths), k),
        "padded sort": lambda _, padded: padded_sort(padded, k),
        "padded sort, filled by copies": lambda flat, _: padded_sort(copied(flat), k),
        "padded sort, filled by one kernel": lambda flat, _: padded_sort(filled(flat), k),
        "padded top-k": lambda _, padded: padded_topk(padded, k),
        "padded top-k, filled by copies": lambda flat, _: padded_topk(copied(flat), k),
        "padded top-k, filled by one kernel": lambda flat, _: padded_topk(filled(flat), k),
    }
    if k < STABLE_FROM:
        subjects["padded top-k of 33"] = lambda _, padded: stable_topk(padded, k)
        subjects["padded top-k of 33, cleaned"] = lambda _, padded: stable_topk(cleaned(padded), k)
    return subjects


def single_row(run, length, k):
    """One row, `[length]`, as workload `rows=1`: top-k and the stable sort of the same indices."""
    run.compare(
        subjects={
            "top-k": lambda row: padded_topk(row, k),
            "stable sort": lambda row: padded_sort(row, k),
        },
        reference=lambda row: top_indices(row, k),
        inputs=lambda seed: distinct([length], seed, run.device),
        exact=True,
        samples=SAMPLES,
        rows=1,
        length=length,
        k=k,
    )
