"""Calls of the study kernel, on a machine that is real or simulated, with room around their tensors."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from kernel import Load, outputs_for
from shared.dsa import PAGE, SM_SCALE, Problem, problem, reference, wrong_elements
from shared.splitk import Plan
from torch import Tensor

SCALES = (SM_SCALE, SM_SCALE / 2)


Start = Callable[[Plan, Sequence[Tensor], float, Sequence[Tensor]], None]


class Machine(NamedTuple):
    """A driver, real or simulated, what loads kernels for it, and what starts them by another way:
    a plan's, for inputs and outputs, scale and scratch memory.
    """

    driver: Any
    load: Load
    start: Start


class Size(NamedTuple):
    """Tokens and width of a call's lists, and pages of its caches."""

    tokens: int
    width: int
    pages: int


class Case(NamedTuple):
    """One call: inputs and outputs, its scalar, and the larger outputs that its own are a part of."""

    tensors: list[Tensor]
    scale: float
    around: list[Tensor]

    def wrong(self) -> int:
        """Count the elements of both outputs that are not the definition's."""
        expected = reference(*Problem(*self.tensors[:5], self.scale))
        return sum(map(wrong_elements, self.tensors[5:], expected))


def draw(size: Size, seed: int, scale: float, device: torch.device) -> Case:
    """Draw a call of `size`, out of memory for twice the tokens and twice the width."""
    generator = torch.Generator(device).manual_seed(seed)
    rows, tokens = size.pages * PAGE, size.tokens
    shape = (2 * tokens, 2 * size.width)
    listed = torch.randint(rows, shape, dtype=torch.int32, device=device, generator=generator)
    whole = problem(listed, seed, size.pages)
    indices = listed.flatten()[: tokens * size.width].view(tokens, size.width)
    inputs = [whole.q_nope[:tokens], whole.q_pe[:tokens], whole.ckv_cache, whole.kpe_cache, indices]
    around = [output.fill_(torch.nan) for output in outputs_for(whole.q_nope)]
    return Case([*inputs, *(output[:tokens] for output in around)], scale, around)
