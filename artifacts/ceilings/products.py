"""Products of square matrices of random data: what the tensor cores give through torch."""

from functools import partial

import torch
from reference import product
from torch import Tensor

BURST = 10


def matrix_products(run):
    """Multiply in bf16, fp8 (e4m3) and int8; the right operand lies in memory by columns."""
    for size in run.sizes(full=[4096, 8192], tiny=[64]):
        work = 2 * size**3
        workload = {"operation": "matmul", "size": size}
        run.compare(
            subjects={"bf16 matmul": torch.matmul, "bf16 matmul, ten in a row": ten_in_a_row},
            reference=product,
            inputs=partial(floats, run, size, torch.bfloat16),
            tolerance=1e-2,
            work={"bf16 matmul": work, "bf16 matmul, ten in a row": BURST * work},
            samples=15,
            dtype="bf16",
            **workload,
        )
        run.compare(
            subjects=fp8_subjects(run),
            reference=product,
            inputs=partial(floats, run, size, torch.float8_e4m3fn),
            tolerance=1e-2,
            work=work,
            samples=15,
            dtype="fp8",
            **workload,
        )
        run.compare(
            subjects={
                "int8 matmul": lambda left, right, _: torch._int_mm(left, right),
                "int8 matmul, right operand by rows": lambda left, _, rows: torch._int_mm(
                    left, rows
                ),
            },
            reference=lambda left, right, _: product(left, right).to(torch.int32),
            inputs=partial(integers, run, size),
            exact=True,
            work=work,
            samples=15,
            dtype="int8",
            **workload,
        )


def floats(run, size: int, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Draw two normal matrices [size, size]; the second is laid out by columns."""
    generator = torch.Generator(run.device).manual_seed(seed)
    pair = torch.randn(2, size, size, device=run.device, generator=generator).to(dtype)
    return pair[0], pair[1].t()


def integers(run, size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw two int8 matrices [size, size]; the second by columns, and again by rows."""
    generator = torch.Generator(run.device).manual_seed(seed)
    options = {"device": run.device, "generator": generator, "dtype": torch.int8}
    pair = torch.randint(-127, 128, (2, size, size), **options)
    return pair[0], pair[1].t(), pair[1].t().contiguous()


def ten_in_a_row(left: Tensor, right: Tensor) -> Tensor:
    """Multiply ten times without a pause, which heats the card as a real model does."""
    for _ in range(BURST):
        out = left @ right
    return out


def fp8_subjects(run) -> dict:
    """Make fp8 products with and without fast accumulation; the scales (1) are made here, once."""
    one = torch.ones((), device=run.device)
    options = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
    return {
        "fp8 matmul": partial(torch._scaled_mm, **options, use_fast_accum=False),
        "fp8 matmul, fast accumulation": partial(torch._scaled_mm, **options, use_fast_accum=True),
    }
