"""Kernels that reach for this GPU's memory ceilings, and the host code that builds and starts them.

One list of rows, three ways to fetch it (`load.cu`, `async.cu`, `bulk.cu`; their common part is
`rows.cuh`). A plain read is a gather of rows in their order, an L2 read the same over a buffer
that is small and read again and again, a copy a gather that writes the rows. What is not a copy
folds each row into its wrapping 32-bit sum, so that every byte that was read can be checked.
"""

import functools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from shared.cuda_module import Arguments, function, launch
from torch import Tensor

HERE = Path(__file__).parent
LOAD = "ld.global.nc.L1::no_allocate.v4.u32"
STORE = "st.global.v4.u32"


@dataclass(frozen=True)
class Plan:
    """How a gather is laid out: see `rows.cuh` for what each number means.

    `blocks` is the grid in blocks a multiprocessor, for a grid that strides over the list;
    0 starts as many blocks as the list has tiles. `resident` caps the registers, so that so many
    blocks fit on a multiprocessor.
    """

    kernel: str = "load"
    lanes: int = 8
    unroll: int = 1
    stages: int = 1
    tile: int = 32
    threads: int = 256
    blocks: int = 0
    resident: int = 1
    load: str = LOAD
    store: str = STORE

    @property
    def step(self) -> int:
        """Rows that a warp fetches at once."""
        return self.unroll * 32 // self.lanes

    def shared(self, row_bytes: int) -> int:
        """Bytes of shared memory that a block's rings (and their barriers) take."""
        warps = self.threads // 32
        ring = warps * self.stages * self.step * row_bytes
        return {"load": 0, "async": ring, "bulk": ring + warps * self.stages * 8}[self.kernel]

    def in_flight(self, row_bytes: int) -> int:
        """Bytes of rows that a multiprocessor has under way at once, where it holds `blocks` blocks."""
        return self.blocks * (self.threads // 32) * self.stages * self.step * row_bytes


def macros(
    plan: Plan, head_bytes: int, tail_bytes: int = 0, *, indexed: bool, copy: bool
) -> dict[str, str]:
    """Name the constants that `plan` compiles in, for rows of `head_bytes` + `tail_bytes`."""
    numbers = {name: value for name, value in asdict(plan).items() if isinstance(value, int)}
    del numbers["blocks"]
    numbers |= {
        "head_bytes": head_bytes,
        "tail_bytes": tail_bytes,
        "indexed": int(indexed),
        "copy": int(copy),
    }
    texts = {"LOAD": f'"{plan.load}"', "STORE": f'"{plan.store}"'}
    return {name.upper(): str(value) for name, value in numbers.items()} | texts


def gather(
    plan: Plan,
    head: Tensor,
    index: Tensor | None = None,
    tail: Tensor | None = None,
    *,
    entries: int | None = None,
    copy: bool = False,
) -> Tensor:
    """Fetch rows of `head` (and `tail`): return the wrapping sum of each, or with `copy` the rows.

    `head` and `tail` are int32 [rows, words]; `index` is int32 [entries] with numbers of rows, none
    of them checked; without it, entry i is row i modulo rows, for `entries` (or rows) entries.
    Returns int32 [entries], or int32 [entries, words of head + words of tail].
    """
    rows, head_bytes = head.shape[0], head.shape[1] * 4
    tail_bytes = 0 if tail is None else tail.shape[1] * 4
    entries = len(index) if index is not None else entries or rows
    shape = (entries, (head_bytes + tail_bytes) // 4) if copy else (entries,)
    out = torch.empty(shape, dtype=torch.int32, device=head.device)
    if entries == 0:
        return out
    kernel = loaded(plan, head_bytes, tail_bytes, indexed=index is not None, copy=copy)
    grid = -(-entries // (plan.tile * (plan.threads // 32)))
    if plan.blocks:
        grid = min(grid, plan.blocks * multiprocessors())
    shared = plan.shared(head_bytes + tail_bytes)
    arguments = Arguments(head, tail, index, rows, entries, out)
    launch(kernel, (grid, 1), plan.threads, shared, arguments)
    return out


@functools.cache
def loaded(plan: Plan, head_bytes: int, tail_bytes: int, *, indexed: bool, copy: bool) -> Any:
    """Build and load the kernel of `plan` for rows of these sizes."""
    shared = plan.shared(head_bytes + tail_bytes)
    defines = macros(plan, head_bytes, tail_bytes, indexed=indexed, copy=copy)
    return function(HERE / f"{plan.kernel}.cu", "gather", shared, **defines)


@functools.cache
def multiprocessors() -> int:
    """Count the multiprocessors of the current GPU."""
    return torch.cuda.get_device_properties().multi_processor_count


@triton.jit
def _gather_rows(
    head, tail, index, out, entries, rows,
    HEAD: tl.constexpr, HEAD_STRIDE: tl.constexpr, TAIL: tl.constexpr, TAIL_STRIDE: tl.constexpr,
    INDEXED: tl.constexpr, COPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program owns BLOCK entries; HEAD and TAIL are words, powers of two (or no TAIL: 0)."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    present = entry < entries
    row = tl.load(index + entry, present, 0) if INDEXED else entry % rows
    words = tl.arange(0, HEAD)[None, :]
    place = row.to(tl.int64)[:, None]
    value = tl.load(head + place * HEAD_STRIDE + words, present[:, None], 0)
    target = out + entry.to(tl.int64)[:, None] * (HEAD + TAIL) + words
    if COPY:
        tl.store(target, value, present[:, None])
    total = tl.sum(value, axis=1)
    if TAIL > 0:
        words = tl.arange(0, TAIL)[None, :]
        value = tl.load(tail + place * TAIL_STRIDE + words, present[:, None], 0)
        target = out + entry.to(tl.int64)[:, None] * (HEAD + TAIL) + HEAD + words
        if COPY:
            tl.store(target, value, present[:, None])
        total += tl.sum(value, axis=1)
    if not COPY:
        tl.store(out + entry, total.to(tl.int32), present)


def triton_gather(
    head: Tensor, index: Tensor | None = None, tail: Tensor | None = None,
    *, block: int = 4, warps: int = 4, copy: bool = False,
) -> Tensor:  # fmt: skip
    """Do what `gather` does, in Triton: `block` rows a program.

    A row of `head` that is no power of two long is fetched as its largest power of two and the
    rest, which must be a power of two as well.
    """
    rows, words = head.shape
    first = 1 << (words.bit_length() - 1)
    if tail is None and first < words:
        head, tail = head[:, :first], head[:, first:]
    tail_words = 0 if tail is None else tail.shape[1]
    entries = rows if index is None else len(index)
    shape = (entries, head.shape[1] + tail_words) if copy else (entries,)
    out = torch.empty(shape, dtype=torch.int32, device=head.device)
    if entries > 0:
        _gather_rows[(triton.cdiv(entries, block),)](
            head, head if tail is None else tail, head if index is None else index,
            out, entries, rows,
            head.shape[1], head.stride(0), tail_words, 0 if tail is None else tail.stride(0),
            index is not None, copy, block, num_warps=warps,
        )  # fmt: skip
    return out
