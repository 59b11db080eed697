"""Products of square matrices of random data: what the tensor cores give through torch."""

from functools import partial

import torch
from reference import product
from torch import Tensor

BURST = 10
SAMPLES = 15
FP8_TOLERANCE = 3e-2  # fast accumulation keeps fewer bits: its worst element may be 1 % off


def matrix_products(run):
    """Multiply in bf16, fp8 (e4m3) and int8; the right operand lies in memory by columns."""
    for size in run.sizes(full=[4096, 8192], tiny=[64]):
        work = 2 * size**3
        burst = {"bf16 matmul": work, "bf16 matmul, ten in a row": BURST * work}
        bf16 = {"bf16 matmul": torch.matmul, "bf16 matmul, ten in a row": ten_in_a_row}
        drawn = partial(floats, run, size, torch.bfloat16)
        workload = {"samples": SAMPLES, "operation": "matmul", "dtype": "bf16", "size": size}
        run.compare(bf16, product, drawn, work=burst, **workload)
    for size in run.sizes(full=[8192], tiny=[64]):
        workload = {"samples": SAMPLES, "operation": "matmul", "size": size}
        work = 2 * size**3
        drawn = partial(floats, run, size, torch.float8_e4m3fn)
        tolerance = {"tolerance": FP8_TOLERANCE, "work": work}
        run.compare(fp8_subjects(run), product, drawn, dtype="fp8", **tolerance, **workload)
        int8 = {
            "int8 matmul": lambda left, right, _: torch._int_mm(left, right),
            "int8 matmul, right operand by rows": lambda left, _, rows: torch._int_mm(left, rows),
        }
        drawn = partial(integers, run, size)
        run.compare(int8, int_product, drawn, exact=True, work=work, dtype="int8", **workload)
        count_older_kernels(run, size)


def count_older_kernels(run, size: int) -> None:
    """Count the kernels that carry the previous generation's architecture, 80, in their names."""
    products = {
        "bf16": ("bf16 matmul", torch.matmul, floats(run, size, torch.bfloat16, run.seed)),
        "int8": ("int8 matmul", torch._int_mm, integers(run, size, run.seed)[:2]),
    }
    for dtype, (subject, multiply, pair) in products.items():
        launched = run.launches(lambda multiply=multiply, pair=pair: multiply(*pair))
        if launched:
            older = sum("_80_" in launch.name for launch in launched)
            sizes = {"operation": "matmul", "dtype": dtype, "size": size}
            run.count("kernels_of_sm_80", older, unit="kernels", subject=subject, **sizes)


def int_product(left: Tensor, right: Tensor, _: Tensor) -> Tensor:
    """Multiply exactly: int32 [size, size]."""
    return product(left, right).to(torch.int32)


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
