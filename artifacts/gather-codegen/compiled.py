"""Compiles the study kernel for a plan without running it, and says what came of it.

The code is that of a launch: Triton's own cache has one entry for both.
"""

import functools
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import ptx
import triton
import triton.language as tl
from shared.dsa import CKV, HEADS, KPE, WIDTH
from shared.splitk import STOPS, Plan, _split
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

H200 = 90
BLOCK_SHARED_BYTES = 232448  # most that one block may have: 227 KiB
WORKERS = 12
SLOW_SECONDS = 0.1
TYPES = {
    "q_nope": "*bf16", "q_pe": "*bf16", "ckv": "*bf16", "kpe": "*bf16", "indices": "*i32",
    "partial": "*fp32", "partial_lse": "*fp32", "output": "*bf16", "lse": "*fp32",
    "arrived": "*fp32", "scale": "fp32",
}  # fmt: skip
KEY_ROWS = ("ckv", "kpe")
INDEX_LIST = ("indices",)


class Facts(NamedTuple):
    """What the code of one plan is. Widths are bytes a thread copies at once, of the key rows and of
    the list of indices; `asynchronous` and `loads` count instructions; `buffers` are those of the
    key rows; `wait_depth` is in groups of copies.
    """

    shared_bytes: int
    fits: int
    registers: int
    stack_bytes: int
    buffers: int
    list_buffers: int
    wait_depth: int
    rows_narrowest: int
    rows_widest: int
    rows_asynchronous: int
    rows_loads: int
    list_narrowest: int
    list_widest: int
    list_asynchronous: int
    list_loads: int


@functools.cache
def compile_plan(plan: Plan, width: int = WIDTH, capability: int = H200) -> Any:
    """Return Triton's compiled kernel of `plan`, for a list of `width` places."""
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
    target = GPUTarget("cuda", capability, 32)
    return triton.compile(source, target=target, options={"num_warps": plan.warps})


def facts_of(plan: Plan) -> Facts:
    """Compile `plan` for an H200 and return its facts."""
    kernel = compile_plan(plan)
    code = kernel.asm["ptx"]
    found = fetches_by_tensor(code)
    widths = {kind: [fetch.bytes for fetch in each] for kind, each in found.items()}
    copies = {kind: sum(fetch.asynchronous for fetch in each) for kind, each in found.items()}
    registers, stack = resources(kernel.asm["cubin"])
    return Facts(
        shared_bytes=kernel.metadata.shared,
        fits=int(kernel.metadata.shared <= BLOCK_SHARED_BYTES),
        registers=registers,
        stack_bytes=stack,
        buffers=buffers(kernel.asm["ttgir"], f"{plan.block}x{CKV}xbf16"),
        list_buffers=buffers(kernel.asm["ttgir"], f"{plan.block}xi32"),
        wait_depth=ptx.wait_depth(code),
        rows_narrowest=min(widths["rows"]),
        rows_widest=max(widths["rows"]),
        rows_asynchronous=copies["rows"],
        rows_loads=len(found["rows"]) - copies["rows"],
        list_narrowest=min(widths["list"]),
        list_widest=max(widths["list"]),
        list_asynchronous=copies["list"],
        list_loads=len(found["list"]) - copies["list"],
    )


@functools.cache
def fetches_by_tensor(code: str) -> dict[str, list[ptx.Fetch]]:
    """Return what PTX of the study kernel fetches, apart: the key "rows", and the "list" of indices."""
    names = list(_split.arg_names)
    found: dict[str, list[ptx.Fetch]] = {"rows": [], "list": []}
    for fetch in ptx.fetches(code):
        name = names[fetch.parameter]
        if name in KEY_ROWS + INDEX_LIST:
            found["list" if name in INDEX_LIST else "rows"].append(fetch)
    return found


def buffers(ttgir: str, tile: str) -> int:
    """Return how many tiles the pipeline keeps in shared memory, 0 where it has no buffer.

    A buffer of the pipeline is allocated empty, with the number of tiles as its first size.
    """
    found = re.findall(rf"local_alloc : \(\) -> !ttg\.memdesc<(\d+)x{re.escape(tile)},", ttgir)
    return max(map(int, found), default=0)


@functools.cache
def resources(cubin: bytes) -> tuple[int, int]:
    """Return the registers of a thread, and the bytes of its stack, where spilled registers go."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        words = [str(tool), "-res-usage", file.name]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    registers, stack = re.findall(r"REG:(\d+) STACK:(\d+)", done.stdout + done.stderr)[-1]
    return int(registers), int(stack)


def facts(plans: Iterable[Plan]) -> dict[Plan, Facts]:
    """Return the facts of all `plans`; where none was compiled before, several processes share them."""
    wanted = list(dict.fromkeys(plans))
    compile_plan(wanted[0])
    begin = time.perf_counter()
    compile_plan(wanted[-1])
    if time.perf_counter() - begin > SLOW_SECONDS:
        workers = min(WORKERS, os.cpu_count() or 1, len(wanted))
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            return dict(zip(wanted, pool.map(facts_of, wanted, chunksize=1), strict=True))
    return {plan: facts_of(plan) for plan in wanted}
