"""Reproduce every number of the entry: one GPU, less than a minute."""

import torch
from kernel import eager, rms_norm
from reference import rms_norm_of


def reproduce(run):
    for rows, length in run.sizes(full=[(4096, 1024), (4096, 4096)], tiny=[(3, 40)]):

        def draw(seed, rows=rows, length=length):
            generator = torch.Generator(run.device).manual_seed(seed)
            x = torch.randn(rows, length, generator=generator, device=run.device)
            return x, torch.randn(length, generator=generator, device=run.device)

        run.compare(
            subjects={"kernel": rms_norm, "eager": eager},
            reference=rms_norm_of,
            inputs=draw,
            baseline="eager",
            tolerance=1e-5,
            # Bytes that one call must read and write, each once: fp32 x and out, and the weight.
            # Yours: sum `.nbytes` of what it must touch; leave a subject out, or traffic= away, if unsure.
            traffic={"kernel": 4 * (2 * rows + 1) * length},
            rows=rows,
            length=length,
        )
