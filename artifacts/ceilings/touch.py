"""What it costs to start a kernel: one that writes one word, alone, and as the nodes of a graph."""

from pathlib import Path
from typing import Any

import torch
from shared.cuda_module import Arguments, check, function, launch
from torch import Tensor

SOURCE = Path(__file__).with_name("touch.cu")
BLOCK = (1, 1), 1, 0  # grid, threads of a block, bytes of shared memory


def touch(out: Tensor, place: int, value: int) -> None:
    """Start the kernel that sets out[place] = value; `out` is int32."""
    launch(touch_kernel(), *BLOCK, Arguments(out, place, value))


def touch_kernel() -> Any:
    """Build and load the kernel, once a process."""
    return function(SOURCE, "touch")


class TouchGraph:
    """A CUDA graph of kernel nodes in a chain: node i sets out[i] = values[i].

    Built through the driver, node by node, because torch's graphs do not give away their nodes.
    """

    def __init__(self, out: Tensor, values: list[int]) -> None:
        """Build and instantiate a chain of len(values) nodes that write to `out`, int32."""
        from cuda.bindings import driver

        self.out = out
        self.kernel = touch_kernel()
        self.graph = check(driver.cuGraphCreate(0))
        self.nodes: list[Any] = []
        for place, value in enumerate(values):
            before = self.nodes[-1:]
            described, arguments = self._described(place, value)
            status = driver.cuGraphAddKernelNode(self.graph, before or None, len(before), described)
            del arguments  # the driver has copied them
            self.nodes.append(check(status))
        self.executable = check(driver.cuGraphInstantiate(self.graph, 0))

    # region: change a node
    def change(self, place: int, value: int) -> None:
        """Make node `place` of the instantiated graph write another value from now on."""
        from cuda.bindings import driver

        described, arguments = self._described(place, value)
        status = driver.cuGraphExecKernelNodeSetParams(
            self.executable, self.nodes[place], described
        )
        del arguments  # until here the driver read them; a description that outlives them is fatal
        check(status)

    # endregion

    def _described(self, place: int, value: int) -> tuple[Any, Arguments]:
        """Describe the node that sets out[place] = value, and return the arguments it points to."""
        from cuda.bindings import driver

        arguments = Arguments(self.out, place, value)
        node = driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = self.kernel
        node.gridDimX = node.gridDimY = node.gridDimZ = 1
        node.blockDimX = node.blockDimY = node.blockDimZ = 1
        node.kernelParams = arguments.pointer
        return node, arguments

    def launch(self) -> None:
        """Start the whole chain on torch's current stream."""
        from cuda.bindings import driver

        check(driver.cuGraphLaunch(self.executable, torch.cuda.current_stream().cuda_stream))

    def close(self) -> None:
        """Give the graph back, once all of its launches have ended."""
        from cuda.bindings import driver

        torch.cuda.synchronize()
        check(driver.cuGraphExecDestroy(self.executable))
        check(driver.cuGraphDestroy(self.graph))
