"""The study kernel's code without a launch: compiled for an H200 as a launch would compile it.

Triton's own cache has one entry for both, so that the code that is examined is the code that runs.
"""

import functools
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, WIDTH
from shared.splitk import STOPS, Plan, _split
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

H200 = 90
LANES = 32
WORKERS = 12
SLOW_SECONDS = 0.1
MULTIPROCESSOR_BYTES = 233472  # shared memory of a multiprocessor of an H200: 228 KiB
BLOCK_BYTES = 232448  # most that one block may have
RESERVED_BYTES = 1024  # the driver's share of each block
REGISTERS = 65536  # of a multiprocessor; a thread takes them in steps of eight
WARPS = 64
TYPES = {
    "q_nope": "*bf16", "q_pe": "*bf16", "ckv": "*bf16", "kpe": "*bf16", "indices": "*i32",
    "partial": "*fp32", "partial_lse": "*fp32", "output": "*bf16", "lse": "*fp32",
    "arrived": "*fp32", "scale": "fp32",
}  # fmt: skip

T = TypeVar("T")


@functools.cache
def compile_plan(plan: Plan, registers: int | None = None) -> Any:
    """Return Triton's compiled kernel of `plan` for a list of 2048 places, with at most so many
    registers a thread.
    """
    names = list(_split.arg_names)
    constants = {
        "WIDTH": WIDTH, "SPLITS": plan.splits, "BLOCK": plan.block, "STAGES": plan.stages,
        "MASKS": plan.masks, "LAST": False, "STOP": STOPS.index(plan.stop),
        "HEADS": HEADS, "CKV": CKV, "KPE": KPE, "OPERAND": tl.bfloat16,
    }  # fmt: skip
    signature = {name: TYPES.get(name, "constexpr") for name in names}
    given = {(names.index(name),): value for name, value in constants.items()}
    pointers = [name for name, kind in TYPES.items() if kind.startswith("*")]
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in pointers}
    source = ASTSource(_split, signature, given, aligned)
    options = {"num_warps": plan.warps} | ({"maxnreg": registers} if registers else {})
    return triton.compile(source, target=GPUTarget("cuda", H200, LANES), options=options)


def of_each(plans: Iterable[Plan], look: Callable[[Plan], T]) -> dict[Plan, T]:
    """Return what `look` says of each plan; where none was compiled before, several processes share them.

    `look` is a function of a module, and what it returns can be sent between processes.
    """
    wanted = list(dict.fromkeys(plans))
    compile_plan(wanted[0])
    begin = time.perf_counter()
    compile_plan(wanted[-1])
    if time.perf_counter() - begin > SLOW_SECONDS:
        workers = min(WORKERS, os.cpu_count() or 1, len(wanted))
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            return dict(zip(wanted, pool.map(look, wanted, chunksize=1), strict=True))
    return {plan: look(plan) for plan in wanted}


def shared_bytes(plan: Plan) -> int:
    """Return the shared memory that a block of `plan` asks for."""
    return compile_plan(plan).metadata.shared


def blocks_that_fit(shared: int, registers: int, warps: int) -> int:
    """Return how many blocks a multiprocessor of an H200 holds at once, by what one of them takes:
    `shared` bytes, `registers` a thread, `warps`.
    """
    by_memory = MULTIPROCESSOR_BYTES // (shared + RESERVED_BYTES) if shared <= BLOCK_BYTES else 0
    by_registers = REGISTERS // (-(-registers // 8) * 8 * LANES * warps)
    return min(by_memory, by_registers, WARPS // warps)
