"""Reproduce every number in entries/2026-12-01-cutedsl-launch.md: one GPU, about two minutes.

Without a GPU a reduction in PyTorch is checked, and the two call forms that stop before the
driver, where CuTe DSL is.
"""

from functools import partial

import kernel
import matrix
import torch
from kernel import LAST, batched, reduce_parts
from reference import weighed
from shared import cutedsl_older as older

NAMES = {
    1: "1 block a token",
    4: "4 blocks a token",
    16: "16 blocks a token",
    LAST: "the last block",
}
SHAPES = [(1, 32), (8, 8), (8, 32), (8, 64), (64, 8)]  # tokens, splits


def reproduce(run):
    installed = matrix.places()
    for version in (older.VERSION, matrix.TODAY):
        run.count("installed", version in installed, unit="versions", subject=f"CuTe DSL {version}")
    if kernel.missing():
        print(kernel.missing())  # noqa: T201 - whoever runs it learns why so little was measured
    with matrix.Workers() as workers:
        prepare(run)
        call_forms(run, workers)
        if run.on_gpu and not run.tiny:
            cost(run, workers)
    for tokens, splits in run.sizes(full=SHAPES, tiny=[(2, 4)]):
        reduction(run, tokens, splits)


def prepare(run):
    """Compile the reductions that are not kept yet, while the workers import."""
    if run.on_gpu and not kernel.missing():
        for _, splits in run.sizes(full=SHAPES, tiny=[(2, 4)]):
            for weighers in NAMES:
                kernel.function(splits, weighers)


# region: matrix
def call_forms(run, workers):
    """Call the kernel in every form, in every version that is here; record what came of it."""
    wanted = run.sizes(full=matrix.forms(), tiny=["kernel", "switch without annotations, tensors"])
    for (version, form), outcome in matrix.outcomes(workers, wanted).items():
        sizes = {"version": version, "form": form}
        run.count("right", outcome.right, unit="calls", subject="add one", **sizes)
        for name in outcome.said:
            run.count("said", 1, unit="calls", subject=name, **sizes)
        unknown = not outcome.right and not outcome.said
        run.count("said", unknown, unit="calls", subject="anything else", **sizes)
        if unknown:
            print(f"{version}, {form}: {outcome.message[:2000]}")  # noqa: T201 - for whoever looks into it


# endregion


def cost(run, workers):
    """Record what a call costs the host in each form that starts the kernel, in every version."""
    for version, ways in matrix.costs(workers).items():
        for way, seconds in ways.items():
            run.count("call_time", seconds, unit="s", subject=way, version=version)


def parts(tokens, splits, seed, device):
    """Draw the parts that an attention kernel would leave: some splits have no row, and one token
    has none.
    """
    generator = torch.Generator(device).manual_seed(seed)
    options = {"device": device, "generator": generator}
    total = 1 + 60 * torch.rand((tokens, splits, 1, kernel.HEADS), **options)
    most = 3 * torch.randn((tokens, splits, 1, kernel.HEADS), **options)
    given = torch.randn((tokens, splits, kernel.HEADS, kernel.COLUMNS), **options) * total.mT
    empty = torch.zeros((tokens, splits, 1, 1), dtype=torch.bool, device=device)
    empty[:, ::5] = True
    empty[-1] = tokens > 1
    most, total = most.masked_fill(empty, -torch.inf), total.masked_fill(empty, 0.0)
    return given.masked_fill(empty, 0.0), torch.cat([most, total], dim=2)


def reduction(run, tokens, splits):
    """Check and time the reduction by each number of blocks, its parts written by a kernel before it."""
    subjects = {"batched": batched}
    if run.on_gpu and not kernel.missing():
        subjects = {
            name: partial(reduce_parts, weighers=weighers) for weighers, name in NAMES.items()
        }
    run.compare(
        subjects=subjects,
        reference=weighed,
        inputs=lambda seed: parts(tokens, splits, seed, run.device),
        tolerance=5e-3,
        samples=15,
        tokens=tokens,
        splits=splits,
    )
