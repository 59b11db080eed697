"""Calls of no arguments as CUDA graphs."""

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def graphed(call: Callable[[], T]) -> Callable[[], T]:
    """Return what replays `call()` as a CUDA graph, captured after three calls on a stream of its own.

    A replay returns the outputs of the capture, written anew. Raises RuntimeError for what cannot be
    captured.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call()

    def replay() -> T:
        graph.replay()
        return outputs

    return replay


def replays(calls: dict[str, Callable[[], T]]) -> dict[str, Callable[[], T]]:
    """Return, as `name, graph`, each call that can be captured as a CUDA graph; why not is printed."""
    found = {}
    for name, call in calls.items():
        try:
            found[f"{name}, graph"] = graphed(call)
        except RuntimeError as error:
            print(f"{name}, graph: {error}")  # noqa: T201 - for who reads the output
    return found
