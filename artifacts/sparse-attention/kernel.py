"""Sparse attention decode at the gather ceiling: the host's side of `decode.cu` and `queue.cu`.

    logits = (q_nope · Kcᵀ + q_pe · Kpᵀ) · sm_scale        over the rows of a token's list, -1 is none
    output = softmax(logits) · Kc                          lse = log2 Σ exp(logits)

A block of `decode.cu` owns one split of one token's list; the blocks of a cluster weigh together what
they found, and the cluster of a token that arrives last weighs the clusters. A block of `queue.cu` takes
tiles of rows from whichever list has some left, for many lists of different lengths. One launch either
way.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from shared.cuda_module import Arguments, compile_source, function, launch
from shared.dsa import CKV, HEADS, LOG2_E, ROW_BYTES, WIDTH, check
from torch import Tensor

SOURCE = Path(__file__).parent / "decode.cu"
QUEUE = Path(__file__).parent / "queue.cu"
EARLIER = Path(__file__).parent / "mma.cu"
GATHER = Path(__file__).parent / "gather.cu"


MARKS = (
    "rows known",
    "first tile there",
    "its scores",
    "its weights",
    "its outputs",
    "all tiles",
    "cluster's outputs there",
    "end",
)


@dataclass(frozen=True)
class Plan:
    """How the work is cut for `decode.cu`: `splits` blocks a token, `cluster` of them together, `stages`
    tiles of `tile` rows in a block's ring, `resident` blocks on a multiprocessor.
    """

    splits: int
    cluster: int = 1
    tile: int = 64
    stages: int = 2
    resident: int = 1

    source = SOURCE
    threads = 256
    second = False
    marks = MARKS

    def blocks_of(self, tokens: int) -> int:
        """Blocks of a launch."""
        return self.splits * tokens

    @property
    def groups(self) -> int:
        """Partial outputs of a token that go to memory, if there is more than one."""
        return self.splits // self.cluster

    @functools.cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block: ring, queries, weights, and what is small."""
        tiles = self.stages * self.tile * ROW_BYTES + HEADS * ROW_BYTES + HEADS * 128
        received = HEADS * CKV * 2 if self.cluster > 1 else HEADS * 16
        sums = 2 * 4 * HEADS * 4 + self.cluster * HEADS * 8
        rows = WIDTH // self.splits * 4
        barriers = (2 * self.stages + 2) * 8
        return -(-(tiles + received + sums + rows + 4 * 4 + 8 + barriers) // 1024) * 1024

    @functools.cached_property
    def macros(self) -> dict[str, int]:
        """The constants that the kernel is compiled with."""
        own = {name.upper(): int(value) for name, value in asdict(self).items()}
        return own | {"WIDTH": WIDTH, "SHARED": self.shared}


@dataclass(frozen=True)
class EarlierPlan(Plan):
    """How the work is cut for `mma.cu`, the design before: `mma.cu` says what each number means."""

    tile: int = 16
    stages: int = 5
    resident: int = 2
    warps: int = 4
    bulk: bool = False
    compact: bool = True
    last: bool = True

    source = EARLIER

    @property
    def threads(self) -> int:
        """Those that compute, and a warp that fetches."""
        return 32 * self.warps + 32

    @property
    def second(self) -> bool:
        """Whether another kernel weighs the partial outputs."""
        return self.groups > 1 and not self.last

    @functools.cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block: ring, logits, sums, rows, counters, barriers."""
        scores = 2 * (self.warps * 8 // self.tile) * HEADS * (self.tile + 8) * 4
        sums = self.cluster * HEADS * 8
        small = sums + WIDTH // self.splits * 4 + self.warps * 4 + 16 + self.stages * 16
        pitch = ROW_BYTES + 16
        return -(-(self.stages * self.tile * pitch + scores + small) // 128) * 128


@dataclass(frozen=True)
class QueuePlan(Plan):
    """How the work is shared by the blocks of `queue.cu`, of which there are `blocks`: `thieves` may join
    a list that has `least` tiles left, if it is one of the last `joined` tokens, and a block without
    work looks for one `looks` times.
    """

    splits: int = 1
    blocks: int = 132
    least: int = 6
    thieves: int = 10
    looks: int = 16
    joined = 256  # `SEEN` lists for each lane of a warp

    source = QUEUE
    marks = (*MARKS[:5], "all tiles of its first token", "that token answered", "end")  # fmt: skip

    def blocks_of(self, tokens: int) -> int:  # noqa: ARG002 - as many for any number of tokens
        """Blocks of a launch: one on every multiprocessor."""
        return self.blocks

    @functools.cached_property
    def shared(self) -> int:
        """Bytes of shared memory of a block: two queries, weights, partial outputs, what is small."""
        tiles = self.stages * self.tile * ROW_BYTES + 2 * HEADS * ROW_BYTES + HEADS * 128
        parts = 2 * HEADS * CKV * 2 + (1 + self.thieves) * HEADS * 8
        items = 8 * (16 + 8)
        barriers = (2 * self.stages + 4) * 8
        small = 2 * 4 * HEADS * 4 + items + WIDTH * 4 + 8 * 4 + barriers
        return -(-(tiles + parts + small) // 1024) * 1024


# region: plans
PLANS = (  # for so many tokens and no more, of 132 multiprocessors: found by trying, not by reasoning
    (7, Plan(splits=16, cluster=16)),  # seven clusters of 16 fit at once, fifteen of 8, thirty of 4
    (15, Plan(splits=8, cluster=8)),
    (16, Plan(splits=8, cluster=2)),
    (30, Plan(splits=4, cluster=4)),
    (33, Plan(splits=4, cluster=2)),
    (66, Plan(splits=2, cluster=2)),
    (132, Plan(splits=1)),
)
QUEUED = (
    QueuePlan()
)  # for more, and for so many tokens or more whose lists are of different lengths
RAGGED_TOKENS, RAGGED_LONGEST = 24, 1.25  # the longest list over the mean


def plan_for(tokens: int, lengths: Sequence[int] | None = None) -> Plan:
    """Choose a plan for an H200, for lists of these `lengths`, or of one length where they are not known."""
    if lengths is not None and tokens >= RAGGED_TOKENS:
        rows = [int(length) for length in lengths]
        longest, mean = max(rows), sum(rows) / tokens
        if longest > RAGGED_LONGEST * mean:
            return QUEUED
    return next((plan for most, plan in PLANS if tokens <= most), QUEUED)


# endregion


def build(*plans: Plan) -> None:
    """Compile the kernels of several plans side by side, for the first call of each to find them ready."""
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(compile_source, plan.source, **plan.macros) for plan in set(plans)]
        for each in found:
            each.result()


def decode(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    output: Tensor | None = None,
    lse: Tensor | None = None,
    lengths: Sequence[int] | None = None,
    plan: Plan | None = None,
    debug: bool = False,
    trace: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return output bf16 [T, 16, 512] and lse fp32 [T, 16], written into the caller's if given.

    Logits must be finite: one that is not makes its token's output and lse NaN.
    `lengths` are the rows of each list, if the host knows them: many lists of different lengths are then
    shared out (see `plan_for`). Wrong ones cost time and nothing else.
    `debug` also checks that every index is a row of the cache or -1, which waits for the GPU; `trace`
    is for `marks`.
    Raises ValueError for tensors that it cannot take (see `shared.dsa.check`), and for lengths of more or
    fewer lists than there are, before any launch.
    """
    listed = (q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices)
    check(*listed, width=WIDTH, indices=debug, sm_scale=sm_scale)
    tokens = len(q_nope)
    if lengths is not None and len(lengths) != tokens:
        raise ValueError(f"lengths has {len(lengths)} numbers: one a token, {tokens}")
    check_device(q_nope.device)
    output = torch.empty_like(q_nope) if output is None else output
    if lse is None:
        lse = torch.empty((tokens, HEADS), dtype=torch.float32, device=q_nope.device)
    check(*listed, output, lse, width=WIDTH)
    plan = plan or plan_for(tokens, lengths)
    start = _share if isinstance(plan, QueuePlan) else _split
    start(
        plan, (*listed, float(sm_scale * LOG2_E)), (output, lse), [] if trace is None else [trace]
    )
    return output, lse


def _split(
    plan: Plan, inputs: tuple[Tensor | float, ...], outputs: tuple[Tensor, Tensor], trace: list[Tensor]
) -> None:  # fmt: skip
    """Give each token as many blocks."""
    tokens, device = len(outputs[0]), outputs[0].device
    groups = plan.groups if plan.groups > 1 else 0
    partial = torch.empty((tokens, groups, HEADS, CKV), dtype=torch.float32, device=device)
    sums = partial.new_empty((tokens, groups, plan.cluster, HEADS, 2))
    arrivals = _arrivals(tokens * plan.cluster, device) if groups and not plan.second else None
    arguments = Arguments(*inputs, *outputs, partial, sums, arrivals, *trace)
    kernel = _built(plan, trace)
    grid = (plan.blocks_of(tokens), 1)
    launch(kernel, grid, plan.threads, plan.shared, arguments, plan.cluster)
    if plan.second:
        weigh = function(plan.source, "weigh", 0, 1, **plan.macros)
        grid = (plan.cluster * tokens, 1)
        launch(weigh, grid, plan.threads - 32, 0, Arguments(*outputs, partial, sums))


def _share(
    plan: QueuePlan, inputs: tuple[Tensor | float, ...], outputs: tuple[Tensor, Tensor], trace: list[Tensor]
) -> None:  # fmt: skip
    """Let blocks take tiles from all tokens' lists."""
    tokens, device = len(outputs[0]), outputs[0].device
    blocks = plan.blocks_of(tokens)
    parts = (min(tokens, plan.joined), 1 + plan.thieves, HEADS)
    partial = torch.empty((*parts, CKV), dtype=torch.bfloat16, device=device)
    sums = torch.empty((*parts, 2), dtype=torch.float32, device=device)
    kernel = _built(plan, trace)
    with _state(tokens, device) as (state, next_state):
        arguments = Arguments(*inputs, tokens, *outputs, partial, sums, state, next_state, *trace)
        launch(kernel, (blocks, 1), plan.threads, plan.shared, arguments)


def _built(plan: Plan, trace: list[Tensor]) -> object:
    macros = {**plan.macros, "TRACE": 1} if trace else plan.macros
    return function(plan.source, "decode", plan.shared, plan.cluster, **macros)


def check_device(device: torch.device) -> None:
    """Raise ValueError for a device that `decode.cu` cannot be built for, or that is not the current one."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
        raise ValueError(f"q_nope is on {device}: decode needs a GPU of compute capability 9.0")
    if device.index != torch.cuda.current_device():
        raise ValueError(
            f"q_nope is on {device}: call decode under torch.cuda.device({device.index})"
        )


def marks(*problem: Tensor | float, plan: Plan) -> Tensor:
    """Run the kernel once and return the cycle, counted from the block's start, in which each block
    passed each of `plan.marks`: int32 [blocks, 8]. A mark that a block did not pass is 0.
    """
    blocks = plan.blocks_of(len(problem[0]))
    trace = torch.zeros((blocks, len(plan.marks)), dtype=torch.int32, device=problem[0].device)
    decode(*problem, plan=plan, trace=trace)
    return trace


_COUNTERS: dict[tuple[torch.device, int, int], Tensor] = {}


def _arrivals(count: int, device: torch.device) -> Tensor:
    """Return `count` counters at zero, int32: each stream has its own, and a launch leaves them at zero.

    Those of a CUDA graph are the graph's, and its first node sets them to zero: a capture only notes
    down what would be done, on a stream that other captures use as well.
    """
    options = {"dtype": torch.int32, "device": device}
    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(count, **options)
    key = (device, torch.cuda.current_stream(device).cuda_stream, count)
    if key not in _COUNTERS:
        _COUNTERS[key] = torch.zeros(count, **options)
    return _COUNTERS[key]


_STATES: dict[tuple[torch.device, int, int], list[Tensor]] = {}
_LOCKS: dict[tuple[torch.device, int], threading.Lock] = {}
KEPT = 64  # states: of so many streams and numbers of tokens


@contextlib.contextmanager
def _state(tokens: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Lend what the blocks of a launch know of each other's work, all zero, int32 [tokens + 1, 4], and
    that of the stream's next launch, which this one sets to zero: they take turns.

    Whatever is raised meanwhile may have come after the launch, so both are then made anew: an
    interrupt is raised when the driver has returned. Those of a CUDA graph are the graph's, as for
    `_arrivals`. A launch may wait for room in its stream's queue, and launches on other streams do not
    wait with it.
    """
    options = {"size": (tokens + 1, 4), "dtype": torch.int32, "device": device}
    if torch.cuda.is_current_stream_capturing():
        yield torch.zeros(**options), None
        return
    stream = (device, torch.cuda.current_stream(device).cuda_stream)
    key = (*stream, tokens)
    with _LOCKS.setdefault(stream, threading.Lock()):
        states = _STATES.pop(key, None) or [torch.zeros(**options), torch.zeros(**options)]
        yield states[0], states[1]
        _STATES[key] = states[::-1]
        for oldest in list(_STATES)[:-KEPT]:
            _STATES.pop(oldest, None)


def check_gather(ckv_cache: Tensor, kpe_cache: Tensor, sparse_indices: Tensor) -> None:
    """Raise ValueError unless `gather` can take these tensors."""
    rules = [("ckv_cache", ckv_cache, torch.bfloat16), ("kpe_cache", kpe_cache, torch.bfloat16)]
    for name, tensor, dtype in [*rules, ("sparse_indices", sparse_indices, torch.int32)]:
        if tensor.dtype != dtype or not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous {dtype}, not {tensor.dtype}")


def gather(ckv_cache: Tensor, kpe_cache: Tensor, sparse_indices: Tensor) -> Tensor:
    """Fetch the listed rows; return the wrapping sum of each one's 32-bit words, int32 [T, width].

    Raises ValueError for other dtypes or strides; a row number is not checked.
    """
    check_gather(ckv_cache, kpe_cache, sparse_indices)
    check_device(ckv_cache.device)
    sums = torch.empty_like(sparse_indices)
    entries = sparse_indices.numel()
    if entries:
        arguments = Arguments(ckv_cache, kpe_cache, sparse_indices, entries, sums)
        launch(function(GATHER, "gather"), (-(-entries // 8), 1), 64, 0, arguments)
    return sums
