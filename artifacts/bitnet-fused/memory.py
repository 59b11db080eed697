"""What a training step keeps: bytes saved for the backward pass, and the peak of what is allocated."""

from typing import Any

import torch
from torch import Tensor, nn


def saved_bytes(layer: nn.Module, call: Any, x: Tensor) -> int:
    """Return the bytes that a forward pass keeps alive besides parameters, each storage counted once."""
    own = {each.untyped_storage().data_ptr() for each in plain_parameters(layer)}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        if type(tensor) is Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.detach()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = call(x.detach().requires_grad_())
    found = {
        place: each.untyped_storage().nbytes() for place, each in kept.items() if place not in own
    }
    del y
    return sum(found.values())


def plain_parameters(layer: nn.Module) -> list[Tensor]:
    """Return a layer's parameters, and what a parameter of torchao's kind holds inside."""
    return [getattr(each, "_data", each).detach() for each in layer.parameters()]


def peak_bytes(layer: nn.Module, call: Any, x: Tensor, upstream: Tensor) -> int:
    """Return how far a step on a GPU raises what is allocated, gradients included."""
    x = x.detach().requires_grad_()
    for _ in range(2):
        call(x).backward(upstream)
        layer.zero_grad(set_to_none=True)
        x.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call(x).backward(upstream)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
