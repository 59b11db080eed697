"""Compiles the study kernel for a plan, and starts the very same code with more shared memory than it uses.

Shared memory that is asked for and not used keeps other blocks off the multiprocessor and changes nothing
else: one binary, so that only the number of blocks side by side differs.
"""

import functools
import os
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
import triton
import triton.language as tl
from shared.cuda_module import Arguments, check, launch
from shared.dsa import CKV, HEADS, KPE, LOG2_E, WIDTH
from shared.splitk import SLICE, STOPS, Plan, _reduce, _split
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

H200 = 90
LANES = 32
WORKERS = 12
SLOW_SECONDS = 0.1
TYPES = {
    "q_nope": "*bf16", "q_pe": "*bf16", "ckv": "*bf16", "kpe": "*bf16", "indices": "*i32",
    "partial": "*fp32", "partial_lse": "*fp32", "output": "*bf16", "lse": "*fp32",
    "arrived": "*fp32", "scale": "fp32",
}  # fmt: skip


@functools.cache
def compile_plan(plan: Plan, width: int = WIDTH) -> Any:
    """Return Triton's compiled kernel of `plan` for an H200; a launch of it finds the same in its cache."""
    names = list(_split.arg_names)
    constants = {
        "WIDTH": width, "SPLITS": plan.splits, "BLOCK": plan.block, "STAGES": plan.stages,
        "MASKS": plan.masks, "LAST": False, "STOP": STOPS.index(plan.stop),
        "HEADS": HEADS, "CKV": CKV, "KPE": KPE, "OPERAND": tl.bfloat16,
    }  # fmt: skip
    signature = {name: TYPES.get(name, "constexpr") for name in names}
    given = {(names.index(name),): value for name, value in constants.items()}
    pointers = [name for name, kind in TYPES.items() if kind.startswith("*")]
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in pointers}
    source = ASTSource(_split, signature, given, aligned)
    return triton.compile(
        source, target=GPUTarget("cuda", H200, 32), options={"num_warps": plan.warps}
    )


def _compile_only(plan: Plan) -> None:
    compile_plan(plan)


def compile_all(plans: Iterable[Plan]) -> None:
    """Fill Triton's cache with all `plans`; where it is empty, several processes share them."""
    wanted = list(dict.fromkeys(plans))
    compile_plan(wanted[0])
    begin = time.perf_counter()
    compile_plan(wanted[-1])
    if time.perf_counter() - begin > SLOW_SECONDS:
        workers = min(WORKERS, os.cpu_count() or 1, len(wanted))
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            list(pool.map(_compile_only, wanted, chunksize=1))


@functools.cache
def loaded(plan: Plan, shared: int) -> Any:
    """Load the binary of `plan` once more, as a kernel that may be given `shared` bytes a block.

    Raises ValueError where the code itself needs more.
    """
    from cuda.bindings import driver

    kernel = compile_plan(plan)
    if shared < kernel.metadata.shared:
        raise ValueError(
            f"{plan} needs {kernel.metadata.shared} bytes of shared memory, not {shared}"
        )
    torch.cuda.current_stream().synchronize()  # makes torch's context current
    module = check(driver.cuModuleLoadData(kernel.asm["cubin"]))
    found = check(driver.cuModuleGetFunction(module, kernel.metadata.name.encode()))
    attribute = driver.CUfunction_attribute
    for name, value in (
        (attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared),
        (attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
    ):
        check(driver.cuFuncSetAttribute(found, name, value))
    return found


def resident_blocks(plan: Plan, shared: int) -> int:
    """Return how many blocks of `plan` the driver says fit on a multiprocessor at once."""
    from cuda.bindings import driver

    threads = LANES * plan.warps
    return check(
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(loaded(plan, shared), threads, shared)
    )


# region: padded
def padded(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan,
    shared: int,
) -> tuple[Tensor, Tensor]:
    """Do as `splitk` of shared/splitk.py does, with `shared` bytes a block; a list has 2048 places."""
    tokens = len(q_nope)
    options = {"device": q_nope.device, "dtype": torch.float32}
    partial = torch.empty((tokens, plan.splits, HEADS, CKV), **options)
    partial_lse = torch.empty((tokens, plan.splits, HEADS), **options)
    output, lse = torch.empty_like(q_nope), torch.empty((tokens, HEADS), **options)
    # The last two are scratch memory that Triton's kernels take and this one does not use.
    arguments = Arguments(
        q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices,
        partial, partial_lse, output, lse, lse, sm_scale * LOG2_E, None, None,
    )  # fmt: skip
    grid = (tokens, plan.splits)
    launch(loaded(plan, shared), grid, LANES * plan.warps, shared, arguments)
    _reduce[tokens * HEADS, CKV // SLICE](
        partial, partial_lse, output, lse, plan.splits, HEADS, CKV, SLICE, num_warps=4
    )
    return output, lse


# endregion
