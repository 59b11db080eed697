"""The study kernel's launch as data: which kernels, on which grid, with which parameters.

Two kernels with the plan's reduction "kernel" (split, then reduce), one with "last". `values` is the
only place where a parameter of either is named together with what it is given.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from graph import Step, Values
from parameters import Layout
from shared import splitk as study
from shared.dsa import CKV, HEADS, KPE, LOG2_E, SM_SCALE, check
from shared.splitk import OPERAND, SLICE, STOPS, Plan, check_plan
from torch import Tensor

INPUTS = ("q_nope", "q_pe", "ckv_cache", "kpe_cache", "sparse_indices")
OUTPUTS = ("output", "lse")
BF16, F32, I32 = "*bf16", "*fp32", "*i32"
SPLIT_TYPES = {
    "q_nope": BF16, "q_pe": BF16, "ckv": BF16, "kpe": BF16, "indices": I32,
    "partial": F32, "partial_lse": F32, "output": BF16, "lse": F32, "arrived": F32,
    "scale": "fp32",
}  # fmt: skip
REDUCE_TYPES = {"partial": F32, "partial_lse": F32, "output": BF16, "lse": F32}
REDUCE_WARPS = 4


class Loaded(NamedTuple):
    """A compiled kernel on the current device; `kept` keeps its code alive."""

    function: int
    shared: int
    warps: int
    signature: dict[str, str]
    kept: object


Load = Callable[[Any, Sequence[Any], int], Loaded]


def load_compiled(kernel: Any, arguments: Sequence[Any], warps: int) -> Loaded:
    """Compile a Triton kernel for arguments like these and load it on the current device.

    Raises ValueError for tensors elsewhere, and RuntimeError for a kernel that needs more than a grid,
    a block and shared memory.
    """
    check_device(arguments[0].device)
    compiled = kernel.warmup(*arguments, grid=(1,), num_warps=warps)
    _ = compiled.run  # loads it
    about = compiled.metadata
    for need in ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid",
                 "launch_pdl"):  # fmt: skip
        if getattr(about, need, 0):
            raise RuntimeError(
                f"{about.name} has {need}={getattr(about, need)}: launch it by Triton"
            )
    if about.num_ctas != 1:
        raise RuntimeError(f"{about.name} has num_ctas={about.num_ctas}: launch it by Triton")
    signature = dict(compiled.src.signature)
    return Loaded(compiled.function, about.shared, about.num_warps, signature, compiled)


def check_device(where: torch.device) -> None:
    """Raise ValueError unless kernels that are loaded now can run there."""
    if where.type != "cuda" or where.index not in (None, torch.cuda.current_device()):
        raise ValueError(f"the tensors are on {where}: make their GPU torch's current device")


class SplitK:
    """The operation of `shared.splitk` for a dispatcher; tensors are INPUTS and then OUTPUTS."""

    tensors = len(INPUTS) + len(OUTPUTS)
    outputs = len(OUTPUTS)
    scalars = 1

    def __init__(self, plan: Plan, load: Load = load_compiled) -> None:
        """`load` makes a driver's handle of a Triton kernel."""
        if plan.splits == 1:
            raise ValueError("splits=1 leaves nothing to reduce: use 2 or more")
        self.plan, self.last = plan, plan.reduction == "last"
        self._load = load
        self._loaded = functools.cache(self._load_both)

    def steps(
        self, tensors: Sequence[Tensor], scalars: Sequence[float] = (SM_SCALE,)
    ) -> tuple[Step, ...]:
        """Check the tensors and the scale, then return the kernels for them."""
        check(*tensors, sm_scale=scalars[0])
        tokens, width = tensors[4].shape
        check_plan(self.plan, width)
        grids = (tokens, self.plan.splits, 1), (tokens * HEADS, CKV // SLICE, 1)
        loaded = self._loaded(width, tensors[0].device)
        return tuple(starting.step(grid) for starting, grid in zip(loaded, grids, strict=False))

    def scratch(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return partial, partial_lse and arrived; the last is empty where nothing counts arrivals."""
        tokens, splits, device = len(tensors[0]), self.plan.splits, tensors[0].device
        return (
            torch.empty((tokens, splits, HEADS, CKV), dtype=torch.float32, device=device),
            torch.empty((tokens, splits, HEADS), dtype=torch.float32, device=device),
            torch.zeros(tokens if self.last else 0, dtype=torch.int32, device=device),
        )

    # region: values
    def values(
        self, addresses: Sequence[int], scalars: Sequence[float], scratch: Sequence[int]
    ) -> Values:
        """Return every parameter of every kernel, the two that Triton appends included."""
        output, lse = addresses[5:]
        partial, partial_lse, arrived = scratch
        if not self.last:
            arrived = lse  # the kernel has the parameter and does not use it
        split = (
            *addresses[:5], partial, partial_lse, output, lse, arrived, scalars[0] * LOG2_E, 0, 0,
        )  # fmt: skip
        return (split,) if self.last else (split, (partial, partial_lse, output, lse, 0, 0))

    # endregion

    def kept(self, tensors: Sequence[Tensor]) -> list[Loaded]:
        """Return the compiled kernels behind the steps."""
        return [each.loaded for each in self._loaded(tensors[4].shape[1], tensors[0].device)]

    def _load_both(self, width: int, device: torch.device) -> list["Starting"]:
        """Load both kernels for lists of `width`; all else that decides their code is checked."""
        made = functools.partial(torch.zeros, 16, device=device)
        bf16, f32, i32 = (
            made(dtype=type_) for type_ in (torch.bfloat16, torch.float32, torch.int32)
        )
        tensors = {BF16: bf16, F32: f32, I32: i32}
        first = [tensors.get(type_) for type_ in SPLIT_TYPES.values()][:-1]
        if self.last:
            first[-1] = i32
        plan = self.plan
        constants = (width, plan.splits, plan.block, plan.stages, plan.masks, self.last,
                     STOPS.index(plan.stop), HEADS, CKV, KPE, OPERAND)  # fmt: skip
        split = self._load(study._split, [*first, 0.5, *constants], plan.warps)
        types = SPLIT_TYPES | {"arrived": I32} if self.last else SPLIT_TYPES
        found = [Starting.of("split", split, types)]
        if not self.last:
            second = [f32, f32, bf16, f32, plan.splits, HEADS, CKV, SLICE]
            reduce = self._load(study._reduce, second, REDUCE_WARPS)
            found.append(Starting.of("reduce", reduce, REDUCE_TYPES))
        return found


class Starting(NamedTuple):
    """All of a step that is the same for every call of a kernel: all but its grid."""

    name: str
    loaded: Loaded
    layout: Layout

    @classmethod
    def of(cls, name: str, loaded: Loaded, types: dict[str, str]) -> "Starting":
        """Raise RuntimeError if Triton compiled the kernel for other parameters than we give."""
        compiled = {key: type_ for key, type_ in loaded.signature.items() if type_ != "constexpr"}
        if compiled != types:
            raise RuntimeError(
                f"{name} was compiled for {compiled}: name its parameters in kernel.py"
            )
        return cls(name, loaded, Layout.of(types))

    def step(self, grid: tuple[int, int, int]) -> Step:
        """Return the kernel on this grid."""
        loaded = self.loaded
        return Step(self.name, loaded.function, grid, 32 * loaded.warps, loaded.shared, self.layout)


def outputs_for(q_nope: Tensor) -> list[Tensor]:
    """Allocate output bf16 [T, 16, 512] and lse fp32 [T, 16]."""
    lse = q_nope.new_empty((len(q_nope), HEADS), dtype=torch.float32)
    return [torch.empty_like(q_nope), lse]
