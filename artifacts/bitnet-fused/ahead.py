"""Triton kernels compiled before they are launched, many at once.

Most of a compilation is a child process that assembles, so that what takes a first process half a minute one
by one takes some seconds together. Nothing is launched meanwhile: what a call returns holds no answer.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import product
import torch
import triton
from characters import LETTERS, Model, Size
from layer import BitLinear
from peers import Called, torchao_int8, torchao_layer, torchao_or_none
from triton.runtime import Autotuner, JITFunction
from workloads import EDGES, LARGE, SMALL, drawn, ours, strided

THREADS = 16


@contextmanager
def compiling() -> Iterator[None]:
    """Within it a launch compiles its kernel, in a thread of its own, and an autotuned one all tilings.

    The backward pass runs in the calling thread, since only this one hands its kernels to others.
    """
    run = JITFunction.run

    def ahead(kernel: Any, *given: Any, warmup: bool, **options: Any) -> Any:
        del warmup
        return run(kernel, *given, warmup=True, **options)

    def tilings(tuner: Any, *given: Any, warmup: bool, **options: Any) -> Any:
        del warmup
        return tuner.warmup(*given, **options)

    with (
        patch.object(JITFunction, "run", ahead),
        patch.object(Autotuner, "run", tilings),
        torch.autograd.set_multithreading_enabled(False),
        ThreadPoolExecutor(THREADS) as threads,
        triton.AsyncCompileMode(threads, ignore_errors=True),
    ):
        yield


def compile_ahead(run: Any) -> None:
    """Compile what the comparisons will launch. What fails here is printed, and compiled there."""
    try:
        with compiling():
            steps(run)
            product.multiply(
                *codes(run.device), plan=product.WIDE, dtype=torch.bfloat16, factor=1.0
            )
            for tier in (1, 3):
                characters(partial(BitLinear, tier=tier, forced=tier == 3), run.device)
    except Exception as error:  # noqa: BLE001 - every kernel is compiled at its first launch, too
        print(f"not compiled ahead: {type(error).__name__}: {error}")  # noqa: T201


def steps(run: Any) -> None:
    """Run a step of each layer at each size whose kernels differ."""
    for shape, kinds in EDGES.items():
        for dtype, tiers in kinds.items():
            given = strided(drawn(run, shape, 1, dtype=dtype))
            for tier in tiers:
                Called(ours(tier, forced=True)).prepared(*given)()
    for tokens, *wide in (*SMALL[:2], *LARGE[:2], LARGE[3]):
        given = drawn(run, (min(tokens, 2048), *wide), 1)
        for tier in (1, 2, 3):
            Called(ours(tier, forced=True)).prepared(*given)()
    torchao = torchao_or_none()
    if torchao:
        given = drawn(run, SMALL[1], 1)
        for make in (torchao_layer(torchao.bitnet_training()), torchao_int8):
            Called(make).prepared(*given)()


def codes(device: torch.device) -> tuple[torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """Return two operands of a product, how long its sums are, and row scales."""
    square = torch.zeros((2048, 2048), dtype=torch.int8, device=device)
    return square, square, 2048, torch.ones(2048, device=device)


def characters(linear: Any, device: torch.device) -> None:
    """Run a step of the small language model."""
    size = Size(layers=1, batch=4)
    model = Model(size, linear).to(device)
    letters = torch.zeros((size.batch, size.context + 1), dtype=torch.int64, device=device)
    with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
        loss = model(letters % len(LETTERS))
    loss.backward()
