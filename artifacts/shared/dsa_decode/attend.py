"""Sparse attention decode at the gather ceiling: the host's side of `decode.cu` and `queue.cu`.

    logits = (q_nope · Kcᵀ + q_pe · Kpᵀ) · sm_scale        over the rows of a token's list, -1 is none
    output = softmax(logits) · Kc                          lse = log2 Σ exp(logits)

`plan` says how the work is cut. One launch either way.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from shared.counters import counters
from shared.cuda_module import Arguments, compile_source, function, launch
from shared.dsa import CKV, HEADS, LOG2_E, WIDTH, check
from shared.dsa_decode.plan import Plan, QueuePlan, plan_for
from torch import Tensor


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
    arrivals = counters(tokens * plan.cluster, device) if groups and not plan.second else None
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


_STATES: dict[tuple[torch.device, int, int], list[Tensor]] = {}
_LOCKS: dict[tuple[torch.device, int], threading.Lock] = {}
KEPT = 64  # states: of so many streams and numbers of tokens


@contextlib.contextmanager
def _state(tokens: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Lend what the blocks of a launch know of each other's work, all zero, int32 [tokens + 1, 4], and
    that of the stream's next launch, which this one sets to zero: they take turns.

    Whatever is raised meanwhile may have come after the launch, so both are then made anew: an
    interrupt is raised when the driver has returned. Those of a CUDA graph are the graph's, as for
    `counters`. A launch may wait for room in its stream's queue, and launches on other streams do not
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
