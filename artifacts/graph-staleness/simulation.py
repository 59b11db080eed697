"""As much of the CUDA driver as the dispatcher uses, on the CPU: launches, and graphs of kernels.

Memory is the machine's own, addressed as a GPU's would be, and a node copies its parameters when it
is made or set, as the driver does: so a parameter that is not patched does here what it does there.
A kernel is a Python function of the grid and the values that lie behind its parameters.
"""

# ruff: noqa: ARG001, ARG002, N802 - the functions have the names and parameters of the driver
import ctypes
import struct
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from kernel import REDUCE_TYPES, SPLIT_TYPES, Loaded
from parameters import Layout, read
from shared.dsa import CKV, HEADS, KPE, LOG2_E
from shared.splitk import Plan
from torch import Tensor

Body = Callable[[tuple[int, int, int], Sequence[int | float]], None]
OK, INVALID = 0, 1
_CODES = {"*": "Q", "f": "f", "i": "i"}


class Simulation:
    """Stands in for the module `cuda.bindings.driver`. `calls` counts what was asked of it."""

    CUfunction = staticmethod(int)
    CUgraphNodeType = SimpleNamespace(CU_GRAPH_NODE_TYPE_KERNEL=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)

    def __init__(self) -> None:
        """Start without any kernel."""
        self._functions: list[tuple[Layout, Body]] = []
        self.calls: dict[str, int] = {}
        self.capturing: list[Any] | None = None

    def add(self, signature: dict[str, str], body: Body) -> int:
        """Load a kernel and return its handle."""
        self._functions.append((Layout.of(signature), body))
        return len(self._functions)

    @staticmethod
    def CUDA_KERNEL_NODE_PARAMS() -> SimpleNamespace:
        """Return an empty description."""
        return SimpleNamespace()

    def cuFuncGetParamInfo(self, function: int, place: int) -> tuple[int, int, int]:
        """Return offset and size of a parameter."""
        sizes = self._functions[function - 1][0].sizes
        return (OK, 8 * place, sizes[place]) if place < len(sizes) else (INVALID, 0, 0)

    def cuLaunchKernel(self, function, x, y, z, bx, by, bz, shared, stream, pointer, extra):
        """Run a kernel now, or note it in the graph that is being captured."""
        self._count("cuLaunchKernel")
        node = SimpleNamespace(
            func=function, gridDimX=x, gridDimY=y, gridDimZ=z, blockDimX=bx, blockDimY=by,
            blockDimZ=bz, sharedMemBytes=shared, kernelParams=pointer,
        )  # fmt: skip
        self._run(node) if self.capturing is None else self.capturing.append(self._copy(node))
        return (OK,)

    def cuStreamBeginCapture(self, stream, mode):
        """Note launches from now on instead of running them."""
        self.capturing = []
        return (OK,)

    def cuStreamEndCapture(self, stream):
        """Return the graph of what was noted."""
        graph, self.capturing = self.capturing, None
        return OK, graph

    def cuGraphCreate(self, flags: int) -> tuple[int, list[Any]]:
        """Make a graph: a list of nodes."""
        return OK, []

    def cuGraphAddKernelNode(self, graph, before, count, node):
        """Append a node, which copies the parameters."""
        graph.append(self._copy(node))
        return OK, graph[-1]

    def cuGraphGetNodes(self, graph, count):
        """Return the nodes, last one first: the driver promises no order."""
        return OK, graph[::-1][:count], len(graph)

    def cuGraphNodeGetType(self, node):
        """Say that every node is a kernel."""
        return OK, 0

    def cuGraphInstantiate(self, graph, flags):
        """Copy the graph with its parameters."""
        copies = [self._copy(node) for node in graph]
        return OK, SimpleNamespace(graph=graph, nodes=copies)

    def cuGraphExecKernelNodeSetParams(self, executable, node, description):
        """Set a node of the copy; the graph's own node stays as it is."""
        self._count("cuGraphExecKernelNodeSetParams")
        place = next(number for number, each in enumerate(executable.graph) if each is node)
        executable.nodes[place] = self._copy(description)
        return (OK,)

    def cuGraphKernelNodeSetParams(self, node, description):
        """Set a node of the graph; copies of it stay as they are."""
        node.__dict__.update(self._copy(description).__dict__)
        return (OK,)

    def cuGraphKernelNodeGetParams(self, node):
        """Return a node's parameters."""
        return OK, node

    def cuGraphExecUpdate(self, executable, graph):
        """Make the copy like the graph."""
        executable.nodes = [self._copy(node) for node in graph]
        return OK, None

    def cuGraphLaunch(self, executable, stream):
        """Run the nodes in order."""
        self._count("cuGraphLaunch")
        for node in executable.nodes:
            self._run(node)
        return (OK,)

    def cuGraphExecDestroy(self, executable):
        """Count it."""
        self._count("cuGraphExecDestroy")
        return (OK,)

    def cuGraphDestroy(self, graph):
        """Do nothing."""
        return (OK,)

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def _copy(self, node: Any) -> Any:
        """Copy a description and what its list of addresses points to, each value apart."""
        sizes = self._functions[int(node.func) - 1][0].sizes
        values = [ctypes.create_string_buffer(each, 8) for each in read(node.kernelParams, sizes)]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        kept = {**node.__dict__, "memory": (values, addresses)}
        return SimpleNamespace(**kept | {"kernelParams": ctypes.addressof(addresses)})

    def _run(self, node: Any) -> None:
        layout, body = self._functions[int(node.func) - 1]
        found = read(node.kernelParams, layout.sizes)
        values = [
            struct.unpack(_CODES[type_[0]], bytes_)[0]
            for type_, bytes_ in zip(layout.types, found, strict=True)
        ]
        body((node.gridDimX, node.gridDimY, node.gridDimZ), values)


def at(address: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the memory at an address as a tensor."""
    count = torch.Size(shape).numel()
    size = count * torch.empty((), dtype=dtype).itemsize
    memory = (ctypes.c_char * size).from_address(address)
    return torch.frombuffer(memory, dtype=dtype, count=count).reshape(shape)


def loader(simulation: Simulation) -> Callable[..., Loaded]:
    """Return what takes the place of `kernel.load_compiled`: plain twins of the study's two kernels."""

    def load(kernel: Any, arguments: Sequence[Any], warps: int) -> Loaded:
        if len(arguments) == len(REDUCE_TYPES) + 4:
            signature, body = REDUCE_TYPES, reduce_twin(splits=arguments[4])
        else:
            width, splits, *_, last = arguments[11:17]
            arrived = "*i32" if last else "*fp32"
            signature = SPLIT_TYPES | {"arrived": arrived}
            body = split_twin(width, splits, last=last)
        return Loaded(simulation.add(signature, body), 0, warps, dict(signature), None)

    return load


def start_twins(
    plan: Plan, tensors: Sequence[Tensor], scale: float, scratch: Sequence[Tensor]
) -> None:
    """Run the twins of a plan's kernels as Triton's launcher would: from tensors, by no list of values."""
    inputs, outputs, partials = ([each.data_ptr() for each in group]
                                 for group in (tensors[:5], tensors[5:], scratch))  # fmt: skip
    grid, last = (len(tensors[0]), plan.splits, 1), plan.reduction == "last"
    scale = ctypes.c_float(scale * LOG2_E).value
    split = split_twin(tensors[4].shape[1], plan.splits, last=last)
    split(grid, (*inputs, *partials[:2], *outputs, partials[2], scale))
    if not last:
        reduce_twin(plan.splits)((grid[0] * HEADS, 1, 1), (*partials[:2], *outputs))


def split_twin(width: int, splits: int, *, last: bool) -> Body:
    """Return the plain twin of `_split`."""

    def body(grid: tuple[int, int, int], values: Sequence[int | float]) -> None:
        qn, qp, ckv, kpe, listed, partial, partial_lse, output, lse, arrived, scale, *_ = values
        tokens, bf16 = grid[0], torch.bfloat16
        queries = (
            at(qn, (tokens, HEADS, CKV), bf16).float(),
            at(qp, (tokens, HEADS, KPE), bf16).float(),
        )
        lists = at(listed, (tokens, splits, width // splits), torch.int32).long()
        rows = int(lists.max()) + 1
        keys, tails = at(ckv, (rows, CKV), bf16).float(), at(kpe, (rows, KPE), bf16).float()
        sums, answers = (
            at(partial_lse, (tokens, splits, HEADS)),
            at(partial, (tokens, splits, HEADS, CKV)),
        )
        for token in range(tokens):
            for split in range(splits):
                listed_here = lists[token, split]
                chosen = listed_here[listed_here >= 0]
                logits = queries[0][token] @ keys[chosen].T + queries[1][token] @ tails[chosen].T
                logits = logits * scale * torch.log(torch.tensor(2.0))
                sums[token, split] = logits.logsumexp(1) / torch.log(torch.tensor(2.0))
                answers[token, split] = logits.softmax(1) @ keys[chosen]
        if last:
            _ready = at(arrived, (tokens,), torch.int32)
            _weigh(tokens, splits, partial, partial_lse, output, lse)

    return body


def reduce_twin(splits: int) -> Body:
    """Return the plain twin of `_reduce`."""
    return lambda grid, values: _weigh(grid[0] // HEADS, splits, *values[:4])


def _weigh(tokens: int, splits: int, partial: int, partial_lse: int, output: int, lse: int) -> None:
    sums, answers = (
        at(partial_lse, (tokens, splits, HEADS)),
        at(partial, (tokens, splits, HEADS, CKV)),
    )
    most = sums.max(dim=1).values
    weights = torch.exp2(sums - torch.where(most == -torch.inf, 0.0, most)[:, None])
    total = weights.sum(1)
    safe = torch.where(total > 0, total, 1.0)
    answer = (answers * weights[..., None]).sum(1) / safe[..., None]
    at(output, (tokens, HEADS, CKV), torch.bfloat16).copy_(answer)
    at(lse, (tokens, HEADS)).copy_(most + torch.log2(safe))
