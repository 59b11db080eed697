"""What it costs to start a kernel: one that writes one word, alone, and as the nodes of a graph."""

from typing import Any

import torch
from cuda_driver import Arguments, check, function, launch
from torch import Tensor


def touch(out: Tensor, place: int, value: int) -> None:
    """Start the kernel that sets out[place] = value; `out` is int32."""
    launch(function("touch", "touch"), 1, 1, 0, Arguments(out, place, value))


class TouchGraph:
    """A CUDA graph of kernel nodes in a chain: node i sets out[i] = values[i].

    Built through the driver, node by node, because torch's graphs do not give away their nodes.
    """

    def __init__(self, out: Tensor, values: list[int]) -> None:
        """Build and instantiate a chain of len(values) nodes that write to `out`, int32."""
        from cuda.bindings import driver

        self.out = out
        self.kernel = function("touch", "touch")
        self.graph = check(driver.cuGraphCreate(0))
        self.nodes: list[Any] = []
        self.kept: dict[int, Any] = {}
        for place, value in enumerate(values):
            before = self.nodes[-1:]
            node = check(
                driver.cuGraphAddKernelNode(
                    self.graph, before or None, len(before), self._node(place, value)
                )
            )
            self.nodes.append(node)
        self.executable = check(driver.cuGraphInstantiate(self.graph, 0))

    def _node(self, place: int, value: int) -> Any:
        """Describe the kernel node that sets out[place] = value."""
        from cuda.bindings import driver

        arguments = Arguments(self.out, place, value)
        node = driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = self.kernel
        node.gridDimX = node.gridDimY = node.gridDimZ = 1
        node.blockDimX = node.blockDimY = node.blockDimZ = 1
        node.kernelParams = arguments.pointer
        self.kept[place] = arguments, node  # alive until the driver has copied them
        return node

    def change(self, place: int, value: int) -> None:
        """Make node `place` of the instantiated graph write another value from now on."""
        from cuda.bindings import driver

        check(
            driver.cuGraphExecKernelNodeSetParams(
                self.executable, self.nodes[place], self._node(place, value)
            )
        )

    def launch(self) -> None:
        """Start the whole chain on torch's current stream."""
        from cuda.bindings import driver

        check(driver.cuGraphLaunch(self.executable, torch.cuda.current_stream().cuda_stream))
