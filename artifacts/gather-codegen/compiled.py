"""Says what came of compiling the study kernel for a plan: widths, copies, buffers, registers."""

import functools
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import ptx
import triton
from shared.dsa import CKV
from shared.splitk import Plan, _split
from shared.splitk_code import blocks_that_fit, compile_plan

KEY_ROWS = ("ckv", "kpe")
INDEX_LIST = ("indices",)
ROW_TILE = f"{{}}x{CKV}xbf16"  # of so many rows, as the compiler writes it


class Facts(NamedTuple):
    """What the code of one plan is. Widths are bytes a thread copies at once, of the key rows and of
    the list of indices; `asynchronous` and `loads` count instructions; `buffers` are those of the
    key rows; `wait_depth` is in groups of copies; `blocks` fit on a multiprocessor at once.
    """

    shared_bytes: int
    fits: int
    blocks: int
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


def facts_of(plan: Plan, limit: int | None = None) -> Facts:
    """Compile `plan` for an H200, with at most `limit` registers a thread, and return its facts."""
    kernel = compile_plan(plan, limit)
    code, shared = kernel.asm["ptx"], kernel.metadata.shared
    found = fetches_by_tensor(code)
    widths = {kind: [fetch.bytes for fetch in each] for kind, each in found.items()}
    copies = {kind: sum(fetch.asynchronous for fetch in each) for kind, each in found.items()}
    registers, stack = resources(kernel.asm["cubin"])
    blocks = blocks_that_fit(shared, registers, plan.warps)
    return Facts(
        shared_bytes=shared,
        fits=int(blocks > 0),
        blocks=blocks,
        registers=registers,
        stack_bytes=stack,
        buffers=buffers(kernel.asm["ttgir"], ROW_TILE.format(plan.block)),
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


def loads_in_flight(sass: str) -> int:
    """Return the most 16-byte loads to registers that machine code has under way at once.

    A load is under way until the first instruction, in the order of the text, that names one of its
    four registers.
    """
    most, pending = 0, []
    for opcode, operands in re.findall(r"\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s+([^;]*);", sass):
        named = {int(number) for number in re.findall(r"\bR(\d+)\b", operands)}
        pending = [first for first in pending if not named & set(range(first, first + 4))]
        if opcode.startswith("LDG.E.128"):
            pending.append(int(re.findall(r"\bR(\d+)\b", operands)[0]))
            most = max(most, len(pending))
    return most
