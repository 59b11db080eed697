"""A call captured once as a CUDA graph and replayed: what is inside runs again, what came before not."""

from collections.abc import Callable

import torch
from torch import Tensor


class Captured:
    """Replays `call` on the addresses that it was captured with; captures anew for other addresses.

    What is returned are the graph's own outputs, which the next replay overwrites. The memory behind
    the inputs must live as long as this object: a graph knows addresses and nothing else.
    """

    def __init__(self, call: Callable[..., tuple[Tensor, ...]]) -> None:
        """`call` takes tensors and constants, launches kernels, and never waits for the GPU."""
        self._call = call
        self._kept: dict[tuple, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}

    def __call__(self, *inputs: Tensor | float) -> tuple[Tensor, ...]:
        """Return the outputs of `call(*inputs)`."""
        key = tuple(map(identity, inputs))
        if key not in self._kept:
            self._kept[key] = capture(self._call, inputs)
        graph, outputs = self._kept[key]
        graph.replay()
        return outputs


def identity(value: Tensor | float) -> object:
    """Return what of an input is written into a graph: a tensor's place and form, or the number."""
    if isinstance(value, Tensor):
        return value.data_ptr(), value.dtype, value.shape, value.stride()
    return value


def capture(
    call: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor | float, ...]
) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]:
    """Return the graph of one call and its outputs, which hold no answer before a replay."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        call(*inputs)  # compiles what is to be compiled
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call(*inputs)
    return graph, outputs
