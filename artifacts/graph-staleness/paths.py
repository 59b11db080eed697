"""Every way to start the same kernels: each is a callable of the operation's inputs.

A way that says "ready" or "nothing updated" is bound to the addresses of its first call, and right
only as long as the tensors stay there. All the others take any tensors, and allocate their outputs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from cases import Machine
from dispatcher import Dispatcher
from graph import Launch, PatchedGraph, check
from kernel import SplitK, outputs_for
from memory import addresses_of
from shared import splitk as study
from shared.dsa import CKV, HEADS, KPE, LOG2_E
from shared.splitk import OPERAND, SLICE, STOPS, Plan, splitk
from streams import torch_stream
from torch import Tensor

Outputs = Sequence[Tensor]
Way = Callable[..., Outputs]


def start_by_triton(plan: Plan, tensors: Sequence[Tensor], scale: float, scratch: Outputs) -> None:
    """Start the study's kernels by Triton's own launcher, on memory that the caller has made."""
    *inputs, output, lse = tensors
    tokens, width = inputs[4].shape
    partial, partial_lse, arrived = scratch
    last = plan.reduction == "last"
    study._split[tokens, plan.splits](
        *inputs, partial, partial_lse, output, lse, arrived if last else lse, scale * LOG2_E,
        width, plan.splits, plan.block, plan.stages, plan.masks, last, STOPS.index(plan.stop),
        HEADS, CKV, KPE, OPERAND, num_warps=plan.warps,
    )  # fmt: skip
    if not last:
        study._reduce[tokens * HEADS, CKV // SLICE](
            partial, partial_lse, output, lse, plan.splits, HEADS, CKV, SLICE, num_warps=4
        )


class Prepared:
    """What the ways of one plan share: made by their first call, one for each way."""

    def __init__(
        self, machine: Machine, plan: Plan, inputs: Sequence[Tensor], scale: float
    ) -> None:
        """Allocate outputs and scratch, and note all values of this first call."""
        self.driver, self.plan = machine.driver, plan
        self.operation = SplitK(plan, machine.load)
        self.tensors = [*inputs, *outputs_for(inputs[0])]
        self.steps = self.operation.steps(self.tensors)
        self.scratch = self.operation.scratch(self.tensors)
        self.scratch_addresses = addresses_of(self.scratch)
        self.values = self.operation.values(
            addresses_of(self.tensors), [scale], self.scratch_addresses
        )
        self.scale = scale
        self.device = inputs[0].device

    def written(self, launch: Launch, inputs: Sequence[Tensor], scale: float) -> list[Tensor]:
        """Allocate outputs, write all parameters of a call into a launch, and return the outputs."""
        outputs = outputs_for(inputs[0])
        addresses = addresses_of((*inputs, *outputs))
        launch.write(self.operation.values(addresses, [scale], self.scratch_addresses))
        return outputs

    def capture(self) -> Any:
        """Capture one launch, by Triton's launcher where there is a GPU; return the graph."""
        mode = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        direct = Launch(self.driver, self.steps)
        direct.write(self.values)
        if self.device.type != "cuda":
            check(self.driver.cuStreamBeginCapture(0, mode))
            direct.start(0)
            return check(self.driver.cuStreamEndCapture(0))
        start_by_triton(self.plan, self.tensors, self.scale, self.scratch)
        side = torch.cuda.Stream(self.device)
        torch.cuda.synchronize()
        check(self.driver.cuStreamBeginCapture(side.cuda_stream, mode))
        with torch.cuda.stream(side):
            start_by_triton(self.plan, self.tensors, self.scale, self.scratch)
        return check(self.driver.cuStreamEndCapture(side.cuda_stream))


def once(machine: Machine, plan: Plan, make: Callable[[Prepared], Way]) -> Way:
    """Return a way that is made by `make` when it is first called."""
    made: list[Way] = []

    def way(*given: Any) -> Outputs:
        if not made:
            made.append(make(Prepared(machine, plan, given[:-1], given[-1])))
        return made[0](*given)

    return way


def by_triton(prepared: Prepared) -> Way:
    """Triton's launcher."""

    def way(*given: Any) -> Outputs:
        outputs = outputs_for(given[0])
        start_by_triton(prepared.plan, [*given[:-1], *outputs], given[-1], prepared.scratch)
        return outputs

    return way


def direct(prepared: Prepared) -> Way:
    """One driver call a kernel, with arguments written anew."""
    launch = Launch(prepared.driver, prepared.steps)

    def way(*given: Any) -> Outputs:
        outputs = prepared.written(launch, given[:-1], given[-1])
        launch.start(torch_stream(prepared.device))
        return outputs

    return way


def direct_ready(prepared: Prepared) -> Way:
    """One driver call a kernel, with the arguments of the first call."""
    launch = Launch(prepared.driver, prepared.steps)
    launch.write(prepared.values)

    def way(*_: Any) -> Outputs:
        launch.start(torch_stream(prepared.device))
        return prepared.tensors[5:]

    return way


def graph_unchanged(prepared: Prepared) -> Way:
    """A replay of the graph of the first call."""
    graph = PatchedGraph(prepared.driver, prepared.steps, prepared.values)

    def way(*_: Any) -> Outputs:
        graph.replay(torch_stream(prepared.device))
        return prepared.tensors[5:]

    return way


def graph_updated(prepared: Prepared, *, captured: bool = False) -> Way:
    """A replay after every parameter of every node was written and set."""
    capture = prepared.capture if captured else None
    graph = PatchedGraph(prepared.driver, prepared.steps, prepared.values, capture)

    def way(*given: Any) -> Outputs:
        outputs = prepared.written(graph, given[:-1], given[-1])
        graph.update()
        graph.replay(torch_stream(prepared.device))
        return outputs

    return way


def captured_updated(prepared: Prepared) -> Way:
    """The same with a graph that was captured and whose nodes were found in it."""
    return graph_updated(prepared, captured=True)


def dispatched(prepared: Prepared, **options: Any) -> Way:
    """Our dispatcher."""
    dispatcher = Dispatcher(prepared.driver, prepared.operation, **options)

    def way(*given: Any) -> Outputs:
        outputs = outputs_for(given[0])
        dispatcher([*given[:-1], *outputs], given[-1])
        return outputs

    return way


def torch_graph(prepared: Prepared) -> Way:
    """Capture the study kernel by torch, with copies of what is small; the caches are where they were."""
    inputs = list(prepared.tensors[:5])
    static = [
        tensor.clone() if number in (0, 1, 4) else tensor for number, tensor in enumerate(inputs)
    ]
    splitk(*static, prepared.scale, plan=prepared.plan)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = splitk(*static, prepared.scale, plan=prepared.plan)

    def way(*given: Any) -> Outputs:
        for number in (0, 1, 4):
            static[number].copy_(given[number])
        graph.replay()
        return outputs

    return way


def ways(machine: Machine, plan: Plan, *, by_torch: bool) -> dict[str, Way]:
    """Return the ways that both plans are timed with; `by_torch` takes in torch's own graphs, which
    need its allocator.
    """
    made = {
        "Triton's launcher": by_triton,
        "direct launch": direct,
        "direct launch, ready": direct_ready,
        "graph, nothing updated": graph_unchanged,
        "graph, all updated": graph_updated,
        "captured graph, all updated": captured_updated,
        "dispatcher": dispatched,
        "dispatcher, audited": lambda prepared: dispatched(prepared, audit_every=1),
        "dispatcher, cache off": lambda prepared: dispatched(prepared, cache=False),
    }
    if by_torch:
        made["torch's graph, inputs copied"] = torch_graph
    return {name: once(machine, plan, make) for name, make in made.items()}
