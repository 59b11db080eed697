"""Starts the study kernel's code with more shared memory than it uses.

Shared memory that is asked for and not used keeps other blocks off the multiprocessor and changes nothing
else: one binary, so that only the number of blocks side by side differs.
"""

import functools
from typing import Any

import torch
from shared.cuda_module import Arguments, check, launch
from shared.dsa import CKV, HEADS, LOG2_E
from shared.splitk import SLICE, Plan, _reduce
from shared.splitk_code import LANES, compile_plan
from torch import Tensor


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
